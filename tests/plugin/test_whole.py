"""U1, U3, U4, U8, U10, U12, F2, F5: the installed plugin among all its peers, by the very command line of Astute.

The peers: nodes on a real broker, Nailgun by TLS with the master's own certificate, ConfigDB in the plugin or, long, as
a service that a real Keystone's catalog tells of.
"""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from werkzeug.serving import make_server

from configdb_sync.clock import SystemClock
from configdb_sync.configdb.server import access, app
from configdb_sync.simulator.bus import Simulator
from configdb_sync.simulator.nodes import SimulatedNodes
from configdb_sync.simulator.tree import Tree, load
from tests.lab import laboratory
from tests.lab.laboratory import Laboratory
from tests.nailgun.conftest import make_small
from tests.nailgun.test_tls import self_signed
from tests.peers import keystone
from tests.plugin.calling import astute, enable
from tests.plugin.jail import Jail
from tests.support.nailgun import Nailgun, serving
from tests.support.trees import make_trees

ENVIRONMENT = 5
FILE = f"etc/fuel/cluster/{ENVIRONMENT}/astute.yaml"


@pytest.fixture(scope="module")
def lab() -> Iterator[Laboratory]:
    """A broker without nodes."""
    why = laboratory.unavailable()
    if why is not None:
        pytest.skip(why)
    with laboratory.running([]) as running:
        yield running


@pytest.fixture
def nodes(lab: Laboratory, tmp_path: Path, master: Jail) -> Iterator[dict[str, Tree]]:
    """Three nodes on the bus, and the master's settings for it."""
    trees = {path.name.removeprefix("node-"): Tree(load(path)) for path in make_trees(tmp_path / "t", *"123").iterdir()}
    (master.root / "etc/mcollective").mkdir(exist_ok=True)
    shutil.copy(lab.config, master.root / "etc/mcollective/client.cfg")
    stop, ready = threading.Event(), threading.Event()
    simulator = Simulator(lab.settings(), SimulatedNodes(trees, lab.settings().signer, {}), SystemClock())
    thread = threading.Thread(target=simulator.run, args=(stop.is_set, ready.set))
    thread.start()
    try:
        assert ready.wait(60)
        yield trees
    finally:
        stop.set()
        thread.join()


@pytest.fixture
def nailgun(master: Jail, tmp_path: Path) -> Iterator[Nailgun]:
    """A Nailgun whose certificate lies where the master keeps it."""
    certificate, key = self_signed(tmp_path)
    kept = master.root / "var/lib/fuel/keys/master/nginx"
    kept.mkdir(parents=True, exist_ok=True)
    shutil.copy(certificate, kept / "nginx.crt")
    found = make_small(ENVIRONMENT).all_are("deploying")
    with serving(found, (certificate, key)):
        yield found


def constants(nailgun: Nailgun) -> dict[str, str]:
    return {"nailgun_port": str(urlsplit(nailgun.url).port)}


def deploy(master: Jail) -> str:
    """Run the three tasks; return what they printed."""
    printed = ""
    for stage in ("pre", "main", "post"):
        done = astute(master, stage, ENVIRONMENT)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.splitlines()[-1].startswith("ok:"), done.stdout
        assert "3 nodes" in done.stdout
        printed += done.stdout + done.stderr
    return printed


def override_reaches_its_node(master: Jail, nodes: dict[str, Tree], **environ: str) -> None:
    place = f"--env {ENVIRONMENT} --level nodes=2 --data-source globals --key use_syslog"
    done = master.run(f"configdb-sync override {place} --value false --type bool", **environ)
    assert done.returncode == 0, done.stdout + done.stderr
    done = astute(master, "main", ENVIRONMENT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 file written" in done.stdout
    assert {name for name, tree in nodes.items() if tree.touched} == {"2"}


def test_the_plugins_own_configdb(master: Jail, nodes: dict[str, Tree], nailgun: Nailgun) -> None:
    enable(master, FILE, ENVIRONMENT, None, constants(nailgun), configdb="embedded", username="lcm", password="CANARY")
    assert "CANARY" not in deploy(master)
    override_reaches_its_node(master, nodes)
    done = master.run(f"configdb-sync doctor --env {ENVIRONMENT}")
    assert "ok    Nailgun" in done.stdout
    assert f"/{FILE} (configdb-sync)" in done.stdout
    assert "CANARY" not in done.stdout + done.stderr


@pytest.mark.long
def test_a_configdb_that_keystones_catalog_tells_of(
    master: Jail, nodes: dict[str, Tree], nailgun: Nailgun, tmp_path: Path
) -> None:
    """The user is in the environment's settings, the password in a file on the master alone."""
    (tmp_path / "keystone").mkdir()
    with keystone.running(tmp_path / "keystone") as peer, _configdb(tmp_path / "c.sqlite", peer) as url:
        peer.add_endpoint(url)
        login = {"auth_url": peer.url, "username": "admin", "project": "admin"}
        enable(master, FILE, ENVIRONMENT, None, constants(nailgun), **login)
        done = astute(master, "main", ENVIRONMENT)
        assert done.returncode == 2
        assert "lacks password" in done.stdout.splitlines()[-1]
        (master.root / "etc/configdb-sync").mkdir(mode=0o700)
        settings = master.root / "etc/configdb-sync/settings.yaml"
        settings.touch(mode=0o600)
        settings.write_text("login: {password: wrong-CANARY}\n")
        done = astute(master, "main", ENVIRONMENT)
        assert done.returncode == 6
        assert "refused the login" in done.stdout.splitlines()[-1]
        settings.write_text(f"login: {{password: {keystone.PASSWORD}}}\n")
        assert "CANARY" not in done.stdout + done.stderr + deploy(master)
        override_reaches_its_node(master, nodes)


@contextlib.contextmanager
def _configdb(database: Path, peer: keystone.Keystone) -> Iterator[str]:
    """A ConfigDB that takes the Keystone's tokens."""
    application = app.create_app(f"sqlite:///{database}", access=access.OpenAccess())

    def guarded(environ: dict[str, str], start: object) -> object:
        if peer.valid(environ.get("HTTP_X_AUTH_TOKEN", "")):
            return application(environ, start)  # type: ignore[arg-type]
        start("401 Unauthorized", [("Content-Type", "application/json")])  # type: ignore[operator]
        return [b"{}"]

    server = make_server("127.0.0.1", 0, guarded, threaded=True)  # type: ignore[arg-type]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        application.close()
