"""All that asks Nailgun, by the commands, as on a real master (U3, U4, U5, U12, U21): authentication is on, a real
Keystone and Nailgun's answers are behind a real nginx, where http leads to https.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from configdb_sync.cli import command_session
from configdb_sync.exits import Exit
from configdb_sync.nailgun.connect import connect
from configdb_sync.plugin.dashboard_link import page_of
from configdb_sync.plugin.fuel_settings import Master as FuelFiles
from tests.lab.certificates import make_authority
from tests.nailgun.test_tls import self_signed
from tests.peers import fuel_master, proxies
from tests.peers import keystone as peer
from tests.support.nailgun import Nailgun, load, serving
from tests.support.product import Product

BASE = "https://10.20.0.2:8083"
RELEASES = ("9.0.1", "newton")


@dataclass(frozen=True)
class Master:
    """The stand-in for Nailgun (its answers are real), and its addresses behind the web server."""

    nailgun: Nailgun
    plain: str
    secure: str
    certificate: Path

    def where(self, *more: object) -> tuple[object, ...]:
        """The options that name Nailgun, by the address that leads to https."""
        return ("--env", self.nailgun.env, "--nailgun", self.plain, "--nailgun-ca", self.certificate, *more)


@pytest.fixture(params=RELEASES)
def master(
    request: pytest.FixtureRequest, keystone: peer.Keystone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Master]:
    """A master of each line of Fuel; a login is in the variables, with Keystone's address that leads to https."""
    reason = proxies.unavailable("nginx")
    if reason:
        pytest.skip(reason)
    found = load(request.param).all_are("deploying")
    found.takes = keystone.valid
    authority = make_authority(tmp_path, "master")
    pair = authority.sign("nginx", "IP:127.0.0.1")
    with serving(found) as url, fuel_master.running(tmp_path / "nginx", url, keystone.url, pair) as front:
        for name, value in {**keystone.environ, "OS_AUTH_URL": f"{front.plain}/keystone/v3"}.items():
            monkeypatch.setenv(name, value)
        yield Master(found, front.plain, front.secure, authority.certificate)
    # Keystone's own tokens and nothing else went to Nailgun.
    assert all(token is None or keystone.valid(token) for _, token in found.seen)


def test_doctor(product: Product, master: Master) -> None:
    told = product("doctor", *master.where("--format", "json"))
    assert told.code == Exit.OK, told.out
    found = {row["name"]: row["found"] for row in told.json["peers"]}
    assert f"Fuel {master.nailgun.version['release']} at {master.plain}" in found["Nailgun"]
    count = len(master.nailgun.nodes)
    assert f"{count} of {count} nodes can be worked on" in found["Nailgun"]
    assert "gives a token" in found["Keystone"]


def test_nodes_are_checked_and_the_deployments_tasks_run(
    product: Product, master: Master, environment: Callable[[int], Path]
) -> None:
    """U4: with `--stage`, each of the three; the dashboard gets its link, and loses it."""
    nailgun = master.nailgun
    stranger = nailgun.nodes[0]
    stranger["fqdn"] = "stranger.example.com"
    run = ("sync", *master.where("--from", environment(nailgun.env), "--page-url", BASE, "--failure-policy", "none"))
    for stage in ("pre", "main", "post"):
        told = product(*run, "--stage", stage)
        assert told.code == Exit.OK, told.out
        assert f"node {stranger['id']}: environment {nailgun.env} of Nailgun {master.plain} has no node" in told.out
        assert told.out.count("has no node") == 1
    assert [link["url"] for link in nailgun.links] == [page_of(BASE, nailgun.env)]
    gone = product("dashboard-link", *master.where("--remove"))
    assert (gone.code, gone.out, nailgun.links) == (Exit.OK, "the link is gone\n", [])


def test_from_nailgun(product: Product, master: Master) -> None:
    """U21: with the deployment data of real environments."""
    run = (*master.where("--from", "nailgun"), "--format", "json")
    plan = product("plan", *run)
    assert plan.code == Exit.OK, plan.out
    done = product("sync", *run)
    assert done.code == Exit.OK, done.out
    assert done.json["uploads"] == plan.json["uploads"] > 0
    identity = str(master.nailgun.nodes[0]["id"])
    source = "astute" if master.nailgun.version["release"] == "9.0" else "node"
    values: Any = product(
        "get", "--env", master.nailgun.env, "--level", f"nodes={identity}", "--data-source", source, "--format", "json"
    ).json
    assert values["fqdn"] == master.nailgun.data(identity)["fqdn"]
    assert product("sync", *run).json["uploads"] == 0


def test_what_was_set_in_the_ui_since_is_asked_for(product: Product, master: Master, tmp_path: Path) -> None:
    """U3."""
    file = tmp_path / f"master/etc/fuel/cluster/{master.nailgun.env}/astute.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("configdb-sync: {configdb: embedded, tenant: deployed, metadata: {enabled: true}}\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command_session, "MASTER", FuelFiles(tmp_path / "master"))
        told = product("doctor", *master.where("--format", "json"))
    origins = {row["name"]: row["origin"] for row in told.json["settings"]}
    assert origins["OS_USERNAME"] == "environment"
    assert origins["tenant"] == f"{file} (configdb-sync)"
    assert f"Nailgun {master.plain} (configdb-sync)" in origins.values(), "what Nailgun has of the plugin goes first"


def test_gc_asks_nailgun_who_is_there(product: Product, master: Master, environment: Callable[[int], Path]) -> None:
    run = ("--env", master.nailgun.env, "--from", environment(master.nailgun.env))
    assert product("sync", *run).code == Exit.OK
    gone = str(master.nailgun.nodes.pop()["id"])
    told = product("gc", *master.where("--format", "json"))
    assert told.code == Exit.OK, told.out
    assert [row["node"] for row in told.json["nodes"]] == [gone]


def test_keystones_own_word_on_where_it_is_is_not_taken(
    product: Product, master: Master, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U12: Keystone behind the web server says http://10.20.0.2:5000; nothing may go there."""
    for path in ("/keystone", "/keystone/v3"):
        monkeypatch.setenv("OS_AUTH_URL", master.secure + path)
        assert product("dashboard-link", *master.where("--page-url", BASE)).code == Exit.OK
    monkeypatch.delenv("OS_AUTH_URL")
    gone = product("dashboard-link", *master.where("--remove"))
    assert gone.out == "the link is gone\n"


def test_the_masters_own_certificate_verifies_keystone_too(keystone: peer.Keystone, tmp_path: Path) -> None:
    """U12: found where the master keeps it, under whatever name it is reached."""
    reason = proxies.unavailable("nginx")
    if reason:
        pytest.skip(reason)
    found = load("9.0.1")
    found.takes = keystone.valid
    pair = self_signed(tmp_path)
    with serving(found) as url, fuel_master.running(tmp_path / "nginx", url, keystone.url, pair) as front:
        environ = {**keystone.environ, "OS_AUTH_URL": f"{front.secure}/keystone/v3"}
        with connect(front.plain, environ=environ, own_certificate=pair[0]) as client:
            assert client.nodes(found.env)
            assert client.address == front.secure
