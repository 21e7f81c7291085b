"""``script/bootstrap``: one command on a bare machine, twice at once, again, and what it says when it can't."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.support import packages

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 120


@pytest.fixture(scope="session")
def one_package(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder with one package, and its lines of the lock file."""
    text = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    lines = re.search(r"^setuptools==(?:.*\\\n)+.*\n", text, flags=re.MULTILINE)
    assert lines
    folder = tmp_path_factory.mktemp("packages")
    (folder / "lock.txt").write_text(lines[0], encoding="utf-8")
    return packages.download(folder / "lock.txt", folder), lines[0]


@pytest.fixture
def project(tmp_path: Path, one_package: tuple[Path, str]) -> Path:
    top = tmp_path / "a project"
    shutil.copytree(ROOT / "script", top / "script", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, top / name)
    (top / "configdb_sync").mkdir()
    (top / "configdb_sync/__init__.py").write_text("", encoding="utf-8")
    for name in ("requirements.txt", "requirements-dev.txt"):
        (top / name).write_text(one_package[1], encoding="utf-8")
    return top


def start(project: Path, environ: Mapping[str, str], *arguments: str) -> subprocess.Popen[str]:
    command = [str(project / "script/bootstrap"), *arguments]
    return subprocess.Popen(command, env=environ, cwd="/", stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    output, errors = process.communicate(timeout=LIMIT_S)
    assert output == ""
    return process.returncode, errors


def test_twice_at_once_then_again_then_with_another_lock(project: Path, one_package: tuple[Path, str]) -> None:
    ours = packages.environ(one_package[0], PYTHONPATH="/nowhere", PIP_USER="1", PIP_TARGET="/nowhere")
    both = [start(project, ours), start(project, ours, "dev")]
    assert [finish(each)[0] for each in both] == [0, 0]
    imported = subprocess.run(
        [project / ".venv/bin/python", "-c", "import configdb_sync; print(configdb_sync.__file__)"],
        capture_output=True,
        text=True,
        check=True,
        cwd="/",
    )
    assert imported.stdout.strip() == str(project / "configdb_sync/__init__.py")
    assert finish(start(project, ours)) == (0, "")
    assert finish(start(project, ours, "dev")) == (0, "")
    left_over = project / ".venv/lib/left-over"
    left_over.touch()
    with (project / "requirements.txt").open("a", encoding="utf-8") as lock:
        lock.write("# another\n")
    code, said = finish(start(project, ours))
    assert code == 0
    assert "making .venv" in said
    assert not left_over.exists()


def test_the_environment_stays_whichever_name_leads_to_its_python(
    project: Path, one_package: tuple[Path, str], tmp_path: Path
) -> None:
    shims = tmp_path / "shims"
    shims.mkdir()
    (shims / "python3").symlink_to(Path(sys.executable).resolve())
    usual = f"{shims}:/usr/bin:/bin"
    code, said = finish(start(project, packages.environ(one_package[0], PYTHON="", PATH=usual)))
    assert code == 0, said
    within = f"{project}/.venv/bin:{usual}"
    assert finish(start(project, packages.environ(one_package[0], PYTHON="", PATH=within))) == (0, "")
    real = str(Path(sys.executable).resolve())
    assert finish(start(project, packages.environ(one_package[0], PYTHON=real))) == (0, "")


def test_the_old_environment_serves_until_the_new_one_is_whole(project: Path, one_package: tuple[Path, str]) -> None:
    ours = packages.environ(one_package[0])
    assert finish(start(project, ours))[0] == 0
    lock = project / "requirements.txt"
    right = lock.read_text(encoding="utf-8")
    before = contents(project / ".venv")
    lock.write_text(re.sub(r"sha256:[0-9a-f]{64}", "sha256:" + 64 * "0", right), encoding="utf-8")
    code, said = finish(start(project, ours))
    assert code == 1
    assert "could not install the packages" in said
    assert contents(project / ".venv") == before
    lock.write_text(right + "# another\n", encoding="utf-8")
    assert finish(start(project, ours))[0] == 0
    assert (project / ".venv").stat().st_ino != before["."], "made anew"
    assert [path.name for path in (project / ".cache").iterdir() if "venv" in path.name] == []
    for path in ((project / ".venv/pyvenv.cfg"), *(project / ".venv/bin").iterdir()):
        assert b"venv.new" not in path.read_bytes(), path
    first = (project / ".venv/bin/configdb-sync").read_text(encoding="utf-8")
    assert f"{project}/.venv/bin/python" in first
    activated = f'. "{project}/.venv/bin/activate" && echo "$VIRTUAL_ENV $PS1"'
    shell = subprocess.run(["sh", "-c", activated], capture_output=True, text=True, check=True, env={"PS1": "$"})
    assert shell.stdout == f"{project}/.venv (.venv) $\n"


def contents(top: Path) -> dict[str, object]:
    """Everything in a folder, byte for byte, and which folder it is."""
    found: dict[str, object] = {
        str(path.relative_to(top)): path.read_bytes()
        for path in top.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    return found | {".": top.stat().st_ino}


def test_a_system_without_authorities_is_told_what_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "script/support"))
    tool = importlib.import_module("bootstrap")
    bundle = tmp_path / "ca-certificates.crt"
    asked: list[str] = []
    monkeypatch.setattr(tool, "CERTIFICATES", bundle)
    monkeypatch.setattr(tool.debian, "is_system_python", lambda python: python == "/usr/bin/python3")
    monkeypatch.setattr(tool.debian, "install", asked.extend)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    tool.require_certificates("/opt/python3")  # its pip brings its own
    with pytest.raises(tool.BootstrapError, match=f"{bundle} is missing; .*apt-get install ca-certificates"):
        tool.require_certificates("/usr/bin/python3")
    assert asked == []
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(tool.BootstrapError, match="is missing"):
        tool.require_certificates("/usr/bin/python3")
    monkeypatch.setattr(tool.debian, "install", lambda names: bundle.write_text(" ".join(names)))
    tool.require_certificates("/usr/bin/python3")
    assert bundle.read_text() == "ca-certificates"


def test_a_package_that_is_not_the_locked_one_is_refused(project: Path, one_package: tuple[Path, str]) -> None:
    wrong = re.sub(r"sha256:[0-9a-f]{64}", "sha256:" + 64 * "0", one_package[1])
    (project / "requirements.txt").write_text(wrong, encoding="utf-8")
    code, said = finish(start(project, packages.environ(one_package[0])))
    assert code == 1
    assert "could not install the packages" in said
    assert not list((project / ".venv").glob("stamp-*")), "or the next run would take it for whole"


def test_a_named_python_must_do(project: Path, one_package: tuple[Path, str]) -> None:
    code, said = finish(start(project, packages.environ(one_package[0], PYTHON="/bin/false")))
    assert code == 1
    assert said == "PYTHON=/bin/false is not a Python 3.11 or later that runs\n"


def test_a_python_that_only_looks_like_one_is_passed_over(
    project: Path, one_package: tuple[Path, str], tmp_path: Path
) -> None:
    shims = tmp_path / "shims"
    shims.mkdir()
    for name in ("python3", "python3.13"):
        (shims / name).write_text("#!/bin/sh\necho 'no such version' >&2\nexit 127\n", encoding="utf-8")
        (shims / name).chmod(0o755)
    (shims / "python3.12").symlink_to(sys.executable)
    (project / "script/support/bootstrap.py").write_text("import sys; sys.exit(sys.executable)", encoding="utf-8")
    environ = packages.environ(one_package[0], PYTHON="", PATH=f"{shims}:/usr/bin:/bin")
    assert finish(start(project, environ)) == (1, f"{shims}/python3.12\n")


def test_usage(project: Path, one_package: tuple[Path, str]) -> None:
    code, said = finish(start(project, packages.environ(one_package[0]), "everything"))
    assert code == 2
    assert "usage" in said


@pytest.fixture
def read_only(project: Path) -> Iterator[Callable[[], None]]:
    """Give ``read_only()``: from then on nobody can write to the project, root included."""
    mounted: list[Path] = []

    def close() -> None:
        if os.geteuid() != 0:
            for path in (project, *project.rglob("*")):
                path.chmod(path.stat().st_mode & 0o555)
            return
        for options in (["--bind", str(project)], ["-o", "remount,ro,bind"]):
            done = subprocess.run(["mount", *options, str(project)], capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"nothing can be mounted: {done.stderr.strip()}")
            mounted.append(project)

    yield close
    if mounted:
        subprocess.run(["umount", str(project)], check=True)
    else:
        for path in (project, *project.rglob("*")):
            if not path.is_symlink():
                path.chmod(path.stat().st_mode | 0o200)


@pytest.mark.parametrize("script", ["bootstrap", "demo", "test", "lint", "lab", "bench", "plugin"])
def test_a_read_only_checkout_says_what_to_do(
    project: Path, one_package: tuple[Path, str], read_only: Callable[[], None], script: str
) -> None:
    read_only()
    environ = packages.environ(one_package[0], PYTHONDONTWRITEBYTECODE="1")
    done = subprocess.run(
        [project / "script" / script], env=environ, cwd="/", capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"bootstrap: {project} can't be written to (")
    assert done.stderr.endswith(f" Copy it and run the script in the copy: cp -R '{project}' ~/configdb-sync\n")


def test_what_is_made_already_serves_in_a_read_only_checkout(
    project: Path, one_package: tuple[Path, str], read_only: Callable[[], None]
) -> None:
    """Tests and linters write there; the product alone doesn't."""
    environ = packages.environ(one_package[0], PYTHONDONTWRITEBYTECODE="1")
    assert finish(start(project, environ, "dev"))[0] == 0
    read_only()
    assert finish(start(project, environ)) == (0, "")
    code, said = finish(start(project, environ, "dev"))
    assert code == 1
    assert "can't be written to" in said
