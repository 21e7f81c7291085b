"""NodeReading a node by its own shell: the very commands, on trees made for it (U8, U14)."""

import hashlib
import os
import random
import shutil
import socket
import stat
import subprocess
import tempfile
from pathlib import Path

import pytest

from configdb_sync.errors import NodeError
from configdb_sync.nodes.directory import DirectoryNodes
from configdb_sync.nodes.node_files import NodeRead, ReadLimits
from configdb_sync.nodes.remote.command_output import CommandOutput, listed, unpacked
from configdb_sync.nodes.remote.commands import Commands, Piece
from configdb_sync.nodes.remote.reading import NodeReading
from tests.nodes import shell
from tests.nodes.trees import ASTUTE, make_node
from tests.support import fixtures


def read(node: Path, limits: ReadLimits | None = None, *, commands: int = 1) -> NodeRead:
    found, count = shell.read(node, limits)
    assert isinstance(found, NodeRead), found
    assert count == commands
    return found


def whats(found: NodeRead) -> dict[str, str]:
    for path, fault in found.faults.items():
        assert (fault.node, fault.file) == ("46", path)
    return {path: fault.what for path, fault in found.faults.items()}


def test_all_files_come_in_one_answer_with_what_must_stay(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    deep = node / "etc/hiera/override/configuration"
    deep.mkdir(parents=True)
    (deep / "cluster.yaml").write_bytes(b"a: \xff\0\n")
    (deep / "cluster.yaml").chmod(0o640)
    (deep / "empty.yaml").write_bytes(b"")
    (node / "etc/hiera/README").write_text("no settings")
    (node / "etc/hiera/.hidden.yaml").write_text("x: 1\n")
    if os.geteuid() == 0:
        os.chown(deep / "cluster.yaml", 7, 8)
    found = read(node)
    assert list(found.files) == [
        ".hidden.yaml",
        "astute.yaml",
        "override/configuration/cluster.yaml",
        "override/configuration/empty.yaml",
    ]
    assert found.faults == {}
    astute = found.files["astute.yaml"]
    assert (astute.content, astute.target) == (ASTUTE, "/etc/fuel/cluster/16/astute.yaml")
    cluster = found.files["override/configuration/cluster.yaml"]
    state = (deep / "cluster.yaml").stat()
    assert (cluster.mode, cluster.owner, cluster.group) == (0o640, state.st_uid, state.st_gid)
    assert (cluster.content, cluster.sha256) == (b"a: \xff\0\n", hashlib.sha256(b"a: \xff\0\n").hexdigest())
    assert cluster.target == "/etc/hiera/override/configuration/cluster.yaml"


@pytest.mark.parametrize("number", [7, 13, 16, 37])
def test_real_trees_read_as_from_a_folder(tmp_path: Path, number: int) -> None:
    trees = fixtures.copy_environment(number, tmp_path / "trees")
    folder = DirectoryNodes(trees, env=number)
    for expected in folder.read(folder.identities()):
        assert isinstance(expected, NodeRead)
        found = read(trees / f"node-{expected.identity}")
        assert (found.files, found.faults) == (expected.files, expected.faults)


def test_each_file_that_cant_be_read_is_a_fault_and_the_others_go_on(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    hiera = node / "etc/hiera"
    (hiera / "large.yaml").write_bytes(b"#" * 101)
    (hiera / "to-large.yaml").symlink_to("../large")
    (node / "etc/large").write_bytes(b"#" * 102)
    (hiera / "full.yaml").write_bytes(b"#" * 100)
    (hiera / "dangling.yaml").symlink_to("nothing.yaml")
    (hiera / "deeper.yaml").symlink_to("/var/none/nothing.yaml")
    (hiera / "loop.yaml").symlink_to("loop.yaml")
    (hiera / "folder.yaml").mkdir()
    (hiera / "folder.yaml/inner.yaml").write_text("x: 1\n")
    os.mkfifo(hiera / "fifo.yaml")
    (hiera / "to-fifo.yaml").symlink_to("fifo.yaml")
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.open(hiera, os.O_RDONLY)
        try:
            listener.bind(f"/proc/self/fd/{here}/socket.yaml")
        finally:
            os.close(here)
    found = read(node, ReadLimits(file=100))
    assert sorted(found.files) == ["astute.yaml", "full.yaml"]
    assert whats(found) == {
        "dangling.yaml": "is a link to /etc/hiera/nothing.yaml, which isn't there",
        "deeper.yaml": "is a link that leads nowhere",
        "fifo.yaml": "is not a regular file",
        "folder.yaml": "is not a regular file",
        "large.yaml": "is larger than 100 bytes",
        "loop.yaml": "is a link that leads nowhere",
        "socket.yaml": "is not a regular file",
        "to-fifo.yaml": "is not a regular file",
        "to-large.yaml": "is larger than 100 bytes",
    }


NAMES = [
    b"line\nbreak.yaml",
    b"tab\t.yaml",
    b"end\n.yaml",
    b"bad\xff.yaml",
    b"back\\slash.yaml",
    b"back\\nslash.yaml",
    b"carriage\r.yaml",
    b"s\x01.yaml",
]
PLAIN = [
    "quote'.yaml",
    'double".yaml',
    "$(touch x).yaml",
    "`id`.yaml",
    "a b.yaml",
    " .yaml",
    "-rf.yaml",
    "--help.yaml",
    "*.yaml",
    "?.yaml",
    "{}.yaml",
    "%p%s.yaml",
    "+plus.yaml",
    "\N{SNOWMAN}.yaml",
    ".yaml",
    "[a].yaml",
    "'; exit 1; '.yaml",
    "!.yaml",
    "f f 644 0 0 5 1.0 1 1 x.yaml",
]


def test_hostile_names_confuse_nobody(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    hiera = os.fsencode(node / "etc/hiera")
    for number, name in enumerate((*NAMES, *(name.encode() for name in PLAIN))):
        Path(os.fsdecode(hiera + b"/" + name)).write_bytes(b"number: %d\n" % number)
    for odd in (b"new\nline", b"bad\xfe"):
        folder = Path(os.fsdecode(hiera + b"/" + odd))
        folder.mkdir()
        (folder / "inner.yaml").write_text("x: 1\n")
    found = read(node)
    for number, plain in enumerate(PLAIN, start=len(NAMES)):
        assert found.files[plain].content == b"number: %d\n" % number
    assert len(found.files) == len(PLAIN) + 1
    assert whats(found) == dict.fromkeys(
        [
            "back\\\\nslash.yaml",
            "back\\\\slash.yaml",
            "bad\\xff.yaml",
            "bad\\xfe/",
            "carriage\\x0d.yaml",
            "end\\x0a.yaml",
            "line\\x0abreak.yaml",
            "new\\x0aline/",
            "s\\x01.yaml",
            "tab\\x09.yaml",
        ],
        "has a name that is not plain UTF-8 text",
    )


def test_links_to_folders_are_followed_by_a_further_command(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    hiera = node / "etc/hiera"
    (node / "etc/elsewhere/deep").mkdir(parents=True)
    (node / "etc/elsewhere/a.yaml").write_text("a: 1\n")
    (node / "etc/elsewhere/deep/b.yaml").symlink_to("../a.yaml")
    (node / "etc/elsewhere/deep/c.yaml").write_text("c: 1\n")
    (hiera / "plugins").symlink_to("../elsewhere")
    (hiera / "nowhere").symlink_to("../none")
    (hiera / "round").symlink_to(".")
    (node / "etc/elsewhere/deep/back").symlink_to("../../hiera")
    (hiera / "to-file").symlink_to("astute.yaml")
    found = read(node, commands=2)
    assert {path: file.target for path, file in found.files.items()} == {
        "astute.yaml": "/etc/fuel/cluster/16/astute.yaml",
        "plugins/a.yaml": "/etc/elsewhere/a.yaml",
        "plugins/deep/c.yaml": "/etc/elsewhere/deep/c.yaml",
    }
    assert whats(found) == {
        "nowhere/": "can't be read: No such file or directory",
        "plugins/deep/b.yaml": "leads to the same file as plugins/a.yaml, /etc/elsewhere/a.yaml",
        "plugins/deep/back/": "is a link to a folder that it lies in",
        "round/": "is a link to a folder that it lies in",
    }


def test_a_hiera_folder_that_is_a_link_is_followed(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    (node / "etc/hiera").rename(node / "etc/real")
    (node / "etc/hiera").symlink_to("real")
    (node / "etc/real/a.yaml").write_text("a: 1\n")
    assert read(node).files["a.yaml"].target == "/etc/real/a.yaml"


def test_a_folder_too_deep_is_a_fault(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    deep = node / "etc/hiera" / "/".join("abcdefghijklmnop")
    (deep / "q").mkdir(parents=True)
    (deep / "x.yaml").write_text("x: 1\n")
    (deep / "q/y.yaml").write_text("y: 1\n")
    found = read(node)
    assert "a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/x.yaml" in found.files
    assert whats(found) == {"a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q/": "lies more than 16 folders deep"}


def test_a_node_without_the_folder_is_an_error(tmp_path: Path) -> None:
    found, count = shell.read(tmp_path)
    assert isinstance(found, NodeError)
    assert (found.what, found.node, count) == ("/etc/hiera can't be listed", "46", 1)


def test_files_beyond_one_message_come_in_pieces(tmp_path: Path) -> None:
    """Every answer is below 2 MB (``shell.read`` looks)."""
    node = make_node(tmp_path)
    noise = random.Random(1)
    sizes = {"a": 3_000_001, "b": 1_300_000, "c": 10, "d": 0, "e": 1_299_999}
    for name, size in sizes.items():
        (node / f"etc/hiera/{name}.yaml").write_bytes(noise.randbytes(size))
    (node / "etc/hiera/z.yaml").write_bytes(b"z: 1\n" * 1_000_000)
    found = read(node, commands=6)
    assert found.faults == {}
    for name in (*sizes, "z"):
        assert found.files[f"{name}.yaml"].content == (node / f"etc/hiera/{name}.yaml").read_bytes()


def test_what_can_be_compressed_comes_at_once(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    for name in "abcde":
        (node / f"etc/hiera/{name}.yaml").write_bytes(b"".join(b"key%d: value\n" % one for one in range(100_000)))
    assert len(read(node).files) == 6


def test_more_than_a_node_may_have_is_a_fault(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    for name in "abc":
        (node / f"etc/hiera/{name}.yaml").write_bytes(b"#" * 100)
    found = read(node, ReadLimits(node=240))
    assert len(found.files) == 3
    assert set(whats(found).values()) == {"was not read: the node's files are larger than 240 bytes together"}


class Changing:
    """A reading during which files change: ``change`` is called between two commands."""

    def __init__(self, node: Path) -> None:
        self.node = node
        self.reading = NodeReading("46", Commands(root=str(node)))
        self.command = self.reading.first()

    def step(self) -> NodeRead | NodeError | None:
        outcome = self.reading.take(shell.run(self.command))
        if isinstance(outcome, str):
            self.command = outcome
            return None
        return outcome


def test_a_file_that_changes_between_pieces_is_read_anew(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    path = node / "etc/hiera/a.yaml"
    path.write_bytes(random.Random(1).randbytes(3_000_000))
    work = Changing(node)
    assert work.step() is None
    assert work.step() is None
    content = random.Random(2).randbytes(2_000_000)
    path.write_bytes(content)
    while (found := work.step()) is None:
        pass
    assert isinstance(found, NodeRead)
    assert (found.faults, found.files["a.yaml"].content) == ({}, content)


def test_a_file_that_changes_for_ever_is_a_fault(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    path = node / "etc/hiera/a.yaml"
    path.write_bytes(random.Random(1).randbytes(3_000_000))
    work = Changing(node)
    for _ in range(10):
        found = work.step()
        if found is not None:
            break
        path.write_bytes(path.read_bytes()[1:])
    assert isinstance(found, NodeRead)
    assert (list(found.files), whats(found)) == (["astute.yaml"], {"a.yaml": "is being written at this moment"})


def test_a_file_that_goes_or_becomes_something_else_between_pieces_is_a_fault(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    names = ("a", "b", "c", "d")
    for name in names:
        (node / f"etc/hiera/{name}.yaml").write_bytes(random.Random(name).randbytes(2_000_000))
    work = Changing(node)
    # The answer that was cut, then the list.
    assert work.step() is None
    assert work.step() is None
    for name in names[1:]:
        (node / f"etc/hiera/{name}.yaml").unlink()
    os.mkfifo(node / "etc/hiera/c.yaml")
    (node / "etc/hiera/d.yaml").write_bytes(b"#" * 50_000_000)
    while (found := work.step()) is None:
        pass
    assert isinstance(found, NodeRead)
    assert sorted(found.files) == ["a.yaml", "astute.yaml"]
    assert whats(found) == {
        "b.yaml": "is not there any more",
        "c.yaml": "is not a regular file",
        "d.yaml": "is larger than 33554432 bytes",
    }


def test_files_that_change_while_they_are_read_are_read_once_more(tmp_path: Path) -> None:
    """Between digest and content: what comes behind has moved."""
    node = make_node(tmp_path)
    for name in "abc":
        (node / f"etc/hiera/{name}.yaml").write_bytes(b"%c: 1\n" % ord(name))
    path = shell.slow(tmp_path, "cat", f"for name in a b c; do echo more: 2 >>'{node}/etc/hiera/'$name.yaml; done")
    reading = NodeReading("46", Commands(root=str(node)))
    found = reading.take(shell.run(reading.first(), path))
    assert isinstance(found, str)
    while isinstance(found, str):
        found = reading.take(shell.run(found))
    assert isinstance(found, NodeRead)
    assert found.faults == {}
    contents = [found.files[f"{name}.yaml"].content for name in "abc"]
    assert contents == [b"a: 1\nmore: 2\n", b"b: 1\nmore: 2\n", b"c: 1\nmore: 2\n"]
    assert found.files["astute.yaml"].content == ASTUTE


def test_a_command_ends_by_itself(tmp_path: Path) -> None:
    """With all that it started."""
    node = make_node(tmp_path)
    mark = tmp_path / "late"
    path = shell.slow(tmp_path, "cat", f"sleep 3; touch '{mark}'")
    reading = NodeReading("46", Commands(limit=1, root=str(node)))
    found = reading.take(shell.run(reading.first(), path))
    assert isinstance(found, NodeError)
    assert "its command took too long and was ended" in str(found)
    assert not mark.exists()


def test_what_is_missing_on_a_node_is_said(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    few = tmp_path / "few"
    few.mkdir()
    for name in ("timeout", "sh", "find", "xargs", "head", "base64"):
        (few / name).symlink_to(f"/usr/bin/{name}")
    reading = NodeReading("46", Commands(root=str(node)))
    found = reading.take(shell.run(reading.first(), str(few)))
    assert isinstance(found, NodeError)
    assert "its settings files can't be read" in str(found)


def test_a_folder_that_cant_be_listed_and_a_file_that_cant_be_read() -> None:
    prefix = () if os.geteuid() else ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    top = Path(tempfile.mkdtemp(prefix="configdb-sync-"))
    try:
        top.chmod(0o755)
        node = make_node(top)
        (node / "etc/hiera/closed").mkdir(mode=0)
        (node / "etc/hiera/secret.yaml").write_text("x: 1\n")
        (node / "etc/hiera/secret.yaml").chmod(0)
        found, commands = shell.read(node, prefix=prefix)
        assert isinstance(found, NodeRead)
        assert commands == 2
        assert whats(found) == {
            "closed/": "can't be listed",
            "secret.yaml": "can't be read: Permission denied",
        }
        assert list(found.files) == ["astute.yaml"]
    finally:
        (node / "etc/hiera/closed").chmod(0o700)
        shutil.rmtree(top)


def test_no_command_is_too_long_for_a_node_whatever_it_holds(tmp_path: Path) -> None:
    """Hundreds of links to folders with long names full of quotes, each to be named in a further command."""
    node = make_node(tmp_path)
    (node / "srv/settings").mkdir(parents=True)
    for number in range(400):
        name = str(number) + "'" * 100
        (node / f"srv/settings/{name}").mkdir()
        (node / f"srv/settings/{name}/a.yaml").write_text(f"a: {number}\n")
        (node / f"etc/hiera/{name}").symlink_to(node / f"srv/settings/{name}")
    reading = NodeReading("46", Commands(root=str(node)))
    found: object = reading.first()
    longest = count = 0
    while isinstance(found, str):
        count, longest = count + 1, max(longest, len(found.encode()))
        found = reading.take(shell.run(found))
    assert isinstance(found, NodeRead)
    assert found.faults == {}
    assert len(found.files) == 401
    assert count > 2
    assert longest < shell.ARGUMENT


def test_nobody_else_on_the_node_sees_what_is_printed(tmp_path: Path) -> None:
    """systemu, by which the agent runs commands, makes the file for our output with everybody's rights."""
    node = make_node(tmp_path)
    folder = tmp_path / "systemu_node_1_2_0_3_1"
    folder.mkdir(mode=0o755)
    output = folder / "stdout"
    output.touch(0o644)
    with output.open("rb") as opened_before:
        with output.open("wb") as stdout:
            command = Commands(root=str(node)).read([f"{node}/etc/hiera".encode()])
            subprocess.run(["/bin/sh", "-c", command], stdout=stdout, check=True)
        assert opened_before.read() == b""
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(output.stat().st_mode) == 0o600
    assert [path.name for path in folder.iterdir()] == ["stdout"]
    found = listed(unpacked(output.read_bytes(), 1 << 20).content)
    assert ASTUTE in found.contents.values()


def test_commands_hold_paths_alone_and_fit_in_one_argument(tmp_path: Path) -> None:
    commands = Commands()
    pieces = [Piece(f"/etc/hiera/{'x' * 200}{number}.yaml", 0, 10) for number in range(5)]
    text = commands.pieces(pieces)
    assert len(text.encode()) < shell.ARGUMENT
    assert "#" not in text.split("sh -c", 1)[0]


@pytest.mark.parametrize(
    ("output", "text"),
    [
        (CommandOutput(b"", b"", 42), "could not be started (exit code 42)"),
        (CommandOutput(b"", b"", 124), "took too long and was ended"),
        (CommandOutput(b"", b"sh: 1: timeout: not found\n", 127), "failed (exit code 127): sh: 1: timeout: not found"),
        (CommandOutput(b"", b"x\n\x1b[31m" + b"y" * 300, 1), "failed (exit code 1): \\x1b[31m" + "y" * 100),
        (CommandOutput(b"", b"", 0), "printed only a part"),
        (CommandOutput(b"?", b"", 0), "is not base64"),
        (CommandOutput(b"AAAA", b"", 0), "is not compressed as it should be"),
    ],
)
def test_an_answer_that_isnt_ours_is_an_error_of_that_node(output: CommandOutput, text: str) -> None:
    reading = NodeReading("46", Commands())
    reading.first()
    found = reading.take(output)
    assert isinstance(found, NodeError)
    assert text in str(found)
    assert found.node == "46"
