"""``doctor`` on the way to the nodes (U3, U8, U12): a real broker, real MCollective nodes and simulated ones."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from configdb_sync.clock import SystemClock
from configdb_sync.exits import Exit
from tests.lab.certificates import make_authority
from tests.lab.laboratory import Laboratory
from tests.nailgun.conftest import make_small
from tests.support.nailgun import at_work
from tests.support.product import Product
from tests.support.simulator.bus import Simulator
from tests.support.simulator.faults import parse
from tests.support.simulator.nodes import SimulatedNodes
from tests.support.simulator.tree import Tree, made


@dataclass(frozen=True)
class Doctor:
    """Runs ``doctor`` with a laboratory's settings, changed line by line."""

    product: Product
    laboratory: Laboratory
    folder: Path

    def __call__(self, *more: object, code: Exit = Exit.OK, **changed: object) -> dict[str, str]:
        """Return what is said of each peer; ``changed``: options of client.cfg, dots as underscores."""
        lines = self.laboratory.config.read_text().splitlines()
        options = {name.replace("_", "."): value for name, value in changed.items()}
        kept = [line for line in lines if line.split(" = ")[0].removeprefix("plugin.rabbitmq.pool.1.") not in options]
        kept = [line for line in kept if line.split(" = ")[0] not in {"main_collective", "collectives"} or not options]
        prefix = "plugin.rabbitmq.pool.1."
        kept += [f"{'' if name == 'collectives' else prefix}{name} = {value}" for name, value in options.items()]
        file = self.folder / "client.cfg"
        file.touch(mode=0o600)
        file.write_text("\n".join(kept) + "\n")
        result = self.product(
            *("doctor", "--mco-config", file, "--mco-connect-limit", 20, "--mco-attempts", 1),
            *("--format", "json", *more),
        )
        secrets = (self.laboratory.psk, self.laboratory.broker.password, "CANARY")
        assert not [one for one in secrets if one in result.out + result.err]
        assert result.code == code, result.out + result.err
        found = {}
        for peer in result.json["peers"]:
            said = peer["found"] or " | ".join(filter(None, (peer["what"], peer["way_out"])))
            found[peer["name"]] = f"{peer['result']}: {said}"
        return found


@pytest.fixture
def doctor(product: Product, laboratory: Laboratory, tmp_path: Path) -> Doctor:
    return Doctor(product, laboratory, tmp_path)


@dataclass(frozen=True)
class Ahead(SystemClock):
    """A clock that is some seconds ahead."""

    seconds: float = 0

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self.seconds)


@contextmanager
def simulated(
    laboratory: Laboratory, *identities: str, faults: str = "", ahead: float = 0, bare: str = ""
) -> Iterator[None]:
    """Have further nodes on the bus; ``bare``: one without /etc/hiera."""
    trees = {name: Tree({} if name == bare else made(name, 5)) for name in identities}
    nodes = SimulatedNodes(trees, laboratory.settings().signer, parse(faults.split()))
    stop, ready = threading.Event(), threading.Event()
    simulator = Simulator(laboratory.settings(), nodes, Ahead(seconds=ahead))
    thread = threading.Thread(target=simulator.run, args=(stop.is_set, ready.set))
    thread.start()
    try:
        assert ready.wait(60)
        yield
    finally:
        stop.set()
        thread.join()
    assert not any(tree.touched for tree in trees.values())


def test_real_nodes_and_a_broker_that_work(doctor: Doctor) -> None:
    for node in doctor.laboratory.nodes.values():
        (node.hiera / "astute.yaml").write_text("uid: 1\n")
    before = [sorted(path.name for path in node.hiera.iterdir()) for node in doctor.laboratory.nodes.values()]
    found = doctor()
    port = doctor.laboratory.broker.stomp
    assert found["broker"] == (f"ok: 127.0.0.1:{port} (without TLS) takes user 'mcollective', both exchanges work")
    assert found["nodes"] == "ok: 4 answer, both agents work, 4 settings files"
    after = [sorted(path.name for path in node.hiera.iterdir()) for node in doctor.laboratory.nodes.values()]
    assert before == after


def test_over_tls_the_authority_must_be_right(doctor: Doctor, tmp_path: Path) -> None:
    broker = doctor.laboratory.broker
    own, key = broker.authority.sign("doctor")
    tls: dict[str, Any] = {"port": broker.tls, "ssl": 1, "ssl_cert": own, "ssl_key": key}
    found = doctor(**tls, ssl_ca=broker.authority.certificate)
    assert f"127.0.0.1:{broker.tls} (TLS verified)" in found["broker"]
    other = make_authority(tmp_path, "other").certificate
    found = doctor(**tls, ssl_ca=other, code=Exit.NODES)
    assert found["broker"].startswith("failed: ")
    assert "the certificate can't be verified" in found["broker"]
    assert found["nodes"] == "unused: "


def test_a_wrong_password_is_the_brokers_and_the_nodes_are_not_asked(doctor: Doctor) -> None:
    found = doctor(password="CANARY-wrong", code=Exit.NODES)
    assert "refused user 'mcollective' at vhost 'mcollective'" in found["broker"]
    assert "check user, password and vhost" in found["broker"]
    assert found["nodes"] == "unused: "


def test_an_exchange_that_is_not_there(doctor: Doctor) -> None:
    found = doctor(collectives="elsewhere", code=Exit.NODES)
    assert "elsewhere_directed" in found["broker"]
    assert "see the broker's log" in found["broker"]


def test_a_broker_that_is_away(doctor: Doctor) -> None:
    assert "the broker 127.0.0.1:1 can't be used" in doctor(port=1, code=Exit.NODES)["broker"]


def test_settings_that_are_not_there_are_an_error_only_if_they_were_named(product: Product, tmp_path: Path) -> None:
    named = product("doctor", "--mco-config", tmp_path / "none")
    assert named.code == Exit.USAGE
    assert "FAIL  broker" in named.out
    assert "not tested" in named.out
    assert "--mco-config" in named.out


def test_each_node_that_fails_is_named(doctor: Doctor) -> None:
    """Nailgun says who should be there: nodes of others don't count, silent ones do."""
    nailgun = make_small(5)
    for number, node in zip(("71", "72", "73"), nailgun.nodes, strict=True):
        node["id"] = int(number)
    with at_work(nailgun) as url:
        with simulated(doctor.laboratory, "71", "72", "73"):
            found = doctor("--env", 5, "--nailgun", url)
            assert found["nodes"] == "ok: 3 answer, both agents work, 6 settings files"
        with simulated(doctor.laboratory, "71", "72", bare="72", faults="71=exit:42"):
            found = doctor("--env", 5, "--nailgun", url, code=Exit.PARTIAL)
    assert found["nodes"].startswith("failed: 3 of 3 can't be worked on: node 71: its command could not be started")
    assert "node 72: it has no folder /etc/hiera; node 73: doesn't answer within" in found["nodes"]


def test_a_clock_that_differs_is_told(doctor: Doctor) -> None:
    with simulated(doctor.laboratory, "74", ahead=500):
        found = doctor()
    assert "5 answer" in found["nodes"]
    assert "clocks differ from this one's: node 74 by +" in found["nodes"]
