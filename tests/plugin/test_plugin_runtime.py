"""F2: the portable Python and the libraries in the plugin: where they come from, and that a CentOS 7 can run them."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path

import elf_versions
import pin_python
import plugin_runtime
import pytest
from plugin_runtime import BuildError, Pin, check, locked_for, obtain, unpack

from tests.plugin.conftest import ROOT, VERSION, pin, served

NOWHERE = Pin("3.13.0", "http://127.0.0.1:9/pinned.tar.gz", "0" * 64)


def made(path: Path, *members: tuple[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o755
            tar.addfile(info, io.BytesIO(content))
    return path


def test_the_pin_is_an_address_and_a_sum_of_a_python_that_the_product_supports() -> None:
    pin = plugin_runtime.pinned()
    host = "https://github.com/astral-sh/python-build-standalone/releases/download/"
    name = rf"cpython-{re.escape(pin.version)}\+\d{{8}}-x86_64-unknown-linux-gnu-install_only_stripped\.tar\.gz"
    assert pin.url.startswith(host)
    assert re.fullmatch(name, pin.file)
    assert re.fullmatch("[0-9a-f]{64}", pin.sha256)
    assert pin.version.rpartition(".")[0] in plugin_runtime.PYTHONS.split()


def build(version: str, *files: tuple[str, str | None], **changed: object) -> dict[str, object]:
    major, minor, micro = map(int, version.split("."))
    numbers = {"implementation": "cpython", "major": major, "minor": minor, "micro": micro, "freethreaded": False}
    listed = [{"filename": name, "url": f"https://x/{name}", "sha256": digest} for name, digest in files]
    return {"python_version": numbers | changed, "files": listed}


def test_the_newest_patch_release_of_one_minor_is_pinned() -> None:
    here = "cpython-{}-x86_64-unknown-linux-gnu-install_only_stripped.tar.gz"
    builds = [
        build("3.13.9", (here.format("3.13.9"), "9")),
        build("3.13.10", (here.format("3.13.10").replace("gnu", "musl"), "m"), (here.format("3.13.10"), "10")),
        build("3.13.11", (here.format("3.13.11").replace("x86_64", "aarch64"), "11")),
        build("3.13.12", (here.format("3.13.12"), None)),
        build("3.13.13", ("cpython-3.13.13-x86_64-unknown-linux-gnu-pgo+lto-full.tar.zst", "13")),
        build("3.13.14", (here.format("3.13.14"), "14"), freethreaded=True),
        build("3.13.15", (here.format("3.13.15"), "15"), implementation="pypy"),
        build("3.14.16", (here.format("3.14.16"), "16")),
    ]
    found = pin_python.newest(builds, (3, 13))
    assert found == {"version": "3.13.10", "url": f"https://x/{here.format('3.13.10')}", "sha256": "10"}
    with pytest.raises(pin_python.PinError, match=r"no build of Python 3\.12"):
        pin_python.newest(builds, (3, 12))


def test_a_pin_is_renewed_from_pbs_installers_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As pip finds it: here in a folder, with PyPI's own name and layout."""
    name = "cpython-3.13.99-x86_64-unknown-linux-gnu-install_only.tar.gz"
    with zipfile.ZipFile(tmp_path / "pbs_installer-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("pbs_installer/versions.json", json.dumps([build("3.13.99", (name, "0" * 64))]))
        wheel.writestr("pbs_installer-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: pbs-installer\nVersion: 1\n")
        wheel.writestr("pbs_installer-1.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr("pbs_installer-1.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setattr(pin_python, "PIN", tmp_path / "cpython.json")
    assert pin_python.main() == 0
    assert plugin_runtime.pinned(tmp_path / "cpython.json") == plugin_runtime.Pin(
        "3.13.99", f"https://x/{name}", "0" * 64
    )
    assert "3.13.99" in capsys.readouterr().out
    # Nothing is lost where it can't be renewed.
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "nothing"))
    assert pin_python.main() == 1
    assert plugin_runtime.pinned(tmp_path / "cpython.json").version == "3.13.99"


def test_without_a_word_the_pinned_one_is_taken(tmp_path: Path) -> None:
    (tmp_path / "served").mkdir()
    archive = made(tmp_path / "served/a.tar.gz", ("python/x", b""))
    with served(tmp_path / "served") as (url, asked):
        here = plugin_runtime.pinned(pin(tmp_path / "pin.json", url, archive))
        for _ in range(2):
            found = obtain({}, tmp_path / "cache", here)
            assert found is not None
            assert found.read_bytes() == archive.read_bytes()
        assert len(asked) == 1
        archive.write_bytes(b"another")
        with pytest.raises(BuildError, match=r"pinned Python can't be had.*sha256.*CONFIGDB_SYNC_RUNTIME"):
            obtain({}, tmp_path / "other", here)
    assert obtain({"CONFIGDB_SYNC_RUNTIME": "none"}, tmp_path, here) is None


def test_where_it_can_not_be_fetched_the_hook_says_both_ways(tmp_path: Path) -> None:
    """The hook as the builder runs it, with a pin that leads nowhere."""
    support = tmp_path / "script/support"
    shutil.copytree(ROOT / "script/support", support, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pre_build_hook", tmp_path)
    pin(support / "cpython.json", "http://127.0.0.1:9", made(tmp_path / "a.tar.gz", ("python/x", b"")))
    mine = {"PATH": "/usr/bin:/bin", "PYTHON": sys.executable, "CONFIGDB_SYNC_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(["./pre_build_hook"], cwd=tmp_path, env=mine, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout == "Python: a.tar.gz, the pinned one\n"
    for text in (
        "http://127.0.0.1:9/a.tar.gz",
        "CONFIGDB_SYNC_RUNTIME=/path/to/a.tar.gz",
        "CONFIGDB_SYNC_RUNTIME=none",
    ):
        assert text in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not list(tmp_path.rglob("__pycache__"))


@pytest.mark.parametrize("named", ["", "none", "/srv/a.tar.gz"])
def test_which_python_is_taken_is_said(named: str) -> None:
    said = plugin_runtime.source({"CONFIGDB_SYNC_RUNTIME": named}, plugin_runtime.pinned())
    assert ("pinned" in said, "CONFIGDB_SYNC_RUNTIME" in said) == (not named, bool(named))
    assert named in said


def test_compiled_code_is_cleaned_away_and_what_is_hidden_left(tmp_path: Path) -> None:
    for name in ("a/b/__pycache__/c.pyc", "__pycache__/d.pyc", ".venv/__pycache__/e.pyc", "a/b/f.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "link").symlink_to(".venv")
    plugin_runtime.clean(tmp_path)
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()} == {
        *(".venv/__pycache__/e.pyc", "a/b/f.py")
    }


def test_a_path_and_its_sum(tmp_path: Path) -> None:
    path = made(tmp_path / "a.tar.gz", ("python/x", b""))
    named = {"CONFIGDB_SYNC_RUNTIME": str(path)}
    assert obtain(named, tmp_path, NOWHERE) == path
    with pytest.raises(BuildError, match="sha256"):
        obtain({**named, "CONFIGDB_SYNC_RUNTIME_SHA256": "0" * 64}, tmp_path, NOWHERE)
    with pytest.raises(BuildError, match="there is no file"):
        obtain({"CONFIGDB_SYNC_RUNTIME": str(tmp_path / "none")}, tmp_path, NOWHERE)
    # The pinned file, brought here by other means, is checked without being told its sum.
    with pytest.raises(BuildError, match="sha256"):
        obtain(named, tmp_path, replace(NOWHERE, url=f"https://x/{path.name}"))


def test_an_address_wants_a_sum_and_is_fetched_once(tmp_path: Path) -> None:
    (tmp_path / "served").mkdir()
    content = made(tmp_path / "served/a.tar.gz", ("python/x", b"")).read_bytes()
    with served(tmp_path / "served") as (url, asked):
        address = f"{url}/a.tar.gz"
        with pytest.raises(BuildError, match="needs CONFIGDB_SYNC_RUNTIME_SHA256"):
            obtain({"CONFIGDB_SYNC_RUNTIME": address}, tmp_path, NOWHERE)
        right = {"CONFIGDB_SYNC_RUNTIME": address, "CONFIGDB_SYNC_RUNTIME_SHA256": hashlib.sha256(content).hexdigest()}
        cache = tmp_path / "cache"
        for _ in range(2):
            found = obtain(right, cache, NOWHERE)
            assert found is not None
            assert found.read_bytes() == content
        assert len(asked) == 1
        with pytest.raises(BuildError, match="doesn't have the sha256"):
            obtain({**right, "CONFIGDB_SYNC_RUNTIME_SHA256": "0" * 64}, cache, NOWHERE)
        kept = [f"{right['CONFIGDB_SYNC_RUNTIME_SHA256']}.tar.gz"]
        assert [path.name for path in (cache / "plugin").iterdir()] == kept
        with pytest.raises(BuildError, match="can't be fetched"):
            obtain({**right, "CONFIGDB_SYNC_RUNTIME": f"{url}/none"}, tmp_path / "other", NOWHERE)


def test_what_a_service_never_needs_is_left_out(tmp_path: Path) -> None:
    names = ["bin/python3.12", "bin/python3", "lib/python3.12/os.py", "lib/python3.12/lib-dynload/_ssl.so"]
    never = ["bin/pip3", "bin/python3.12-config", "lib/python3.12/test/x.py", "lib/python3.12/tkinter/y.py"]
    never += ["lib/python3.12/__pycache__/os.pyc", "lib/python3.12/ensurepip/z.whl", "lib/python3.12/turtledemo/a.py"]
    never += [
        "include/python3.12/Python.h",
        "lib/tcl8.6/init.tcl",
        "lib/libtcl8.6.so",
        "lib/itcl4.2.4/x",
        "share/man/y",
    ]
    never += ["lib/python3.12/config-3.12-x86_64-linux-gnu/x.a", "lib/python3.12/site-packages/pip/x.py"]
    never += ["lib/python3.12/lib-dynload/_tkinter.cpython-312-x86_64-linux-gnu.so", "lib/python3.12/idlelib/x.py"]
    never += ["lib/python3.12/lib-dynload/_dbm.cpython-312-x86_64-linux-gnu.so", "lib/python3.12/pydoc_data/topics.py"]
    never += ["lib/python3.12/lib-dynload/_testcapi.cpython-312-x86_64-linux-gnu.so", "lib/pkgconfig/python3.pc"]
    # Nothing is linked with it: the program has all of it in itself.
    never += ["lib/libpython3.12.so.1.0", "lib/libpython3.so"]
    archive = made(tmp_path / "a.tar.gz", *((f"python/{name}", b"") for name in (*names, *never)))
    assert unpack(archive, tmp_path / "runtime") == "3.12"
    assert {str(path.relative_to(tmp_path / "runtime")) for path in plugin_runtime.files(tmp_path / "runtime")} == {
        *names
    }


def test_a_runtime_keeps_the_libraries_that_it_is_linked_with(archive: Path, tmp_path: Path) -> None:
    """Of this machine's own Python, with files beside it that a portable one has."""
    unpack(archive, tmp_path / "runtime")
    top = {path.name for path in (tmp_path / "runtime/lib").iterdir()}
    # Debian's Python says that it is made with a shared library, and isn't linked with it.
    linked = elf_versions.libraries(Path(sys.executable).resolve().read_bytes())
    shared = {str(sysconfig.get_config_var("INSTSONAME"))} & set(linked)
    assert top == {f"python{VERSION}", *shared}
    assert {path.name for path in (tmp_path / "runtime/bin").iterdir()} == {"python3", f"python{VERSION}"}
    assert not (tmp_path / "runtime/include").exists()
    said = subprocess.run(
        [tmp_path / "runtime/bin/python3", "-B", "-c", "import ssl, sqlite3, json, asyncio, ctypes, decimal; print(1)"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.stdout == "1\n", said.stderr
    size = sum(path.stat().st_size for path in plugin_runtime.files(tmp_path / "runtime") if path.name not in shared)
    # With its debugging symbols this machine's libpython may be bigger than the whole should be.
    assert size <= plugin_runtime.BIGGEST


LINKS = [(tarfile.SYMTYPE, "../../outside"), (tarfile.SYMTYPE, "/etc"), (tarfile.FIFOTYPE, ""), (tarfile.LNKTYPE, "no")]


@pytest.mark.parametrize(("kind", "target"), LINKS)
def test_what_leads_outside_or_is_no_file_is_refused(tmp_path: Path, kind: bytes, target: str) -> None:
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as tar:
        info = tarfile.TarInfo("python/bin/python3")
        info.type, info.linkname = kind, target
        tar.addfile(info)
    with pytest.raises(BuildError, match="can't be unpacked"):
        unpack(tmp_path / "a.tar.gz", tmp_path / "in/runtime")


def _system_python() -> str:
    """Return the Python of the system, if the product supports it, else the one of the tests."""
    ask = "import sys; print(sys.version_info >= (3, 11))"
    with contextlib.suppress(OSError):
        done = subprocess.run(["/usr/bin/python3", "-c", ask], capture_output=True, text=True, check=False)
        if done.stdout == "True\n":
            return "/usr/bin/python3"
    return sys.executable


def test_the_oldest_python_that_builds_unpacks_it_alike(tmp_path: Path) -> None:
    """Debian 12's own, whose tarfile has no filters; links, hard ones too, modes and times are kept."""
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as tar:
        for name, kind, target in (
            ("python/bin/python3.12", tarfile.REGTYPE, ""),
            ("python/bin/python3", tarfile.SYMTYPE, "python3.12"),
            ("python/lib/python3.12/os.py", tarfile.REGTYPE, ""),
            ("python/lib/python3.12/same.py", tarfile.LNKTYPE, "python/lib/python3.12/os.py"),
        ):
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.mtime, info.mode = kind, target, 1_000_000_000, 0o6755
            info.size = 3 if kind == tarfile.REGTYPE else 0
            tar.addfile(info, io.BytesIO(b"abc"))
    code = "import sys, pathlib, plugin_runtime as p; print(p.unpack(*map(pathlib.Path, sys.argv[1:])))"
    command = [_system_python(), "-c", code, str(tmp_path / "a.tar.gz"), str(tmp_path / "runtime")]
    environ = {"PYTHONPATH": str(ROOT / "script/support"), "PATH": "/usr/bin:/bin"}
    said = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert said.stdout == "3.12\n", said.stderr
    found = tmp_path / "runtime"
    assert (found / "bin/python3").readlink() == Path("python3.12")
    assert (found / "lib/python3.12/same.py").read_bytes() == b"abc"
    there = (found / "bin/python3.12").stat()
    assert (there.st_mode & 0o7777, there.st_mtime) == (0o755, 1_000_000_000)


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ([("python/lib/python3.12/os.py", b"")], "holds no bin/python3"),
        ([("python/bin/python3", b"")], "holds no bin/python3 with one"),
        ([("python/../../outside", b"")], "can't be unpacked"),
    ],
)
def test_an_archive_of_something_else_is_refused(tmp_path: Path, members: list[tuple[str, bytes]], said: str) -> None:
    (tmp_path / "in").mkdir()
    with pytest.raises(BuildError, match=said):
        unpack(made(tmp_path / "a.tar.gz", *members), tmp_path / "in/runtime")
    assert not (tmp_path / "outside").exists()


def test_a_file_that_is_no_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.tar.gz").write_bytes(b"not this")
    with pytest.raises(BuildError, match="install_only"):
        unpack(tmp_path / "a.tar.gz", tmp_path / "runtime")


def test_a_runtime_for_a_newer_system_is_refused_unless_that_is_said(archive: Path, tmp_path: Path) -> None:
    """This machine's own Python, where it needs more than CentOS 7 has."""
    unpack(archive, tmp_path / "runtime")
    here = tuple(map(int, platform.libc_ver()[1].split(".")))
    check(tmp_path / "runtime", {"GLIBC": here})
    newest = _newest(tmp_path / "runtime")
    if newest > (2, 17):
        with pytest.raises(BuildError, match=r"wants GLIBC_2.*CentOS 7 doesn't.*CONFIGDB_SYNC_RUNTIME_GLIBC"):
            check(tmp_path / "runtime", {"GLIBC": (2, 17)})


def _newest(folder: Path) -> tuple[int, ...]:
    contents = (path.read_bytes() for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    wanted = (one for content in contents if elf_versions.is_elf(content) for one in elf_versions.wanted(content))
    return max(one.number or (0,) for one in wanted if one.family == "GLIBC")


def test_the_lock_is_read_for_the_python_that_is_meant() -> None:
    """pip itself goes by the Python that runs it, whatever `--python-version` says."""
    sums = "    --hash=sha256:aa \\\n    --hash=sha256:bb\n    # via x ; y\n"
    lock = f"# written by it\na==1 \\\n{sums}b-c==2 ; python_full_version >= '3.13' \\\n{sums}d==3 \\\n{sums}"
    kept = [line for line in locked_for(lock, "3.12").splitlines() if "#" not in line]
    assert kept == [line for line in f"a==1 \\\n{sums}d==3 \\\n{sums}".splitlines() if "#" not in line]
    assert locked_for(lock, "3.13") == lock.replace(" ; python_full_version >= '3.13'", "")


def test_the_libraries_for_every_python_run_on_centos_7(tmp_path: Path) -> None:
    """Every native file in the wheels of the lock file: nothing above glibc 2.17, or the C++ library of its time."""
    for version in plugin_runtime.PYTHONS.split():
        plugin_runtime.libraries(tmp_path, version, ROOT / ".cache")
    check(tmp_path / "vendor", elf_versions.LIMITS)
    native = list((tmp_path / "vendor").rglob("*.so*"))
    for version in plugin_runtime.PYTHONS.split():
        tag = version.replace(".", "")
        mine = {path.name for path in native if f"cpython-{tag}-x86_64" in path.name}
        assert any(name.startswith("_yaml") for name in mine), version
        # What keystonemiddleware, the database and the services bring along.
        for package in ("psutil", "wrapt", "msgpack", "markupsafe", "sqlalchemy", "psycopg_binary"):
            assert list((tmp_path / "vendor" / f"cp{tag}" / package).rglob("*.so")), (package, version)
        # 3.13 has no `cgi` any more, and the older ones must not get another than their own.
        assert (tmp_path / "vendor" / f"cp{tag}" / "cgi.py").exists() is (version == "3.13")
    assert not (tmp_path / "vendor/common/cgi.py").exists()
    assert all(path.parts[len(tmp_path.parts) + 1] != "common" for path in native)
    assert _newest(tmp_path / "vendor") <= (2, 17)
    assert VERSION in plugin_runtime.PYTHONS or sys.version_info >= (3, 14)
