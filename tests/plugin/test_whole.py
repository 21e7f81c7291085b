"""U1, U3, U4, U5, U8, U10, U12, F2, F4, F5: the installed plugin among all its peers, by the very command of Astute.

The peers: nodes on a real broker (simulated ones; long, real ones), Nailgun by TLS with the master's own certificate, a
real Keystone, ConfigDB in the plugin or as its own service behind keystonemiddleware, out of the bundled runtime.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from tests.lab import laboratory
from tests.nailgun.conftest import make_small
from tests.peers import keystone as peer
from tests.plugin.calling import astute, enable
from tests.plugin.conftest import Bus, Nailguns, meet
from tests.plugin.jail import Jail
from tests.support.fixtures import require_data
from tests.support.keystone import PASSWORD, PROJECT, USER
from tests.support.nailgun import Nailgun
from tests.support.nailgun import load as load_nailgun
from tests.support.simulator.tree import Tree, load
from tests.support.trees import make_trees

ENVIRONMENT = 5
FILE = f"etc/fuel/cluster/{ENVIRONMENT}/astute.yaml"
LISTENS = re.compile(r"ConfigDB listens on (http://\S+)\n")


def trees_of(folder: Path) -> dict[str, Tree]:
    return {path.name.removeprefix("node-"): Tree(load(path)) for path in sorted(folder.iterdir())}


def constants(nailgun: Nailgun) -> dict[str, str]:
    return {"nailgun_port": str(urlsplit(nailgun.url).port)}


def deploy(master: Jail, env: int = ENVIRONMENT) -> str:
    """Run the three tasks; return what they printed."""
    printed = ""
    for stage in ("pre", "main", "post"):
        done = astute(master, stage, env)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.splitlines()[-1].startswith("ok:"), done.stdout
        assert "3 nodes" in done.stdout
        printed += done.stdout + done.stderr
    return printed


def override(master: Jail, env: int, node: str, data_source: str) -> None:
    """Override a key of a node, with the command of the plugin."""
    place = f"--env {env} --level nodes={node} --data-source {data_source} --key debug"
    done = master.run(f"configdb-sync override {place} --value overridden --type str --change-type --new-key")
    assert done.returncode == 0, done.stdout + done.stderr


def override_reaches_its_node(
    master: Jail, trees: dict[str, Tree], env: int = ENVIRONMENT, data_source: str = "astute"
) -> None:
    chosen = sorted(trees)[1]
    override(master, env, chosen, data_source)
    done = astute(master, "main", env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 file written" in done.stdout
    assert {name for name, tree in trees.items() if tree.touched} == {chosen}


def test_the_plugins_own_configdb(master: Jail, bus: Bus, nailguns: Nailguns, tmp_path: Path) -> None:
    trees = trees_of(make_trees(tmp_path / "t", "1", "2", "3"))
    nailgun = make_small(ENVIRONMENT).all_are("deploying")
    with bus(trees), nailguns(nailgun):
        login = {"auth_url": f"{nailgun.url}/keystone/v3", "username": USER, "password": PASSWORD, "project": PROJECT}
        page = {"page_url": "https://10.20.0.2:8083"}
        enable(master, FILE, ENVIRONMENT, None, constants(nailgun), configdb="embedded", **login, **page)
        assert "CANARY" not in deploy(master)
        assert len(nailgun.links) == 1
        override_reaches_its_node(master, trees)
        done = master.run(f"configdb-sync doctor --env {ENVIRONMENT}")
        for name in ("Keystone", "Nailgun", "broker", "nodes"):
            assert f"ok    {name}" in done.stdout
        assert f"/{FILE} (configdb-sync)" in done.stdout
        assert "CANARY" not in done.stdout + done.stderr
        # As the removal of the plugin does.
        assert master.run(f"configdb-sync dashboard-link --remove --env {ENVIRONMENT}").returncode == 0
        assert nailgun.links == []


@dataclass(frozen=True)
class Cloud:
    """A master with ConfigDB as a service of the plugin, registered with Keystone in a region of its own."""

    master: Jail
    keystone: peer.Keystone
    region: str
    url: str

    def login(self) -> dict[str, str]:
        """The plugin's settings for it; the password isn't among them."""
        return {"auth_url": self.keystone.url, "username": self.region, "project": "admin", "region": self.region}

    def password(self, text: str) -> None:
        """Put the password into the file on the master alone."""
        folder = self.master.root / "etc/configdb-sync"
        folder.mkdir(mode=0o700, exist_ok=True)
        (folder / "settings.yaml").touch(mode=0o600)
        (folder / "settings.yaml").write_text(f"login: {{password: {text}}}\n")


@contextlib.contextmanager
def cloud(master: Jail, keystone: peer.Keystone, region: str) -> Iterator[Cloud]:
    """Run ConfigDB in the plugin's runtime behind keystonemiddleware, and register it, with a user for the task."""
    keystone.ask("POST", "/regions", {"region": {"id": region}})
    (master.root / "etc/configdb-sync").mkdir(mode=0o700, exist_ok=True)
    keystone.settings(master.root / "etc/configdb-sync/service.yaml")
    told = "--settings /etc/configdb-sync/service.yaml"
    service = master.start(f"exec configdb-sync configdb serve --listen 127.0.0.1:0 --auth keystone {told}")
    try:
        assert service.stdout is not None
        found = LISTENS.fullmatch(service.stdout.readline())
        assert found, service.communicate(timeout=60)
        command = f"configdb-sync keystone register --url {found[1]} --region {region} --interface public {told}"
        user = f"--user {region} --password-file - --project admin"
        for again in (False, True):
            done = master.run(f"{command} {user}", stdin="CANARY-task\n")
            assert done.returncode == 0, done.stderr
            assert done.stdout.endswith("Nothing was changed.\n") is again, done.stdout
        yield Cloud(master, keystone, region, found[1])
    finally:
        service.terminate()
        service.communicate(timeout=60)


def test_a_configdb_that_keystones_catalog_tells_of(
    master: Jail, bus: Bus, nailguns: Nailguns, keystone: peer.Keystone, tmp_path: Path
) -> None:
    """F2: the package as it is built, in an empty root, with every peer asking who it is, through all three stages.

    The user is in the environment's settings, the password in a file on the master alone.
    """
    trees = trees_of(make_trees(tmp_path / "t", "1", "2", "3"))
    nailgun = make_small(ENVIRONMENT).all_are("deploying")
    nailgun.takes = keystone.valid
    with cloud(master, keystone, "whole") as own, bus(trees), nailguns(nailgun):
        enable(master, FILE, ENVIRONMENT, None, constants(nailgun), **own.login())
        done = astute(master, "main", ENVIRONMENT)
        assert done.returncode == 2
        assert "lacks password" in done.stdout.splitlines()[-1]
        own.password("CANARY-wrong")
        done = astute(master, "main", ENVIRONMENT)
        assert done.returncode == 6
        assert "refused the login" in done.stdout.splitlines()[-1]
        assert not any(tree.touched for tree in trees.values())
        own.password("CANARY-task")
        assert "CANARY" not in done.stdout + done.stderr + deploy(master)
        override_reaches_its_node(master, trees)
        asked = {path: token for path, token in nailgun.seen if not path.endswith("/version")}
        assert asked
        assert all(asked.values())


@dataclass(frozen=True)
class Real:
    """A real environment of the data: its trees, its Nailgun, its file on the master."""

    env: int
    folder: Path
    nailgun: Nailgun
    path: str
    settings: Path

    def enable(self, own: Cloud) -> None:
        """Write the environment's file, with the plugin switched on."""
        base = yaml.safe_load(self.settings.read_text())
        enable(own.master, self.path, self.env, base, constants(self.nailgun), **own.login())


def real(environment: Callable[[int], Path], number: int, release: str) -> Real:
    data = require_data() / "nailgun" / release
    name = "astute-master.yaml" if release == "9.0.1" else "cluster.yaml"
    path = (
        f"etc/fuel/cluster/{number}/astute.yaml"
        if release == "9.0.1"
        else f"var/lib/fuel/configs/{number}/cluster.yaml"
    )
    return Real(number, environment(number), load_nailgun(release).all_are("deploying"), path, data / name)


@pytest.mark.parametrize(("number", "release"), [(16, "9.0.1"), pytest.param(7, "newton", marks=pytest.mark.long)])
def test_real_environments_with_all_peers(
    master: Jail,
    bus: Bus,
    nailguns: Nailguns,
    keystone: peer.Keystone,
    environment: Callable[[int], Path],
    number: int,
    release: str,
) -> None:
    """F4: Nailgun's and the nodes' own data; Keystone's token is taken by both Nailgun and ConfigDB."""
    found = real(environment, number, release)
    found.nailgun.takes = keystone.valid
    trees = trees_of(found.folder)
    with cloud(master, keystone, f"whole-{number}") as own, bus(trees), nailguns(found.nailgun):
        found.enable(own)
        own.password("CANARY-task")
        assert "CANARY" not in deploy(master, number)
        assert not any(tree.touched for tree in trees.values())
        override_reaches_its_node(master, trees, number, "astute" if number == 16 else "node")


@pytest.mark.long
def test_real_nodes(
    master: Jail, nailguns: Nailguns, keystone: peer.Keystone, environment: Callable[[int], Path]
) -> None:
    """U8, U10: nothing is simulated but Nailgun, whose answers are real."""
    why = laboratory.unavailable()
    if why is not None:
        pytest.skip(why)
    found = real(environment, 16, "9.0.1")
    found.nailgun.takes = keystone.valid
    identities = sorted(path.name.removeprefix("node-") for path in found.folder.iterdir())
    with (
        laboratory.running(identities) as lab,
        cloud(master, keystone, "whole-real") as own,
        nailguns(found.nailgun),
    ):
        for node in lab.nodes.values():
            shutil.copytree(found.folder / f"node-{node.identity}/etc", node.etc, symlinks=True, dirs_exist_ok=True)
        meet(master, lab)
        found.enable(own)
        own.password("CANARY-task")
        before = settings_of(lab)
        deploy(master, found.env)
        assert settings_of(lab) == before
        chosen = identities[0]
        override(master, found.env, chosen, "astute")
        assert "1 file written" in astute(master, "main", found.env).stdout
        assert yaml.safe_load(settings_of(lab)[chosen])["debug"] == "overridden"
        place = f"--env {found.env} --level nodes={chosen} --data-source astute --key debug"
        assert master.run(f"configdb-sync rm-override {place}").returncode == 0
        assert "1 file written" in astute(master, "main", found.env).stdout
        assert settings_of(lab) == before


def settings_of(lab: laboratory.Laboratory) -> dict[str, bytes]:
    return {name: (node.fuel / "cluster/16/astute.yaml").read_bytes() for name, node in lab.nodes.items()}
