"""F5: the launcher finds its Python in a fixed order, needs nothing of what is around it, says what to do."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.plugin.conftest import ROOT
from tests.plugin.jail import Jail

PATH = "/usr/bin:/bin"


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """A plugin with the launchers and folders for the libraries of two Pythons, none of which is there."""
    folder = tmp_path / "a plugin"
    shutil.copytree(ROOT / "deployment_scripts", folder / "deployment_scripts")
    for name in ("common", "cp311", "cp312"):
        (folder / "vendor" / name).mkdir(parents=True)
    return folder


def python(path: Path, version: str | None) -> Path:
    """Make a program that says it is Python ``version`` (None: too old), and else shows what it is given."""
    path.parent.mkdir(parents=True, exist_ok=True)
    answer = "exit 1" if version is None else f"echo cp{version.replace('.', '')}; exit"
    path.write_text(
        f'#!/bin/sh\n[ "$1" = -c ] && {{ {answer}; }}\n'
        'echo "$0"; echo "$*"; echo "$PYTHONPATH"; echo "$LC_ALL $PYTHONIOENCODING ${PYTHONHOME-none} ${HOME-none}"\n'
        'echo "${CONFIGDB_SYNC_STATE-none}"\n'
    )
    path.chmod(0o755)
    return path


def call(plugin: Path, *arguments: str, path: str = PATH, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [str(plugin / "deployment_scripts/upload_data_to_configdb"), *arguments]
    return subprocess.run(command, env={"PATH": path, **environ}, capture_output=True, text=True, check=False)


def test_the_command_line_and_what_is_around_it(plugin: Path) -> None:
    runtime = python(plugin / "runtime/bin/python3", "3.12")
    done = call(plugin, "--stage", "pre", "--env", "5", PYTHONHOME="/nowhere", LC_ALL="tlh")
    assert done.stdout.splitlines() == [
        str(runtime),
        "-m configdb_sync sync --from mcollective --stage pre --env 5",
        f"{plugin}:{plugin}/vendor/common:{plugin}/vendor/cp312",
        "C.UTF-8 utf-8:backslashreplace none none",
        "none",
    ]


def test_the_order(plugin: Path, tmp_path: Path) -> None:
    named = python(tmp_path / "my own/python", "3.11")
    own = python(tmp_path / "bin/python3.11", "3.11")
    runtime = python(plugin / "runtime/bin/python3", "3.12")
    path = f"{tmp_path / 'bin'}:{PATH}"
    assert call(plugin, path=path, CONFIGDB_SYNC_PYTHON=str(named)).stdout.startswith(str(named))
    assert call(plugin, path=path).stdout.startswith(str(runtime))
    # One that doesn't run here, and one without libraries, are passed by.
    runtime.write_bytes(b"\x7fELF of another machine")
    python(tmp_path / "bin/python3.13", "3.13")
    assert call(plugin, path=path).stdout.startswith(str(own))


@pytest.mark.parametrize("version", [None, "3.14"])
def test_without_one_it_says_what_to_do(plugin: Path, tmp_path: Path, version: str | None) -> None:
    for name in ("python3", "python3.11", "python3.12", "python3.13"):
        python(tmp_path / "bin" / name, version)
    done = call(plugin, path=f"{tmp_path / 'bin'}:{PATH}")
    assert done.returncode == 2
    assert done.stderr.startswith("failed: no Python for configdb-sync")
    for text in ("cp311 cp312", "CONFIGDB_SYNC_RUNTIME", "CONFIGDB_SYNC_PYTHON"):
        assert text in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_one_that_was_named_and_does_not_do_is_said_so(plugin: Path, tmp_path: Path) -> None:
    python(plugin / "runtime/bin/python3", "3.12")
    done = call(plugin, CONFIGDB_SYNC_PYTHON=str(python(tmp_path / "old", None)))
    assert done.returncode == 2
    assert f"CONFIGDB_SYNC_PYTHON={tmp_path / 'old'}" in done.stderr


def test_it_is_found_through_a_link(plugin: Path, tmp_path: Path) -> None:
    runtime = python(plugin / "runtime/bin/python3", "3.12")
    (tmp_path / "link").symlink_to(plugin / "deployment_scripts/configdb-sync")
    done = subprocess.run(
        [tmp_path / "link", "runs", "last"], env={"PATH": PATH}, capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines()[:2] == [str(runtime), "-m configdb_sync runs last"]


@pytest.mark.parametrize("found", [True, False])
def test_what_the_bundled_python_said_is_told_by_its_last_line(plugin: Path, tmp_path: Path, found: bool) -> None:
    """F5: why it can't start is the first thing that whoever mends it asks."""
    (plugin / "runtime/bin").mkdir(parents=True)
    (plugin / "runtime/bin/python3").write_text(
        "#!/bin/sh\necho 'a first line' >&2\n"
        "echo 'python3: error while loading shared libraries: libx.so.1' >&2\nexit 127\n"
    )
    (plugin / "runtime/bin/python3").chmod(0o755)
    for name in ("python3", "python3.11", "python3.12", "python3.13"):
        python(tmp_path / "bin" / name, "3.12" if found else None)
    done = call(plugin, path=f"{tmp_path / 'bin'}:{PATH}")
    assert "error while loading shared libraries: libx.so.1" in done.stderr
    assert "a first line" not in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert (done.returncode, done.stderr.split(":")[0]) == ((0, "warning") if found else (2, "failed"))


def _cache(jail: Jail) -> Path:
    return jail.root / "var/cache/configdb-sync"


OPENED: dict[str, Callable[[Path], None]] = {
    "another mode": lambda path: path.chmod(0o755),
    "another user": lambda path: os.chown(path, 12345, 0),
    "a link": lambda path: path.rename(path.with_name("elsewhere")).parent.joinpath(path.name).symlink_to("elsewhere"),
}


@pytest.mark.parametrize("opened", OPENED)
def test_no_code_is_run_from_a_cache_that_others_can_write(master: Jail, opened: str) -> None:
    """F5: compiled code that somebody else laid there would be run as root."""
    cache = _cache(master)
    shutil.rmtree(cache, ignore_errors=True)
    assert master.run("configdb-sync --version").stderr == ""
    (compiled,) = cache.rglob("configdb_sync/__init__.cpython-*.pyc")
    forged = compiled.read_bytes().replace(b"0.1.0", b"6.6.6")
    shutil.rmtree(cache)
    cache.mkdir(mode=0o700)
    try:
        OPENED[opened](cache)
        if cache.is_dir():
            (cache / compiled.relative_to(cache)).parent.mkdir(parents=True)
            compiled.write_bytes(forged)
        done = master.run("configdb-sync --version")
        assert done.stdout.startswith("configdb-sync, version 0.1.0"), done.stdout
        assert "/var/cache/configdb-sync isn't used" in done.stderr
        assert len(list(cache.rglob("*.pyc"))) <= 1
    finally:
        for path in (cache, cache.with_name("elsewhere")):
            if path.is_symlink() or path.is_file():
                path.unlink()
            shutil.rmtree(path, ignore_errors=True)


def test_the_forged_code_would_be_run(master: Jail) -> None:
    """What the test above guards against, in a folder of root's alone."""
    cache = _cache(master)
    shutil.rmtree(cache, ignore_errors=True)
    assert master.run("configdb-sync --version").returncode == 0
    (compiled,) = cache.rglob("configdb_sync/__init__.cpython-*.pyc")
    compiled.write_bytes(compiled.read_bytes().replace(b"0.1.0", b"6.6.6"))
    assert "6.6.6" in master.run("configdb-sync --version").stdout
    shutil.rmtree(cache)
