"""Simulated nodes on a real broker: what each fault looks like to the product (U14, B08, B10, B18)."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from configdb_sync.clock import SystemClock
from configdb_sync.errors import NodeError, NodeFileError, SettingsError
from configdb_sync.exits import Exit
from configdb_sync.mcollective.client import BusRpc
from configdb_sync.nodes.mcollective import MCollectiveNodes
from configdb_sync.nodes.node_files import NodeRead
from tests.lab import laboratory
from tests.lab.laboratory import Laboratory
from tests.nailgun.conftest import make_small
from tests.nodes.trees import ASTUTE, make_node
from tests.support.nailgun import at_work
from tests.support.product import Product
from tests.support.simulator.bus import Simulator
from tests.support.simulator.faults import Fault, FaultKind, one, parse
from tests.support.simulator.nodes import SimulatedNodes
from tests.support.simulator.tree import File, Tree, made

ENVIRONMENT = 5
SLOW = 10.0
"""Seconds that a node has: enough for those that answer on a machine with much else to do."""
SOON = 6 * SLOW
"""Nobody waits for the silent ones one after the other."""


@pytest.fixture(scope="module")
def lab() -> Iterator[Laboratory]:
    """Give a broker without daemons."""
    why = laboratory.unavailable()
    if why is not None:
        pytest.skip(why)
    with laboratory.running([]) as running:
        yield running


@contextmanager
def simulated(lab: Laboratory, count: int, *faults: str) -> Iterator[SimulatedNodes]:
    """Be nodes 1 to ``count`` meanwhile."""
    trees = {str(number): Tree(made(str(number), ENVIRONMENT)) for number in range(1, count + 1)}
    settings = lab.settings()
    nodes = SimulatedNodes(trees, settings.signer, parse(faults))
    stop, ready = threading.Event(), threading.Event()
    thread = threading.Thread(target=Simulator(settings, nodes, SystemClock()).run, args=(stop.is_set, ready.set))
    thread.start()
    try:
        assert ready.wait(60)
        yield nodes
    finally:
        stop.set()
        thread.join()


@contextmanager
def asked(lab: Laboratory, *, timeout: float = SLOW) -> Iterator[MCollectiveNodes]:
    with BusRpc(lab.settings()) as bus:
        yield MCollectiveNodes(bus, env=ENVIRONMENT, timeout=timeout, patience=1.0)


def errors(items: Sequence[NodeRead | NodeError]) -> dict[str, str]:
    return {item.node or "": item.what for item in items if isinstance(item, NodeError)}


WRONG = {
    "silent": "doesn't answer: no reply within 10 s",
    "mute": "doesn't answer: no reply within 10 s",
    "delay:30": "doesn't answer: no reply within 10 s",
    "wrong-hash": "doesn't answer: no valid reply within 10 s",
    "wrong-request": "doesn't answer: no reply within 10 s",
    "foreign:2": "doesn't answer: no reply within 10 s",
    "foreign:99": "doesn't answer: no reply within 10 s",
    "code:1": "its agent failed: simulated failure 1 (code 1)",
    "code:4": "its agent failed: simulated failure 4 (code 4)",
    "code:5": "its agent failed: simulated failure 5 (code 5)",
    "exit:42": "its settings files can't be read: its command could not be started (exit code 42)",
    "exit:124": "its settings files can't be read: its command took too long and was ended",
    "binary": "its settings files can't be read: what it printed is not base64",
    "oversize:3000000": "its settings files can't be read: what it printed is not compressed as it should be",
    "oversize:20000000": "doesn't answer: no valid reply within 10 s; in its name came a message of 20",
}


def test_each_fault_is_that_nodes_alone_and_within_the_time(lab: Laboratory) -> None:
    """U14, B08, B10, B18: silent, slow, lying, oversize nodes are named, the others are read."""
    kinds = dict(enumerate(WRONG, start=3))
    names = [str(number) for number in range(1, len(WRONG) + 5)]
    with simulated(lab, len(names), *(f"{number}={kind}" for number, kind in kinds.items())), asked(lab) as nodes:
        began = time.monotonic()
        found = list(nodes.read(names))
        assert time.monotonic() - began < SOON
    assert len(found) == len(names)
    wrong = errors(found)
    assert sorted(wrong, key=int) == [str(number) for number in kinds]
    for number, kind in kinds.items():
        assert WRONG[kind] in wrong[str(number)], kind


def test_second_answers_and_small_delays_do_no_harm(lab: Laboratory) -> None:
    faults = ("1=duplicate", "2=delay:0.3")
    with simulated(lab, 3, *faults), BusRpc(lab.settings()) as bus:
        nodes = MCollectiveNodes(bus, env=ENVIRONMENT, timeout=20, patience=1.0)
        assert list(nodes.identities()) == ["1", "2", "3"]
        found = list(nodes.read(["1", "2", "3"]))
        assert errors(found) == {}
        assert bus.counts.duplicates >= 1


def test_a_silent_node_is_not_discovered_and_a_mute_one_is(lab: Laboratory) -> None:
    with simulated(lab, 3, "1=silent", "2=mute"), asked(lab) as nodes:
        assert list(nodes.identities()) == ["2", "3"]


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("partial", "what arrived on the node isn't what was sent"),
        ("mute", "the node doesn't answer: no reply within 2 s"),
        ("code:5", "simulated failure 5"),
        ("exit:42", "its command could not be started"),
        ("binary", "the node's answer can't be understood"),
        ("oversize:3000000", "the node's answer can't be understood"),
    ],
)
def test_a_write_that_goes_wrong_leaves_the_file(lab: Laboratory, fault: str, text: str) -> None:
    with simulated(lab, 1) as there, asked(lab, timeout=20) as nodes, asked(lab, timeout=2) as hasty:
        (read,) = nodes.read(["1"])
        assert isinstance(read, NodeRead)
        there.faults = {"1": one(fault)}
        before = dict(there.trees["1"].files())
        for path, expected in (("globals.yaml", read.files["globals.yaml"]), ("override/new.yaml", None)):
            with pytest.raises(NodeFileError, match=f"node 1, file {path}: .*{text}"):
                # Only who answers needs the time.
                (hasty if fault == "mute" else nodes).write("1", path, b"new: 1\n", expected)
        assert dict(there.trees["1"].files()) == before


def test_many_nodes_of_which_some_are_silent(lab: Laboratory) -> None:
    """Over within the time that a node has, and each silent one is named."""
    silent = [str(number) for number in range(7, 300, 60)]
    names = [str(number) for number in range(1, 301)]
    with simulated(lab, 300, f"{','.join(silent)}=silent"), asked(lab) as nodes:
        began = time.monotonic()
        found = list(nodes.read(names))
        assert time.monotonic() - began < SOON
    assert sorted(errors(found), key=int) == silent
    assert len(found) == 300


def test_who_takes_long_over_each_node_loses_none(lab: Laboratory) -> None:
    """The time that a node has is its own, not that of whoever works on what was read."""
    names = [str(number) for number in range(1, 31)]
    with simulated(lab, 30), asked(lab, timeout=3) as nodes:
        found = []
        for item in nodes.read(names):
            time.sleep(0.15)
            found.append(item)
    assert errors(found) == {}
    assert len(found) == 30


def test_the_main_job_on_simulated_nodes(lab: Laboratory, product: Product) -> None:
    names = ",".join(str(number) for number in range(1, 21))
    over = ("--from", "mcollective", "--mco-config", lab.config, "--env", ENVIRONMENT, "--node", names)
    with simulated(lab, 20) as there:
        assert product("sync", *over).code == 0
        where = ("--env", ENVIRONMENT, "-r", "globals", "--level", "nodes=7")
        assert product("override", *where, "--key", "debug", "--new-key", "--value", "true", "--type", "json").code == 0
        second = product("sync", *over, "--format", "json")
        assert (second.code, second.json["writes"]) == (0, 1)
        changed = {name for name, tree in there.trees.items() if tree.touched}
        assert changed == {"7"}
        third = product("sync", *over, "--format", "json")
        assert (third.code, third.json["uploads"], third.json["writes"]) == (0, 0, 0)


def test_the_watch_over_the_bus(lab: Laboratory, product: Product) -> None:
    """U29: a change by hand and a node that falls silent are found, told, and settled by the next run."""
    nailgun, path = make_small(ENVIRONMENT), "/etc/hiera/globals.yaml"
    for node in nailgun.nodes:
        node["fqdn"] = f"node-{node['id']}.domain.tld"
    with simulated(lab, 3) as there, at_work(nailgun) as url:
        over = ("--from", "mcollective", "--mco-config", lab.config, "--env", ENVIRONMENT, "--nailgun", url)

        def found(code: int, *more: object) -> list[str]:
            seen = product("watch", *over, *more, "--format", "json")
            assert seen.code == code, seen.out + seen.err
            return [f"{one['kind']} {one['node']}" for one in seen.json["environments"][0]["findings"]]

        assert product("sync", *over).code == Exit.OK
        file = there.trees["3"].look(path)
        assert isinstance(file, File)
        there.trees["3"].put(path, dataclasses.replace(file, content=file.content + b"by_hand: 1\n"))
        assert found(Exit.DRIFT) == ["drift 3"]
        there.faults = {"3": one("mute")}
        assert found(Exit.PARTIAL, "--mco-timeout", 1) == ["drift 3", "node-failed 3"]
        there.faults = {}
        assert [one["status"] for one in nailgun.notifications] == ["unread", "unread"]
        assert product("sync", *over).code == Exit.OK
        assert found(Exit.OK) == []
        assert [one["status"] for one in nailgun.notifications] == ["read", "read"]


PING = ("--node", "1,50,51", "--mco-timeout", "3", "--format", "json")


def simulator(lab: Laboratory, *words: str) -> list[str]:
    return [sys.executable, "-m", "tests.lab", *words, "--mco-config", str(lab.config)]


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_the_command(lab: Laboratory) -> None:
    """As an operator runs it; it ends on request, and refuses names that are taken."""
    with subprocess.Popen(simulator(lab, "--simulate", "50"), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert "50 nodes answer on 127.0.0.1:" in process.stdout.readline()
            found = run([sys.executable, "-m", "configdb_sync", "ping", *PING, "--mco-config", str(lab.config)])
            assert json.loads(found.stdout)["missing"] == ["51"], found.stderr
            refused = run(simulator(lab, "--simulate", "3"))
            assert refused.returncode == 2
            assert "nodes of these names answer on this bus: 1, 2, 3" in refused.stderr
        finally:
            os.kill(process.pid, signal.SIGTERM)
        assert process.wait(60) == 0


def test_the_command_on_a_broker_of_its_own(lab: Laboratory) -> None:
    """Without ``--mco-config`` the laboratory starts the broker, and says how to reach it."""
    own = [sys.executable, "-m", "tests.lab", "--simulate", "3", "--fault", "2=silent"]
    with subprocess.Popen(own, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            config = process.stdout.readline().split("--mco-config ")[1].strip()
            assert "3 nodes answer on 127.0.0.1:" in process.stdout.readline()
            asked = ("--node", "1,2,3", "--mco-timeout", "3", "--format", "json", "--mco-config", config)
            found = run([sys.executable, "-m", "configdb_sync", "ping", *asked])
            assert json.loads(found.stdout)["missing"] == ["2"], found.stderr
        finally:
            os.kill(process.pid, signal.SIGTERM)
        assert process.wait(60) == 0


def test_trees_of_ones_own(tmp_path: Path, lab: Laboratory) -> None:
    refused = run(simulator(lab, "--from", str(tmp_path)))
    assert (refused.returncode, "holds no node-<id> folders" in refused.stderr) == (2, True)
    make_node(tmp_path, "46")
    with subprocess.Popen(simulator(lab, "--from", str(tmp_path)), stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith(b"1 nodes answer on ")
            with asked(lab) as nodes:
                (found,) = nodes.read(["46"])
                assert isinstance(found, NodeRead)
                assert found.files["astute.yaml"].content == ASTUTE
        finally:
            os.kill(process.pid, signal.SIGTERM)


@pytest.mark.parametrize("text", ["7", "=silent", "7=", "7=asleep", "7=delay", "7=delay:x", "7=code:9", "7=silent:1"])
def test_a_fault_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(SettingsError):
        parse([text])


def test_faults_are_by_node() -> None:
    assert parse(["7,8=silent", "8=delay:2.5", "9=foreign:7"]) == {
        "7": Fault(FaultKind.SILENT),
        "8": Fault(FaultKind.DELAY, 2.5),
        "9": Fault(FaultKind.FOREIGN, name="7"),
    }


def test_ruby_and_the_simulator_agree(lab: Laboratory) -> None:
    """The real ``mco`` takes simulated nodes for nodes, where it is installed."""
    if not Path("/usr/bin/mco").exists():
        pytest.skip("mco is not installed here")
    compat = Path(laboratory.__file__).with_name("agents") / "ruby3.rb"
    with simulated(lab, 3):
        done = subprocess.run(
            ["ruby", f"-r{compat}", "/usr/bin/mco", "ping", "-c", str(lab.config)],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    assert {line.split()[0] for line in done.stdout.splitlines() if "time=" in line} == {"1", "2", "3"}, done.stderr
