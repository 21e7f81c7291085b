"""Writing to a node by its own shell and the agent ``uploadfile``: on made trees (U10, W01 to W05)."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configdb_sync.errors import FileChangedError, NodeFileError
from configdb_sync.mcollective.outcomes import ErrorReply, Missing, Outcome, Reply
from configdb_sync.nodes.mcollective import MCollectiveNodes
from configdb_sync.nodes.node_files import NodeFile, NodeRead, ReadLimits
from configdb_sync.nodes.remote.agents import parts
from tests.nodes.shell import ShellRpc, slow
from tests.nodes.trees import ASTUTE, make_node, snapshot

NEW = b"uid: '46'\ndeployment_id: 16\npassword: CANARY-7f3\n"
MARK = ".configdb-sync.folder"
HOSTILE = {
    **dict.fromkeys(("POSIXLY_CORRECT", "_POSIX2_VERSION", "POSIX_ME_HARDER"), "199209"),
    "GZIP": "-d",
    "CDPATH": "/:/tmp",
    "TIME_STYLE": "full-iso",
    "BLOCKSIZE": "1",
    "QUOTING_STYLE": "c",
    "LC_ALL": "C.UTF-8",
    "LANGUAGE": "de",
    "TMPDIR": "/nowhere",
    "SIMPLE_BACKUP_SUFFIX": "/",
    "VERSION_CONTROL": "t",
}
"""What changes the programs that the commands use."""
TARGET = "etc/fuel/cluster/16/astute.yaml"


def nodes_at(node: Path, rpc: ShellRpc | None = None, **more: Any) -> MCollectiveNodes:
    return MCollectiveNodes(rpc or ShellRpc(), env=16, root=str(node), **more)


def file_of(nodes: MCollectiveNodes, path: str) -> NodeFile:
    (found,) = nodes.read(["46"])
    assert isinstance(found, NodeRead), found
    return found.files[path]


@pytest.fixture
def node(tmp_path: Path) -> Path:
    return make_node(tmp_path)


def test_the_target_is_written_and_all_else_stays(node: Path) -> None:
    target = node / TARGET
    target.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(target, 7, 8)
    before = snapshot(node)
    nodes = nodes_at(node)
    written = nodes.write("46", "astute.yaml", NEW, file_of(nodes, "astute.yaml"))
    after = snapshot(node)
    assert {path for path in before | after if before.get(path) != after.get(path)} == {TARGET}
    assert target.read_bytes() == NEW
    assert after[TARGET][:3] == before[TARGET][:3]
    assert written == file_of(nodes, "astute.yaml")
    assert nodes.write("46", "astute.yaml", ASTUTE, written).content == ASTUTE
    assert snapshot(node) == before


@pytest.mark.parametrize("environ", [{}, HOSTILE], ids=["plain", "hostile"])
@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_the_commands_are_plain_posix(node: Path, tmp_path: Path, shell: str, environ: Mapping[str, str]) -> None:
    """``sh`` is dash on Ubuntu and bash on CentOS, and the agent's environment is whatever the node has."""
    (tmp_path / "shells").mkdir()
    (tmp_path / "shells/sh").symlink_to(f"/bin/{shell}")
    before = snapshot(node)
    nodes = nodes_at(node, ShellRpc(path=f"{tmp_path}/shells:{ShellRpc().path}", environ=environ))
    written = nodes.write("46", "astute.yaml", CONTENTS["large"], file_of(nodes, "astute.yaml"))
    assert file_of(nodes, "astute.yaml") == written
    nodes.write("46", "astute.yaml", ASTUTE, written)
    nodes.remove("46", nodes.write("46", "override/node/new.yaml", NEW, None))
    assert snapshot(node) == before


def test_no_content_is_in_a_command_nor_readable_on_its_way(node: Path) -> None:
    """W02, Y20: the temporary file is born 0600 in a folder of 0700, and the agent leaves it so."""
    seen: list[tuple[int, int, bytes]] = []

    def look(_identity: str, agent: str, data: Mapping[str, Any]) -> Outcome | None:
        if agent == "uploadfile":
            path = Path(data["path"])
            modes = [stat.S_IMODE(place.stat().st_mode) for place in (path.parent, path)]
            seen.append((modes[0], modes[1], path.read_bytes()))
            assert data["permissions"] == "0600"
            assert isinstance(data["content"], bytes)
        else:
            assert "CANARY" not in data["cmd"]
        return None

    rpc = ShellRpc(fault=look)
    nodes = nodes_at(node, rpc)
    nodes.write("46", "astute.yaml", NEW, file_of(nodes, "astute.yaml"))
    nodes.write("46", "override/new.yaml", NEW, None)
    assert seen == [(0o700, 0o600, b"")] * 2
    assert [agent for agent, _ in rpc.asked].count("uploadfile") == 2


@pytest.mark.parametrize("writes", [25, pytest.param(1000, marks=pytest.mark.long)])
def test_a_reader_sees_the_old_or_the_new_file(node: Path, writes: int) -> None:
    """W01: nothing else, in many writes."""
    nodes = nodes_at(node)
    file = file_of(nodes, "astute.yaml")
    allowed = {hashlib.sha256(ASTUTE).hexdigest()}
    stop = threading.Event()
    odd: list[bytes] = []
    reads = 0

    def watch() -> None:
        nonlocal reads
        while not stop.is_set():
            content = (node / "etc/hiera/astute.yaml").read_bytes()
            reads += 1
            if hashlib.sha256(content).hexdigest() not in allowed:
                odd.append(content)

    reader = threading.Thread(target=watch)
    reader.start()
    try:
        for number in range(writes):
            content = b"".join(b"key%d: %d\n" % (one, number) for one in range(2000))
            allowed.add(hashlib.sha256(content).hexdigest())
            file = nodes.write("46", "astute.yaml", content, file)
    finally:
        stop.set()
        reader.join()
    assert not odd
    assert reads > 1000


def test_a_file_that_changed_or_went_since_it_was_read_is_left_alone(node: Path) -> None:
    nodes = nodes_at(node)
    file = file_of(nodes, "astute.yaml")
    target = node / TARGET
    target.write_bytes(b"theirs: 1\n")
    before = snapshot(node)
    with pytest.raises(FileChangedError, match=r"node 46, file astute\.yaml: was changed after it was read"):
        nodes.write("46", "astute.yaml", NEW, file)
    assert snapshot(node) == before
    created = nodes.write("46", "new.yaml", NEW, None)
    (node / "etc/hiera/new.yaml").write_bytes(b"theirs: 1\n")
    with pytest.raises(FileChangedError, match=r"node 46, file new\.yaml: was changed after it was read"):
        nodes.remove("46", created)
    assert (node / "etc/hiera/new.yaml").read_bytes() == b"theirs: 1\n"
    target.unlink()
    with pytest.raises(FileChangedError):
        nodes.write("46", "astute.yaml", NEW, file)
    shutil.rmtree(node / "etc/fuel")
    with pytest.raises(FileChangedError):
        nodes.write("46", "astute.yaml", NEW, file)
    assert not (node / "etc/fuel").exists()


def test_a_file_that_changes_while_the_content_is_on_its_way_is_left_alone(node: Path) -> None:
    def change(_identity: str, agent: str, _data: Mapping[str, Any]) -> Outcome | None:
        if agent == "uploadfile":
            (node / TARGET).write_bytes(b"theirs: 1\n")
        return None

    nodes = nodes_at(node, ShellRpc(fault=change))
    with pytest.raises(FileChangedError):
        nodes.write("46", "astute.yaml", NEW, file_of(nodes, "astute.yaml"))
    assert (node / TARGET).read_bytes() == b"theirs: 1\n"
    assert_nothing_left(node)


def assert_nothing_left(node: Path) -> None:
    assert not [path for path in node.rglob("*") if path.name.startswith(".configdb-sync")]


def test_a_link_that_leads_elsewhere_by_now_is_a_change(node: Path) -> None:
    nodes = nodes_at(node)
    file = file_of(nodes, "astute.yaml")
    (node / "etc/fuel/cluster/16/other.yaml").write_bytes(ASTUTE)
    (node / "etc/astute.yaml").unlink()
    (node / "etc/astute.yaml").symlink_to("fuel/cluster/16/other.yaml")
    with pytest.raises(FileChangedError):
        nodes.write("46", "astute.yaml", NEW, file)


def test_only_the_allowed_places_are_written(node: Path) -> None:
    (node / "etc/shadow").write_bytes(b"x: 1\n")
    (node / "etc/hiera-more").mkdir()
    (node / "etc/hiera-more/x.yaml").write_bytes(b"x: 1\n")
    hiera = node / "etc/hiera"
    (hiera / "shadow.yaml").symlink_to("../shadow")
    (hiera / "beside.yaml").symlink_to("../hiera-more/x.yaml")
    (hiera / "folder").symlink_to("../hiera-more")
    rpc = ShellRpc()
    nodes = nodes_at(node, rpc)
    (found,) = nodes.read(["46"])
    assert isinstance(found, NodeRead)
    before = snapshot(node)
    rpc.asked.clear()
    for path in ("shadow.yaml", "beside.yaml"):
        with pytest.raises(NodeFileError, match=rf"node 46, file {path}: leads to /etc/.*, which may not be"):
            nodes.write("46", path, NEW, found.files[path])
        with pytest.raises(NodeFileError, match="which may not be written"):
            nodes.remove("46", found.files[path])
    assert not rpc.asked
    for path in ("folder/new.yaml", "folder/deep/new.yaml"):
        with pytest.raises(NodeFileError, match=r"leads to /etc/hiera-more/.*, which may not be written .*16"):
            nodes.write("46", path, NEW, None)
    assert snapshot(node) == before


@pytest.mark.parametrize("path", ["", "x", "/x.yaml", "../x.yaml", "a\nb.yaml", "a\\b.yaml", "\udcff.yaml"])
def test_an_odd_path_is_never_written(node: Path, path: str) -> None:
    rpc = ShellRpc()
    with pytest.raises(NodeFileError, match="can't be a settings file"):
        nodes_at(node, rpc).write("46", path, NEW, None)
    assert not rpc.asked


@pytest.mark.parametrize(
    "path",
    ["quote'.yaml", "a b/c d.yaml", "-rf/--help.yaml", "*/?.yaml", "[a]/%s.yaml", "\N{SNOWMAN}/#x.yaml"],
)
def test_names_that_a_shell_would_heed_are_but_names(node: Path, path: str) -> None:
    before = snapshot(node)
    nodes = nodes_at(node)
    created = nodes.write("46", path, NEW, None)
    assert (node / "etc/hiera" / path).read_bytes() == NEW
    assert file_of(nodes, path) == created
    replaced = nodes.write("46", path, ASTUTE, created)
    assert (node / "etc/hiera" / path).read_bytes() == ASTUTE
    nodes.remove("46", replaced)
    assert snapshot(node) == before


@pytest.mark.parametrize("path", ["a$b.yaml", "a;b.yaml", "a|b.yaml", "a&&b/c.yaml", "`a`/b.yaml", "x" * 240 + ".yaml"])
def test_what_the_agent_refuses_is_never_sent(node: Path, path: str) -> None:
    """B19."""
    rpc = ShellRpc()
    nodes = nodes_at(node, rpc)
    parent = path.rpartition("/")[0] or ("y" * 200 if len(path) > 200 else "")
    place = path if not parent or "/" in path else f"{parent}/{path[-20:]}"
    if not parent:
        nodes.write("46", place, NEW, None)
        return
    before = snapshot(node)
    with pytest.raises(NodeFileError, match=r"can't be written: (its path on the node is too long|the agent takes)"):
        nodes.write("46", place, NEW, None)
    assert snapshot(node) == before
    assert not [agent for agent, _ in rpc.asked if agent == "uploadfile"]


def test_a_file_created_for_an_override_goes_without_a_trace(node: Path) -> None:
    """U23: with the folders that were made for it."""
    (node / "etc/hiera").chmod(0o750)
    before = snapshot(node)
    nodes = nodes_at(node)
    one = nodes.write("46", "override/node/a.yaml", NEW, None)
    two = nodes.write("46", "override/b.yaml", NEW, None)
    assert (one.mode, one.target) == (0o640, "/etc/hiera/override/node/a.yaml")
    assert stat.S_IMODE((node / "etc/hiera/override/node").stat().st_mode) == 0o750
    assert stat.S_IMODE((node / "etc/hiera/override/node/a.yaml").stat().st_mode) == 0o640
    assert file_of(nodes, "override/node/a.yaml") == one
    nodes.remove("46", one)
    assert sorted(item.name for item in (node / "etc/hiera/override").iterdir()) == [MARK, "b.yaml"]
    nodes.remove("46", two)
    assert snapshot(node) == before


def test_folders_that_were_there_or_hold_something_stay(node: Path) -> None:
    (node / "etc/hiera/override").mkdir()
    nodes = nodes_at(node)
    file = nodes.write("46", "override/node/a.yaml", NEW, None)
    (node / "etc/hiera/override/node/theirs.yaml").write_bytes(b"x: 1\n")
    nodes.remove("46", file)
    assert (node / "etc/hiera/override/node/theirs.yaml").exists()
    nodes.remove("46", nodes.write("46", "override/a.yaml", NEW, None))
    assert (node / "etc/hiera/override").is_dir()


def test_what_is_there_is_never_replaced_by_a_new_file(node: Path) -> None:
    hiera = node / "etc/hiera"
    (hiera / "dangling.yaml").symlink_to("nothing.yaml")
    (hiera / "folder.yaml").mkdir()
    (hiera / "file").write_text("x")
    (hiera / "nowhere").symlink_to("/var/none")
    before = snapshot(node)
    nodes = nodes_at(node)
    for path, error, text in (
        ("astute.yaml", FileChangedError, "was created by someone else"),
        ("dangling.yaml", NodeFileError, "is a link to a file that isn't there"),
        ("folder.yaml", FileChangedError, "was created by someone else"),
        ("file/x.yaml", NodeFileError, "a part of its path is no folder"),
        ("nowhere/x.yaml", NodeFileError, "a part of its path is no folder"),
    ):
        with pytest.raises(error, match=text):
            nodes.write("46", path, NEW, None)
        assert snapshot(node) == before, path


def test_a_new_file_never_replaces_one_that_came_meanwhile(node: Path) -> None:
    def come(_identity: str, agent: str, _data: Mapping[str, Any]) -> Outcome | None:
        if agent == "uploadfile":
            (node / "etc/hiera/override/x.yaml").write_bytes(b"theirs: 1\n")
        return None

    with pytest.raises(FileChangedError, match="was created by someone else"):
        nodes_at(node, ShellRpc(fault=come)).write("46", "override/x.yaml", NEW, None)
    assert (node / "etc/hiera/override/x.yaml").read_bytes() == b"theirs: 1\n"
    assert sorted(path.name for path in (node / "etc/hiera/override").iterdir()) == [MARK, "x.yaml"]


def test_a_link_is_never_removed_nor_what_it_leads_to(node: Path) -> None:
    nodes = nodes_at(node)
    file = file_of(nodes, "astute.yaml")
    before = snapshot(node)
    with pytest.raises(NodeFileError, match="only a file that was created here can be removed"):
        nodes.remove("46", file)
    assert snapshot(node) == before


def test_a_file_with_a_second_name_is_not_written(node: Path) -> None:
    (node / "outside.yaml").write_bytes(ASTUTE)
    os.link(node / "outside.yaml", node / "etc/hiera/globals.yaml")
    nodes = nodes_at(node)
    before = snapshot(node)
    with pytest.raises(NodeFileError, match=r"has 2 names \(hard links\)"):
        nodes.write("46", "globals.yaml", NEW, file_of(nodes, "globals.yaml"))
    assert snapshot(node) == before


CONTENTS = {
    "empty": b"",
    "one line end": b"\n",
    "line ends": b"\n" * 10,
    "bytes": bytes(range(256)) * 10,
    "large": b"\n" * 1_500_000 + b"key: value\n" * 300_000 + b"\n" * 1_500_000,
}


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
def test_any_content_arrives(node: Path, content: bytes) -> None:
    """B19: never a request that the agent refuses, never a message of 2 MB (``ShellRpc`` looks)."""
    nodes = nodes_at(node)
    written = nodes.write("46", "astute.yaml", content, file_of(nodes, "astute.yaml"))
    assert (node / TARGET).read_bytes() == content
    nodes.write("46", "new.yaml", content, None)
    assert (node / "etc/hiera/new.yaml").read_bytes() == content
    assert written.content == content
    assert_nothing_left(node)


@given(st.lists(st.sampled_from([b"\n", b"a", b"bc\n", b"\n\n\n"])), st.integers(1, 5))
def test_parts_are_what_the_agent_takes(pieces: list[bytes], limit: int) -> None:
    content = b"".join(pieces)
    found = parts(content, limit)
    assert all(part.content.strip(b"\n") and len(part.content) <= limit + 1 for part in found)
    back = [part.content[:-1] if part.name.endswith("p") else part.content for part in found]
    assert b"".join(back) == content
    assert len({part.name for part in found}) == len(found)


def test_content_beyond_the_limit_is_refused(node: Path) -> None:
    with pytest.raises(NodeFileError, match="would be larger than 10 bytes"):
        nodes_at(node, limits=ReadLimits(file=10)).write("46", "x.yaml", NEW, None)


Fault = Callable[[str, str, Mapping[str, Any]], Outcome | None]


def on_upload(what: Callable[[Path, bytes], Outcome]) -> Fault:
    return lambda _, agent, data: what(Path(data["path"]), data["content"]) if agent == "uploadfile" else None


def test_a_part_that_arrives_cut_is_not_put_in_place(node: Path) -> None:
    def cut(path: Path, content: bytes) -> Outcome:
        path.write_bytes(content[:-1])
        return Reply("46", {"msg": "File was uploaded!"})

    nodes = nodes_at(node, ShellRpc(fault=on_upload(cut)))
    before = snapshot(node)
    for path, expected in (("astute.yaml", file_of(nodes, "astute.yaml")), ("override/new.yaml", None)):
        with pytest.raises(NodeFileError, match=rf"node 46, file {path}: what arrived on the node isn't what was sent"):
            nodes.write("46", path, NEW, expected)
        assert snapshot(node) == before


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        (Missing("46", "no reply within 60 s"), "the node doesn't answer: no reply within 60 s"),
        (ErrorReply("46", 1, "exists"), "the node its agent failed: exists .code 1"),
        (ErrorReply("46", 4, "Cannot validate input content"), "Cannot validate input content .code 4"),
        (ErrorReply("46", 5, "No space left on device @ io_write"), "No space left on device @ io_write .code 5"),
    ],
)
def test_an_upload_that_fails_leaves_all_as_it_was(node: Path, outcome: Outcome, text: str) -> None:
    nodes = nodes_at(node, ShellRpc(fault=on_upload(lambda *_: outcome)))
    before = snapshot(node)
    for path, expected in (("astute.yaml", file_of(nodes, "astute.yaml")), ("override/new.yaml", None)):
        with pytest.raises(NodeFileError, match=text):
            nodes.write("46", path, NEW, expected)
        assert snapshot(node) == before


class Kill:
    """From its request number ``after`` on, the master is as good as dead: nothing reaches the node any more."""

    def __init__(self, after: int) -> None:
        self.left = after

    def __call__(self, identity: str, _agent: str, _data: Mapping[str, Any]) -> Outcome | None:
        self.left -= 1
        return None if self.left >= 0 else Missing(identity, "killed")


@pytest.mark.parametrize("after", [1, 2])
@pytest.mark.parametrize("path", ["astute.yaml", "override/node/new.yaml"])
def test_a_kill_before_the_end_leaves_whole_files_and_the_next_write_cleans_up(
    node: Path, after: int, path: str
) -> None:
    """W01: killed after the first request, or between upload and rename; the next run begins at once."""
    nodes = nodes_at(node)
    expected = file_of(nodes, path) if path == "astute.yaml" else None
    with pytest.raises(NodeFileError, match="killed"):
        nodes_at(node, ShellRpc(fault=Kill(after))).write("46", path, NEW, expected)
    assert (node / "etc/hiera/astute.yaml").read_bytes() == ASTUTE
    assert not (node / "etc/hiera/override/node/new.yaml").exists()
    leftovers = list(node.rglob(".configdb-sync.*.tmp"))
    assert len(leftovers) == 1
    assert stat.S_IMODE(leftovers[0].stat().st_mode) == 0o700
    nodes.write("46", path, NEW, expected)
    assert (node / "etc/hiera" / path).read_bytes() == NEW
    assert not list(node.rglob(".configdb-sync.*.tmp"))


def test_an_old_leftover_of_another_file_goes_too_and_a_young_one_stays(node: Path) -> None:
    folder = node / "etc/fuel/cluster/16"
    for name in ("0123456789abcdef", "fedcba9876543210"):
        (folder / f".configdb-sync.{name}.tmp").mkdir()
        (folder / f".configdb-sync.{name}.tmp/new").write_bytes(b"half")
    (folder / ".configdb-sync.0123456789abcdef.tmp.yaml").mkdir()
    os.utime(folder / ".configdb-sync.0123456789abcdef.tmp", (0, 0))
    nodes = nodes_at(node)
    nodes.write("46", "astute.yaml", NEW, file_of(nodes, "astute.yaml"))
    assert sorted(path.name for path in folder.iterdir()) == [
        ".configdb-sync.0123456789abcdef.tmp.yaml",
        ".configdb-sync.fedcba9876543210.tmp",
        "astute.yaml",
    ]


def test_an_upload_that_comes_too_late_leaves_nothing(node: Path) -> None:
    """Its folder is gone by then, and the agent makes none."""
    rpc = ShellRpc()
    nodes = nodes_at(node, rpc)
    nodes.write("46", "astute.yaml", NEW, file_of(nodes, "astute.yaml"))
    (late,) = [data for agent, data in rpc.asked if agent == "uploadfile"]
    before = snapshot(node)
    (outcome,) = rpc.call("uploadfile", "upload", late, ["46"], timeout=1)
    assert isinstance(outcome, ErrorReply)
    assert snapshot(node) == before


@pytest.mark.parametrize("path", ["astute.yaml", "override/new.yaml"])
def test_a_request_that_is_made_twice_does_it_once(node: Path, path: str) -> None:
    """As the bus does after a lost connection."""

    class Twice(ShellRpc):
        def call_each(self, agent: str, action: str, requests: Any, **more: Any) -> Iterator[Outcome]:
            list(super().call_each(agent, action, requests, **more))
            yield from super().call_each(agent, action, requests, **more)

    nodes = nodes_at(node, Twice())
    expected = file_of(nodes, path) if path == "astute.yaml" else None
    written = nodes.write("46", path, NEW, expected)
    assert written.content == (node / "etc/hiera" / path).read_bytes() == NEW
    assert not list(node.rglob(".configdb-sync.*.tmp"))


def test_a_node_that_lies_about_what_it_wrote_is_found_out(node: Path) -> None:
    def lie(identity: str, _agent: str, data: Mapping[str, Any]) -> Outcome | None:
        if "replace-end" not in data.get("cmd", ""):
            return None
        said = b"configdb-sync 1 written 644 0 0 " + b"0" * 64 + b"\n"
        return Reply(identity, {"stdout": said, "stderr": b"", "exit_code": 0})

    nodes = nodes_at(node, ShellRpc(fault=lie))
    with pytest.raises(NodeFileError, match="has another content right after it was written"):
        nodes.write("46", "astute.yaml", NEW, file_of(nodes, "astute.yaml"))


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"\xff",
        b"configdb-sync 1 ready",
        b"configdb-sync 2 ready\n",
        b"configdb-sync 1 ready\nx\ny\n",
        b"x" * 10_000,
    ],
)
def test_an_answer_that_isnt_ours_fails_that_file(node: Path, said: bytes) -> None:
    def answer(identity: str, _agent: str, data: Mapping[str, Any]) -> Outcome | None:
        if "-begin" not in data.get("cmd", ""):
            return None
        return Reply(identity, {"stdout": said, "stderr": b"", "exit_code": 0})

    nodes = nodes_at(node, ShellRpc(fault=answer))
    with pytest.raises(NodeFileError, match="the node's answer can't be understood"):
        nodes.write("46", "astute.yaml", NEW, file_of(nodes, "astute.yaml"))
    with pytest.raises(NodeFileError, match="the node's answer can't be understood"):
        nodes.write("46", "x.yaml", NEW, None)


@pytest.mark.parametrize("folder", [b"relative", b"/elsewhere", b"/etc/hi\x1bera", b"\xff", b"/etc/fuel/cluster/17"])
def test_a_folder_that_a_node_makes_up_is_never_written_to(node: Path, folder: bytes) -> None:
    def answer(identity: str, agent: str, data: Mapping[str, Any]) -> Outcome | None:
        assert agent != "uploadfile"
        if "create-begin" not in data["cmd"]:
            return None
        named = os.fsencode(node) + folder if folder.startswith(b"/") else folder
        return Reply(identity, {"stdout": b"configdb-sync 1 ready\n" + named + b"\n", "stderr": b"", "exit_code": 0})

    nodes = nodes_at(node, ShellRpc(fault=answer))
    with pytest.raises(NodeFileError, match=r"which may not be written|not plain"):
        nodes.write("46", "x.yaml", NEW, None)


def test_a_command_that_takes_too_long_ends_and_the_file_stays(node: Path, tmp_path: Path) -> None:
    rpc = ShellRpc(path=slow(tmp_path, "cp", "sleep 30"))
    nodes = nodes_at(node, rpc, timeout=1)
    with pytest.raises(NodeFileError, match="its command took too long and was ended"):
        nodes.write("46", "astute.yaml", NEW, file_of(nodes, "astute.yaml"))
    assert (node / TARGET).read_bytes() == ASTUTE
    rpc.path = ShellRpc().path
    nodes.write("46", "astute.yaml", NEW, file_of(nodes, "astute.yaml"))
    assert_nothing_left(node)


def labelled(tmp_path: Path, restored: Path) -> str:
    """Return a PATH where SELinux's tools note what they are asked to do."""
    path = slow(tmp_path, "chcon", f'echo chcon "$@" >>"{restored}"; exit 0')
    (tmp_path / "bin/restorecon").write_text(f'#!/bin/sh\necho restorecon "$@" >>"{restored}"\n')
    (tmp_path / "bin/restorecon").chmod(0o755)
    return path


def test_no_label_is_asked_for_where_selinux_is_absent(node: Path, tmp_path: Path) -> None:
    """W05."""
    if Path("/sys/fs/selinux/enforce").exists():
        pytest.skip("SELinux is at work here")
    noted = tmp_path / "noted"
    nodes = nodes_at(node, ShellRpc(path=labelled(tmp_path, noted)))
    nodes.write("46", "astute.yaml", NEW, file_of(nodes, "astute.yaml"))
    nodes.write("46", "new.yaml", NEW, None)
    assert not noted.exists()


def test_labels_are_kept_where_selinux_is_at_work(node: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """W05: with a machine that claims to have it, and labels told by a ``stat`` of the test."""
    noted = tmp_path / "noted"
    path = labelled(tmp_path, noted)
    here = str(tmp_path)
    (tmp_path / "bin/stat").write_text(
        f'#!/bin/sh\ncase "$*" in "-c %C "*.tmp*) [ -e "{noted}" ] && echo old || echo new ;; "-c %C "*) echo old ;;\n'
        '*%C*) echo same ;; *) exec /usr/bin/stat "$@" ;; esac\n'
    )
    (tmp_path / "bin/stat").chmod(0o755)
    from configdb_sync.nodes.remote import commands

    script = commands.script
    monkeypatch.setattr(commands, "script", lambda name: script(name).replace("/sys/fs/selinux/enforce", here))
    nodes = nodes_at(node, ShellRpc(path=path))
    nodes.write("46", "astute.yaml", NEW, file_of(nodes, "astute.yaml"))
    words = noted.read_text().split()
    assert words[:2] == ["chcon", "--reference=./astute.yaml"]
    noted.unlink()
    nodes.write("46", "override/new.yaml", NEW, None)
    assert noted.read_text().split() == ["restorecon", "--", "./override", "restorecon", "--", "./new.yaml"]


def test_attributes_and_lists_of_rights_are_kept(node: Path) -> None:
    target = node / TARGET
    try:
        os.setxattr(target, "user.note", b"kept")
    except OSError:
        pytest.skip("the file system has no user attributes")
    if shutil.which("setfacl"):
        subprocess.run(["setfacl", "-m", "u:7:r", str(target)], check=True)
    before = {name: os.getxattr(target, name) for name in os.listxattr(target)}
    nodes = nodes_at(node)
    nodes.write("46", "astute.yaml", NEW, file_of(nodes, "astute.yaml"))
    assert {name: os.getxattr(target, name) for name in os.listxattr(target)} == before


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of 64 KB."""
    place = tmp_path / "small"
    place.mkdir()
    if os.geteuid() != 0:
        pytest.skip("no root")
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
    mounted = subprocess.run(command, check=False, capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"nothing can be mounted: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_fails_that_file_alone_and_leaves_it_as_it_was(small_disk: Path) -> None:
    """W04: full for the content, and full for anything."""
    node = make_node(small_disk)
    nodes = nodes_at(node)
    file = file_of(nodes, "astute.yaml")
    before = snapshot(small_disk)
    for path, expected in (("astute.yaml", file), ("override/new.yaml", None)):
        with pytest.raises(NodeFileError, match=f"node 46, file {path}: .*No space left on device"):
            nodes.write("46", path, b"#" * 100_000, expected)
        assert snapshot(small_disk) == before


def test_a_read_only_file_system_is_named(small_disk: Path) -> None:
    node = make_node(small_disk)
    nodes = nodes_at(node)
    file = file_of(nodes, "astute.yaml")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    for path, expected in (("astute.yaml", file), ("override/new.yaml", None), ("new.yaml", None)):
        with pytest.raises(
            NodeFileError, match=f"file {path}: can't be written: Read-only file system .*read-only on the node"
        ):
            nodes.write("46", path, NEW, expected)
