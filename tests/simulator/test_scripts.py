"""The simulator's own idea of the commands, held against a real shell on the same tree."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configdb_sync.errors import ProductError
from configdb_sync.mcollective import envelope
from configdb_sync.mcollective.outcomes import ErrorReply, Reply
from configdb_sync.nodes.hiera_backend import Removal, RemovalOrder, remove_over_bus
from configdb_sync.nodes.mcollective import MCollectiveNodes
from configdb_sync.nodes.node_files import NodeRead
from configdb_sync.nodes.remote.commands import Commands
from tests.nodes.shell import ShellRpc
from tests.nodes.trees import make_node
from tests.simulator.direct import NOW, SIGNER, DirectRpc
from tests.support.simulator.agents import ask
from tests.support.simulator.nodes import SimulatedNodes
from tests.support.simulator.scripts import execute
from tests.support.simulator.tree import File, Folder, Link, Tree, load

Outcome = Any


def odd_node(top: Path) -> Path:
    """Make a tree with everything that a simulated tree can hold."""
    node = make_node(top)
    hiera = node / "etc/hiera"
    for name in ("a.yaml", "a b.yaml", "new\nline.yaml", "back\\slash.yaml", "bad\udcff.yaml", ".yaml"):
        (hiera / name).write_text(f"name: {len(name)}\n")
    (hiera / "large.yaml").write_text("#" * 3_000)
    (hiera / "deep/er").mkdir(parents=True)
    (hiera / "deep/er/b.yaml").write_text("b: 1\n")
    (hiera / "folder.yaml").mkdir()
    (hiera / "dangling.yaml").symlink_to("nothing.yaml")
    (hiera / "loop.yaml").symlink_to("loop.yaml")
    (hiera / "file").write_text("no settings\n")
    (node / "etc/elsewhere").mkdir()
    (node / "etc/elsewhere/c.yaml").write_text("c: 1\n")
    (hiera / "linked").symlink_to("../elsewhere")
    (hiera / "round").symlink_to(".")
    (hiera / "nowhere").symlink_to("../none")
    (hiera / "to-large.yaml").symlink_to("large.yaml")
    return node


class Both:
    """One tree twice: on disk behind a shell, and in memory."""

    def __init__(self, node: Path) -> None:
        self.node = node
        self.tree = Tree(load(node))
        simulated = SimulatedNodes({"46": self.tree}, SIGNER)
        token = iter(f"{number:08x}" for number in range(1000))
        options: dict[str, Any] = {"env": 16, "token": lambda: next(token)}
        self.real = MCollectiveNodes(ShellRpc(), root=str(node), **options)
        self.simulated = MCollectiveNodes(DirectRpc(simulated), **options)

    def same(self, act: Callable[[MCollectiveNodes], Outcome]) -> Outcome:
        """Do something on both; return what came of it, which must be the same."""
        real, simulated = (_outcome(act, nodes) for nodes in (self.real, self.simulated))
        assert simulated == real
        assert self.in_memory() == self.on_disk()
        return real

    def on_disk(self) -> dict[str, object]:
        return {path: _facts(entry) for path, entry in load(self.node).items()}

    def in_memory(self) -> dict[str, object]:
        return {path: _facts(entry) for path, entry in self.tree.files()}


def _facts(entry: object) -> object:
    if isinstance(entry, File):
        return entry.content, entry.mode, entry.owner, entry.group
    if isinstance(entry, Folder):
        return entry.mode, entry.owner, entry.group
    assert isinstance(entry, Link)
    return entry.target


def _outcome(act: Callable[[MCollectiveNodes], Outcome], nodes: MCollectiveNodes) -> Outcome:
    try:
        return act(nodes)
    except ProductError as error:
        return type(error), str(error)


def read(nodes: MCollectiveNodes) -> Outcome:
    (found,) = nodes.read(["46"])
    assert isinstance(found, NodeRead), found
    return dict(found.files), {path: str(fault) for path, fault in found.faults.items()}


@pytest.mark.parametrize("size", [0, 200, 65_536, 65_537])
def test_a_hiera_yaml_reads_the_same(tmp_path: Path, size: int) -> None:
    node = odd_node(tmp_path)
    (node / "etc/puppet").mkdir()
    (node / "etc/puppet/hiera.yaml").symlink_to("../hiera.yaml")
    (node / "etc/hiera.yaml").write_bytes(b"#" * size)
    found = Both(node).same(_hiera_yaml)
    assert found == (b"#" * size if size <= 65_536 else None)


def _hiera_yaml(nodes: MCollectiveNodes) -> bytes | None:
    (found,) = nodes.read(["46"])
    assert isinstance(found, NodeRead), found
    return found.hiera_yaml


def test_a_tree_reads_the_same(tmp_path: Path) -> None:
    files, faults = Both(odd_node(tmp_path)).same(read)
    assert len(files) == 7
    assert len(faults) == 9


PATHS = ["astute.yaml", "a.yaml", "new.yaml", "deep/er/b.yaml", "made/for/it.yaml", "made/x.yaml", "linked/c.yaml"]
MORE = ["linked/new.yaml", "file/x.yaml", "nowhere/x.yaml", "dangling.yaml", "folder.yaml", "round/a.yaml"]
step = st.tuples(
    st.sampled_from(["write", "create", "remove", "stale"]),
    st.sampled_from(PATHS + MORE),
    st.sampled_from([b"", b"\n", b"a: 1\n", b"b: 2\n" * 3]),
)


@settings(max_examples=12, deadline=None)
@given(st.lists(step, min_size=1, max_size=6))
def test_any_writes_end_the_same(steps: list[tuple[str, str, bytes]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        both = Both(odd_node(Path(folder)))
        first, _ = read(both.real)
        for doing, path, content in steps:
            now, _ = read(both.simulated)
            expected = {"write": now.get(path), "remove": now.get(path), "stale": first.get(path)}.get(doing)
            if doing == "remove":
                if expected is not None:
                    both.same(lambda nodes, file=expected: nodes.remove("46", file))  # type: ignore[misc]
            else:
                both.same(
                    lambda nodes, path=path, content=content, file=expected: nodes.write(  # type: ignore[misc]
                        "46", path, content, file
                    )
                )
        both.same(read)


def test_large_files_come_in_pieces_in_memory_too(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    shutil.copy("/bin/bash", node / "etc/hiera/bash.yaml")
    (node / "etc/hiera/more.yaml").write_bytes(bytes(range(256)) * 20_000 + (node / "etc/hiera/bash.yaml").read_bytes())
    Both(node).same(read)


@pytest.mark.parametrize("command", ["ls", "sh -c 'id'", "'", "", Commands().read([b"/x"]).replace("find", "fond")])
def test_what_the_product_doesnt_send_is_not_found(command: str) -> None:
    assert execute(Tree({}), command).code == 127
    assert execute(Tree({}), "true").code == 0


UPLOAD = {
    "path": b"/etc/x",
    "content": b"x",
    "overwrite": True,
    "parents": False,
    "user_owner": b"root",
    "group_owner": b"root",
    "permissions": b"0600",
}


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({}, 0),
        ({"content": b"\n\n"}, 4),
        ({"content": None}, 4),
        ({"path": b"/" + b"x" * 256}, 4),
        ({"path": b"/a;b"}, 4),
        ({"permissions": b"600x"}, 4),
        ({"overwrite": b"true"}, 4),
        ({"path": b"/none/x"}, 1),
        ({"path": b"/etc"}, 5),
        ({"path": b"/etc/there", "overwrite": False}, 1),
    ],
)
def test_uploads_are_judged_as_the_agent_does(changed: dict[str, Any], code: int) -> None:
    """B19."""
    tree = Tree({"/etc": Folder(), "/etc/there": File(b"")})
    found = ask(tree, "uploadfile", "upload", {**UPLOAD, **changed})
    assert found is not None
    assert found.code == code
    assert (tree.look("/etc/x") is not None) == (code == 0)


@pytest.mark.parametrize(
    ("data", "code", "exit_code"),
    [({}, 4, None), ({"cmd": 7}, 4, None), ({"cmd": b""}, 0, 42), ({"cmd": b"a\0"}, 0, 42), ({"cmd": b"true"}, 0, 0)],
)
def test_commands_are_judged_as_the_agent_does(data: dict[str, Any], code: int, exit_code: int | None) -> None:
    found = ask(Tree({}), "execute_shell_command", "execute", data)
    assert found is not None
    assert (found.code, found.data["exit_code"]) == (code, exit_code)
    wrong = ask(Tree({}), "execute_shell_command", "run", data)
    assert wrong is not None
    assert wrong.code == 4
    assert ask(Tree({}), "puppet", "run", data) is None


def test_a_node_heeds_only_what_is_for_it() -> None:
    rpc = DirectRpc(SimulatedNodes({"46": Tree({})}, SIGNER))
    (found,) = rpc.call("execute_shell_command", "execute", {"cmd": "true"}, ["46"], timeout=1)
    assert isinstance(found, Reply)
    (failed,) = rpc.call("execute_shell_command", "erase", {"cmd": "true"}, ["46"], timeout=1)
    assert isinstance(failed, ErrorReply)
    other = DirectRpc(SimulatedNodes({"47": Tree({})}, SIGNER))
    assert not isinstance(next(other.call("uploadfile", "upload", {}, ["46"], timeout=1)), Reply)


def test_a_message_that_isnt_one_is_met_with_silence_and_the_next_is_heard() -> None:
    nodes = SimulatedNodes({"46": Tree({})}, SIGNER)
    body = envelope.rpc_request("execute_shell_command", "execute", SIGNER.caller, {"cmd": "true"})
    good = envelope.request(SIGNER, body=body, agent="execute_shell_command", request_id="1" * 32, now=NOW)
    other = replace(SIGNER, psk=b"another key")
    forged = envelope.request(other, body=body, agent="execute_shell_command", request_id="1" * 32, now=NOW)
    heard = [len(list(nodes.answer(raw, "46", NOW))) for raw in (good, b"\x04\x08?", good, forged, good, b"", good)]
    assert heard == [1, 0, 1, 0, 1, 0, 1]
    assert not list(nodes.answer(good, "46", NOW + SIGNER.ttl + 1))
    assert not list(nodes.answer(good, "47", NOW))


def test_the_file_of_a_role_is_written_only_where_astute_yaml_leads_to_it(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    for name in ("primary-controller.yaml", "other.yaml"):
        (node / "etc" / name).write_text("uid: '46'\n")
    (node / "etc/astute.yaml").unlink()
    (node / "etc/astute.yaml").symlink_to("primary-controller.yaml")
    (node / "etc/hiera/other.yaml").symlink_to("../other.yaml")
    both = Both(node)
    for path in ("astute.yaml", "other.yaml"):
        both.same(lambda nodes, path=path: nodes.write("46", path, b"debug: true\n", _file(nodes, path)))  # type: ignore[misc]
    assert (node / "etc/primary-controller.yaml").read_text() == "debug: true\n"
    assert (node / "etc/other.yaml").read_text() == "uid: '46'\n"


def _file(nodes: MCollectiveNodes, path: str) -> Any:
    (found,) = nodes.read(["46"])
    assert isinstance(found, NodeRead)
    return found.files[path]


def test_simulated_nodes_have_no_hiera_backend(tmp_path: Path) -> None:
    rpc = DirectRpc(SimulatedNodes({"46": Tree(load(make_node(tmp_path)))}, SIGNER, {}))
    order = RemovalOrder(16, named=False, look=False)
    assert list(remove_over_bus(rpc, b"", ["46"], order, timeout=5)) == [Removal("46")]
