"""What the tests share: the build's own modules, a portable Python made of this one, and the RPM built with it."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import json
import os
import platform
import shutil
import sys
import sysconfig
import tarfile
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from configdb_sync.clock import SystemClock
from tests.lab import laboratory
from tests.lab.laboratory import Laboratory
from tests.nailgun.test_tls import self_signed
from tests.plugin import jail as jails
from tests.plugin.jail import Jail
from tests.support.nailgun import Nailgun, serving
from tests.support.simulator.bus import Simulator
from tests.support.simulator.nodes import SimulatedNodes
from tests.support.simulator.tree import Tree

Bus = Callable[[Mapping[str, Tree]], "contextlib.AbstractContextManager[None]"]
Nailguns = Callable[[Nailgun], "contextlib.AbstractContextManager[None]"]

ROOT = Path(__file__).resolve().parents[2]
SUPPORT = ROOT / "script/support"
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
# For the archive's size, and what is only this machine's.
_LEFT_OUT = {"test", "tests", "lib2to3", "site-packages", "dist-packages", "__pycache__"}
# What a real one has beside, as far as a build must know it: here without content.
_BESIDE = (
    *("bin/pip3", "bin/python3-config", "include/python3/Python.h", "share/man/man1/python3.1"),
    *("lib/libtcl9.0.so", "lib/libtcl9tk9.0.so", "lib/tcl9.0/init.tcl", "lib/tk9.0/tk.tcl", "lib/itcl4.3.5/itcl.tcl"),
    *(
        "lib/thread3.0.4/libthread.so",
        "lib/pkgconfig/python3.pc",
        "lib/libpython3.so",
        f"lib/libpython{VERSION}t.so.1.0",
    ),
)

if str(SUPPORT) not in sys.path:
    sys.path.append(str(SUPPORT))


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive like that of a portable CPython, made of the Python that runs the tests."""
    path = tmp_path_factory.mktemp("archive") / "cpython-here-install_only.tar.gz"
    library = Path(sysconfig.get_paths()["stdlib"])
    shared = Path(sysconfig.get_config_var("LIBDIR"), sysconfig.get_config_var("INSTSONAME"))
    with tarfile.open(path, "w:gz", compresslevel=1) as tar:
        tar.add(Path(sys.executable).resolve(), f"python/bin/python{VERSION}")
        tar.add(library, f"python/lib/python{VERSION}", filter=_wanted)
        for name in _BESIDE:
            tar.addfile(tarfile.TarInfo(f"python/{name}"))
        # Debian's Python says that it is made with a shared library, doesn't need it, and may be without it.
        if sysconfig.get_config_var("Py_ENABLE_SHARED") and shared.exists():
            tar.add(shared.resolve(), f"python/lib/{shared.name}")
            # A real portable Python finds its library itself.
            script = path.with_name("python3")
            script.write_text(
                '#!/bin/sh\nhere=$(dirname "$(readlink -f "$0")")\n'
                f'LD_LIBRARY_PATH="$here/../lib" exec "$here/python{VERSION}" "$@"\n'
            )
            script.chmod(0o755)
            tar.add(script, "python/bin/python3")
        else:
            link = tarfile.TarInfo("python/bin/python3")
            link.type, link.linkname = tarfile.SYMTYPE, f"python{VERSION}"
            tar.addfile(link)
    return path


def _wanted(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    name = member.name.rpartition("/")[2]
    if member.issym() and member.linkname.startswith("/"):
        return None  # Debian's sitecustomize.py is this machine's setting
    return None if name in _LEFT_OUT or name.startswith("config-") or name.endswith(".a") else member


@contextlib.contextmanager
def served(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Serve a folder; yield its address, and the list of what was asked for."""
    asked: list[str] = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments, directory=str(folder))  # type: ignore[arg-type]

        def log_message(self, *_: object) -> None:
            asked.append(self.path)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as here:
        thread = threading.Thread(target=here.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{here.server_port}", asked
        finally:
            here.shutdown()
            thread.join()


def pin(path: Path, url: str, archive: Path) -> Path:
    """Write a pin for an archive that is served somewhere."""
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    path.write_text(json.dumps({"version": VERSION, "url": f"{url}/{archive.name}", "sha256": digest}))
    return path


@pytest.fixture(scope="session")
def rpm(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plugin, built by ``script/plugin``'s own code with that Python, pinned and fetched."""
    import build_plugin

    lacking = [program for program in build_plugin.PROGRAMS if shutil.which(program) is None]
    if lacking:
        pytest.skip(f"{lacking[0]} is not installed here")
    glibc = platform.libc_ver()[1]
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("CONFIGDB_SYNC_RUNTIME")]:
            patch.delenv(name)
        patch.setenv("CONFIGDB_SYNC_RUNTIME_GLIBC", glibc)
        patch.setenv("CONFIGDB_SYNC_PYTHONS", VERSION)
        for name in [name for name in os.environ if name.startswith("PIP_")]:
            patch.delenv(name)
        folder = tmp_path_factory.mktemp("rpm")
        with served(archive.parent) as (url, _):
            return build_plugin.build(folder, pin(folder / "pin.json", url, archive))


@pytest.fixture(scope="session")
def installed(rpm: Path, tmp_path_factory: pytest.TempPathFactory) -> Jail:
    """An empty root with the plugin installed by rpm."""
    jail = jails.make(tmp_path_factory.mktemp("master"))
    done = jail.rpm("--install", "--nodeps", "--nosignature", rpm)
    assert done.returncode == 0, done.stderr
    return jail


@pytest.fixture
def master(installed: Jail) -> Jail:
    """The same, as it was right after the installation."""
    for name in ("var/lib/configdb-sync", "etc/fuel", "trees", "etc/configdb-sync"):
        shutil.rmtree(installed.root / name, ignore_errors=True)
    return installed


@pytest.fixture(scope="package")
def broker() -> Iterator[Laboratory]:
    """A broker without nodes."""
    why = laboratory.unavailable()
    if why is not None:
        pytest.skip(why)
    with laboratory.running([]) as running:
        yield running


@pytest.fixture
def bus(broker: Laboratory, master: Jail) -> Bus:
    """Give ``bus(trees)``: simulated nodes on the broker meanwhile, and the master's settings for it."""

    @contextlib.contextmanager
    def nodes(trees: Mapping[str, Tree]) -> Iterator[None]:
        meet(master, broker)
        stop, ready = threading.Event(), threading.Event()
        simulated = SimulatedNodes(trees, broker.settings().signer, {})
        simulator = Simulator(broker.settings(), simulated, SystemClock())
        thread = threading.Thread(target=simulator.run, args=(stop.is_set, ready.set))
        thread.start()
        try:
            assert ready.wait(60)
            yield
        finally:
            stop.set()
            thread.join()

    return nodes


def meet(master: Jail, lab: Laboratory) -> None:
    """Give the master MCollective's settings for a laboratory."""
    (master.root / "etc/mcollective").mkdir(exist_ok=True)
    shutil.copy(lab.config, master.root / "etc/mcollective/client.cfg")


@pytest.fixture
def nailguns(master: Jail, tmp_path: Path) -> Nailguns:
    """Give ``nailguns(nailgun)``: serves it meanwhile; its certificate lies where the master keeps it."""

    @contextlib.contextmanager
    def served(nailgun: Nailgun) -> Iterator[None]:
        certificate, key = self_signed(tmp_path)
        kept = master.root / "var/lib/fuel/keys/master/nginx"
        kept.mkdir(parents=True, exist_ok=True)
        shutil.copy(certificate, kept / "nginx.crt")
        with serving(nailgun, (certificate, key)):
            yield

    return served
