"""The whole main job over the real bus, with real daemons, on a real environment (U8, U10, U14; W01, W02, Y20)."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from configdb_sync.errors import FileChangedError, NodeError, NodeFileError
from configdb_sync.mcollective.client import BusRpc
from configdb_sync.mcollective.outcomes import Outcome
from configdb_sync.nodes.mcollective import MCollectiveNodes
from configdb_sync.nodes.node_files import NodeFile, NodeRead
from tests.lab import laboratory
from tests.lab.laboratory import Laboratory
from tests.support import fixtures
from tests.support.product import MEANT, Product, contents, snapshot

ENVIRONMENT = 37
NODES = ("121", "124", "125", "127")
CANARY = "CANARY-7f3"


@pytest.fixture(scope="module")
def lab() -> Iterator[Laboratory]:
    fixtures.require_data()
    why = laboratory.unavailable()
    if why is not None:
        pytest.skip(why)
    with laboratory.running(NODES) as running:
        yield running


@pytest.fixture
def trees(lab: Laboratory, tmp_path: Path) -> Path:
    """Give each node the files of its namesake, with the links and modes of Fuel 9; return the nodes' folder."""
    source = fixtures.copy_environment(ENVIRONMENT, tmp_path / "trees")
    for identity, node in lab.nodes.items():
        for folder in (node.hiera, node.fuel):
            for path in folder.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        etc = source / f"node-{identity}/etc"
        cluster = node.fuel / f"cluster/{ENVIRONMENT}"
        cluster.mkdir(parents=True)
        shutil.copy(etc / "astute.yaml", cluster / "astute.yaml")
        shutil.copy(etc / "hiera/globals.yaml", node.hiera / "globals.yaml")
        (node.hiera / "astute.yaml").symlink_to(f"/etc/fuel/cluster/{ENVIRONMENT}/astute.yaml")
        (cluster / "astute.yaml").chmod(0o640)
        (node.hiera / "globals.yaml").chmod(0o600)
        os.chown(node.hiera / "globals.yaml", 7, 8)
    lab.await_nodes()
    return lab.folder / "nodes"


@pytest.fixture
def nodes(lab: Laboratory, trees: Path) -> Iterator[MCollectiveNodes]:
    with BusRpc(lab.settings()) as bus:
        yield MCollectiveNodes(bus, env=ENVIRONMENT, timeout=20, expected=NODES)


@pytest.fixture
def run(lab: Laboratory, trees: Path, product: Product) -> Callable[..., Any]:
    def call(command: str, *more: object) -> Any:
        # Nodes that are named need not be waited for once they have shown up.
        named = () if "--node" in more else ("--node", ",".join(NODES))
        over = ("--from", "mcollective", "--mco-config", lab.config, "--mco-timeout", 20, *named)
        return product(command, "--env", ENVIRONMENT, *over, *more)

    return call


def roots(trees: Path) -> dict[str, tuple[object, ...]]:
    return {f"{node}/{path}": facts for node in NODES for path, facts in snapshot(trees / node / "root").items()}


def one(nodes: MCollectiveNodes, path: str, identity: str = "121") -> NodeFile:
    (found,) = nodes.read([identity])
    assert isinstance(found, NodeRead), found
    return found.files[path]


def test_the_main_job(lab: Laboratory, trees: Path, run: Callable[..., Any], product: Product) -> None:
    before = roots(trees)
    first = run("sync", "--format", "json")
    assert (first.code, first.err) == (0, "")
    assert [node["node"] for node in first.json["nodes"]] == list(NODES)
    assert roots(trees) == before

    override = ("override", *MEANT, "--env", ENVIRONMENT, "-r", "globals", "--level", "nodes=124")
    assert product(*override, "--key", "debug", "--value", "true", "--type", "json").code == 0
    assert product(*override, "--key", "use_syslog", "--value", "false", "--type", "json").code == 0
    more = ("override", *MEANT, "--env", ENVIRONMENT, "-r", "astute", "--level", "nodes=121")
    assert product(*more, "--key", "canary_password", "--value-file", "-", "--type", "str", stdin=CANARY).code == 0
    plan = run("plan")
    assert plan.code == 0
    assert CANARY not in plan.out
    second = run("sync", "--format", "json")
    assert (second.code, second.json["writes"]) == (0, 2)
    assert "use_syslog: false" in (trees / "124/root/etc/hiera/globals.yaml").read_text()
    assert CANARY in (trees / f"121/root/etc/fuel/cluster/{ENVIRONMENT}/astute.yaml").read_text()
    after = roots(trees)
    changed = {path for path in before | after if before.get(path) != after.get(path)}
    files = {"121/etc/fuel/cluster/37/astute.yaml", "124/etc/hiera/globals.yaml"}
    assert {path for path in changed if not stat.S_ISDIR(int(str(after[path][0])))} == files
    for path in files:
        assert after[path][:3] == before[path][:3]

    third = run("sync", "--format", "json")
    assert (third.code, third.json["uploads"], third.json["writes"]) == (0, 0, 0)
    assert roots(trees) == after


def test_a_file_that_an_override_makes_comes_and_goes(trees: Path, run: Callable[..., Any], product: Product) -> None:
    before = {node: contents(trees / node / "root") for node in NODES}
    assert run("sync").code == 0
    where = ("--env", ENVIRONMENT, "-r", "override/plugins", "--level", "nodes=125")
    made = product("override", *MEANT, *where, "--key", "lma", "--value", "1", "--type", "json")
    assert made.code == 0, made.err
    assert run("sync").code == 0
    path = trees / "125/root/etc/hiera/override/plugins.yaml"
    assert "lma: 1" in path.read_text()
    assert product("rm-override", *where, "--key", "lma").code == 0
    assert run("sync").code == 0
    assert {node: contents(trees / node / "root") for node in NODES} == before


def test_nothing_of_a_secret_shows_in_processes_or_logs_of_ours(
    lab: Laboratory, trees: Path, run: Callable[..., Any], product: Product, tmp_path: Path
) -> None:
    """Y20: what the nodes' own daemon logs is its own and documented."""
    assert run("sync").code == 0
    where = ("--env", ENVIRONMENT, "-r", "globals", "--level", "nodes=121")
    secret = ("--key", "canary_password", "--value-file", "-", "--type", "str")
    assert product("override", *MEANT, *where, *secret, stdin=CANARY).code == 0
    seen: list[str] = []
    stop = threading.Event()

    def watch() -> None:
        while not stop.is_set():
            for process in Path("/proc").iterdir():
                if process.name.isdigit():
                    try:
                        words = (process / "cmdline").read_bytes()
                    except OSError:
                        continue
                    if CANARY.encode() in words:
                        seen.append(words.decode(errors="replace"))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        done = run("sync", "--report", tmp_path / "report.json")
    finally:
        stop.set()
        watcher.join()
    assert done.code == 0
    assert CANARY in (trees / "121/root/etc/hiera/globals.yaml").read_text()
    assert not seen
    for text in (done.out, done.err, (tmp_path / "report.json").read_text()):
        assert CANARY not in text
        assert lab.psk not in text
        assert lab.broker.password not in text


def test_nodes_read_over_the_bus_as_they_are(trees: Path, nodes: MCollectiveNodes) -> None:
    assert list(nodes.identities()) == list(NODES)
    assert nodes.place == "nodes"
    found = {item.identity: item for item in nodes.read(NODES) if isinstance(item, NodeRead)}
    assert sorted(found) == list(NODES)
    for identity, read in found.items():
        assert read.faults == {}
        for file in read.files.values():
            place = trees / identity / "root" / file.target[1:]
            state = place.stat()
            assert file.content == place.read_bytes()
            assert (file.mode, file.owner, file.group) == (stat.S_IMODE(state.st_mode), state.st_uid, state.st_gid)
        assert read.files["astute.yaml"].target == f"/etc/fuel/cluster/{ENVIRONMENT}/astute.yaml"


def test_large_and_binary_content_goes_both_ways(trees: Path, nodes: MCollectiveNodes) -> None:
    content = bytes(range(256)) * 8000 + hashlib.sha512(b"x").digest() * 40_000
    written = nodes.write("121", "override/large.yaml", content, None)
    assert one(nodes, "override/large.yaml") == written
    again = nodes.write("121", "override/large.yaml", b"\n", written)
    assert one(nodes, "override/large.yaml").content == b"\n"
    nodes.remove("121", again)
    assert not (trees / "121/root/etc/hiera/override").exists()


def test_a_file_changed_since_it_was_read_is_left_alone(trees: Path, nodes: MCollectiveNodes) -> None:
    file = one(nodes, "globals.yaml")
    path = trees / "121/root/etc/hiera/globals.yaml"
    path.write_bytes(b"theirs: 1\n")
    with pytest.raises(FileChangedError, match=r"node 121, file globals\.yaml"):
        nodes.write("121", "globals.yaml", b"ours: 1\n", file)
    assert path.read_bytes() == b"theirs: 1\n"


@pytest.mark.long
def test_a_reader_sees_the_old_or_the_new_file(trees: Path, nodes: MCollectiveNodes) -> None:
    """W01, over the bus and through the link."""
    file = one(nodes, "astute.yaml")
    allowed = {file.sha256}
    path = trees / f"121/root/etc/fuel/cluster/{ENVIRONMENT}/astute.yaml"
    stop = threading.Event()
    odd: list[str] = []

    def watch() -> None:
        while not stop.is_set():
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            if digest not in allowed:
                odd.append(digest)

    reader = threading.Thread(target=watch)
    reader.start()
    try:
        for number in range(100):
            content = file.content + b"number: %d\n" % number
            allowed.add(hashlib.sha256(content).hexdigest())
            file = nodes.write("121", "astute.yaml", content, file)
    finally:
        stop.set()
        reader.join()
    assert not odd


def test_a_daemon_killed_between_upload_and_rename_leaves_a_whole_file(
    lab: Laboratory, trees: Path, nodes: MCollectiveNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W01: the next run takes the leftover away, at once."""
    from configdb_sync.nodes.remote.agents import Agents

    node = lab.nodes["121"]
    file = one(nodes, "globals.yaml")
    upload = Agents.upload

    def upload_and_kill(self: Agents, *arguments: Any, **options: Any) -> list[Outcome]:
        outcomes = list(upload(self, *arguments, **options))
        node.process.kill()
        return outcomes

    monkeypatch.setattr(Agents, "upload", upload_and_kill)
    short = MCollectiveNodes(nodes._rpc, env=ENVIRONMENT, timeout=5)
    with pytest.raises(NodeFileError, match=r"node 121, file globals\.yaml: can't be written: the node doesn't answer"):
        short.write("121", "globals.yaml", b"ours: 1\n", file)
    monkeypatch.undo()
    path = trees / "121/root/etc/hiera/globals.yaml"
    assert path.read_bytes() == file.content
    assert len(list(path.parent.glob(".configdb-sync.*"))) == 1
    node.process.start()
    lab.await_nodes(["121"])
    nodes.write("121", "globals.yaml", b"ours: 1\n", file)
    assert path.read_bytes() == b"ours: 1\n"
    assert not list(path.parent.glob(".configdb-sync.*"))


def test_a_node_that_is_down_is_named_and_the_others_go_on(
    lab: Laboratory, trees: Path, nodes: MCollectiveNodes, run: Callable[..., Any]
) -> None:
    """U14, B18."""
    lab.nodes["125"].process.pause()
    try:
        short = MCollectiveNodes(nodes._rpc, env=ENVIRONMENT, timeout=5)
        found = list(short.read(NODES))
        errors = [item for item in found if isinstance(item, NodeError)]
        assert [error.node for error in errors] == ["125"]
        assert "doesn't answer: no reply within 5 s" in errors[0].what
        done = run("sync", "--node", "121,125", "--mco-timeout", 5, "--format", "json")
        assert done.code == 3
        assert {node["node"]: len(node["problems"]) for node in done.json["nodes"]} == {"121": 0, "125": 1}
    finally:
        lab.nodes["125"].process.go_on()


@pytest.mark.long
def test_a_broker_that_goes_away_fails_what_is_left_and_a_later_run_converges(
    lab: Laboratory, trees: Path, nodes: MCollectiveNodes
) -> None:
    """In the middle of a read and of a write; the daemons come back by themselves."""
    file = one(nodes, "globals.yaml")
    reading = nodes.read(NODES)
    assert isinstance(next(reading), NodeRead)
    lab.broker.server.kill()
    rest = list(reading)
    assert len(rest) == 3
    for item in rest:
        assert isinstance(item, NodeRead) or "broker" in item.what
    with pytest.raises(NodeFileError, match=r"node 121, file globals\.yaml: can't be written: the broker"):
        nodes.write("121", "globals.yaml", b"ours: 1\n", file)
    lab.broker.start()
    lab.await_nodes()
    nodes.write("121", "globals.yaml", b"ours: 1\n", file)
    assert (trees / "121/root/etc/hiera/globals.yaml").read_bytes() == b"ours: 1\n"


def test_a_key_that_differs_names_every_node(lab: Laboratory, trees: Path, product: Product, tmp_path: Path) -> None:
    """U14: exit code 8, within the time that discovery takes."""
    config = tmp_path / "client.cfg"
    config.write_text(lab.config.read_text().replace(lab.psk, "another-key"))
    done = product("plan", "--env", ENVIRONMENT, "--from", "mcollective", "--mco-config", config)
    assert done.code == 8
    assert "no node answers on the bus within 5 s" in done.err
    assert "another-key" not in done.err
    assert done.out == ""
