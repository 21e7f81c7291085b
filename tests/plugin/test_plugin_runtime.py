"""F2: the portable Python and the libraries in the plugin: where they come from, and that a CentOS 7 can run them."""

from __future__ import annotations

import hashlib
import http.server
import io
import platform
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import elf_versions
import plugin_runtime
import pytest
from plugin_runtime import BuildError, check, locked_for, obtain, unpack

from tests.plugin.conftest import ROOT, VERSION


def made(path: Path, *members: tuple[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o755
            tar.addfile(info, io.BytesIO(content))
    return path


def test_without_an_archive_the_build_says_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"(?s)CONFIGDB_SYNC_RUNTIME.*install_only.*SHA256.*none"):
        obtain({}, tmp_path)
    assert obtain({"CONFIGDB_SYNC_RUNTIME": "none"}, tmp_path) is None


def test_the_hook_and_the_script_say_so_too() -> None:
    mine = {"PATH": "/usr/bin:/bin", "PYTHON": sys.executable}
    for command in (["./pre_build_hook"], [sys.executable, "script/support/build_plugin.py"]):
        done = subprocess.run(command, cwd=ROOT, env=mine, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert "Set CONFIGDB_SYNC_RUNTIME to one of" in done.stderr


def test_a_path_and_its_sum(tmp_path: Path) -> None:
    path = made(tmp_path / "a.tar.gz", ("python/x", b""))
    named = {"CONFIGDB_SYNC_RUNTIME": str(path)}
    assert obtain(named, tmp_path) == path
    with pytest.raises(BuildError, match="sha256"):
        obtain({**named, "CONFIGDB_SYNC_RUNTIME_SHA256": "0" * 64}, tmp_path)
    with pytest.raises(BuildError, match="there is no file"):
        obtain({"CONFIGDB_SYNC_RUNTIME": str(tmp_path / "none")}, tmp_path)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, list[str]]]:
    """Serves ``tmp_path/served``; gives the address, and the list of what was asked for."""
    asked: list[str] = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments, directory=str(tmp_path / "served"))  # type: ignore[arg-type]

        def log_message(self, *_: object) -> None:
            asked.append(self.path)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as here:
        thread = threading.Thread(target=here.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield f"http://127.0.0.1:{here.server_port}", asked
        here.shutdown()
        thread.join()


def test_an_address_wants_a_sum_and_is_fetched_once(tmp_path: Path, server: tuple[str, list[str]]) -> None:
    (tmp_path / "served").mkdir()
    content = made(tmp_path / "served/a.tar.gz", ("python/x", b"")).read_bytes()
    address, asked = f"{server[0]}/a.tar.gz", server[1]
    with pytest.raises(BuildError, match="needs CONFIGDB_SYNC_RUNTIME_SHA256"):
        obtain({"CONFIGDB_SYNC_RUNTIME": address}, tmp_path)
    right = {"CONFIGDB_SYNC_RUNTIME": address, "CONFIGDB_SYNC_RUNTIME_SHA256": hashlib.sha256(content).hexdigest()}
    cache = tmp_path / "cache"
    for _ in range(2):
        found = obtain(right, cache)
        assert found is not None
        assert found.read_bytes() == content
    assert len(asked) == 1
    with pytest.raises(BuildError, match="doesn't have the sha256"):
        obtain({**right, "CONFIGDB_SYNC_RUNTIME_SHA256": "0" * 64}, cache)
    assert [path.name for path in (cache / "plugin").iterdir()] == [f"{right['CONFIGDB_SYNC_RUNTIME_SHA256']}.tar.gz"]
    with pytest.raises(BuildError, match=r"can't be fetched.*name a file"):
        obtain({**right, "CONFIGDB_SYNC_RUNTIME": f"{server[0]}/none"}, tmp_path / "other")


def test_what_a_service_never_needs_is_left_out(tmp_path: Path) -> None:
    names = ["bin/python3.12", "bin/python3", "bin/pip3", "lib/libpython3.12.so.1.0", "lib/python3.12/os.py"]
    names += ["lib/python3.12/test/x.py", "lib/python3.12/tkinter/y.py", "lib/python3.12/__pycache__/os.pyc"]
    names += ["include/python3.12/Python.h", "lib/python3.12/lib-dynload/_ssl.so", "lib/tcl8.6/init.tcl"]
    names += ["lib/python3.12/config-3.12-x86_64-linux-gnu/x.a", "lib/python3.12/site-packages/pip/x.py"]
    archive = made(tmp_path / "a.tar.gz", *((f"python/{name}", b"") for name in names))
    assert unpack(archive, tmp_path / "runtime") == "3.12"
    found = {
        str(path.relative_to(tmp_path / "runtime")) for path in (tmp_path / "runtime").rglob("*") if path.is_file()
    }
    assert found == {*names[:2], *names[3:5], "lib/python3.12/lib-dynload/_ssl.so"}


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
        for package in ("psutil", "wrapt", "msgpack", "markupsafe", "sqlalchemy"):
            assert list((tmp_path / "vendor" / f"cp{tag}" / package).rglob("*.so")), (package, version)
        # 3.13 has no `cgi` any more, and the older ones must not get another than their own.
        assert (tmp_path / "vendor" / f"cp{tag}" / "cgi.py").exists() is (version == "3.13")
    assert not (tmp_path / "vendor/common/cgi.py").exists()
    assert all(path.parts[len(tmp_path.parts) + 1] != "common" for path in native)
    assert _newest(tmp_path / "vendor") <= (2, 17)
    assert VERSION in plugin_runtime.PYTHONS or sys.version_info >= (3, 14)
