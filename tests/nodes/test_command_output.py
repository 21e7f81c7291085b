"""What nodes print is hostile: every reader of it gives a value or its own error, and reads what was meant."""

from __future__ import annotations

import base64
import gzip
import hashlib
import os
import tempfile
import zlib
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from configdb_sync.errors import NodeError
from configdb_sync.mcollective.outcomes import Reply
from configdb_sync.nodes.node_files import NodeRead, ReadLimits
from configdb_sync.nodes.remote.agents import Agents
from configdb_sync.nodes.remote.command_output import (
    Assembly,
    CommandOutput,
    OutputError,
    fault,
    last_words,
    listed,
    next_pieces,
    split,
    system_words,
    unpacked,
)
from configdb_sync.nodes.remote.commands import PIECES_LIMIT, Commands
from configdb_sync.nodes.remote.reading import NodeReading
from tests.nodes.shell import ARGUMENT, ShellRpc, read

RECORDS = [
    b"configdb-sync 1\0",
    b"t /etc/hiera\0/etc/hiera\0",
    b"t /etc/hiera/a.yaml\0/etc/b.yaml\n.\0",
    b"t /etc/hiera/a.yaml\0\0",
    b"f d 755 0 0 4096 1.5 1 2 /etc/hiera\0",
    b"f f 644 0 0 5 1.5 1 3 /etc/hiera/a.yaml\0",
    b"f l 777 0 0 5 1.5 1 3 /etc/hiera/l.yaml\0",
    b"f d 755 0 0 5 1.5 1 4 /etc/hiera/a\0",
    b"f d 755 0 0 5 1.5 1 2 /etc/hiera/l\0t /etc/hiera/l\0/etc/hiera\n.\0",
    b"f f 644 0 0 99999999999999999 1.5 1 3 /etc/hiera/b.yaml\0",
    b"x /etc/hiera/c.yaml\0",
    b"u /etc/hiera/a\0",
    b"u /etc/hiera\0",
    b"s\0" + hashlib.sha256(b"a: 1\n").hexdigest().encode() + b" */etc/hiera/a.yaml\n\na: 1\n",
    b"s\0" + b"0" * 64 + b" */etc/hiera/a.yaml\n\na: 1\n",
    b"s\0\n",
    b"s\0\\" + b"0" * 64 + b" */etc/hiera/\\q\n\n",
    b"x elsewhere\0",
    b"f f 644 0 0 5 1.5 1 3 /elsewhere/a.yaml\0",
    b"\0",
    b"end",
]
streams = st.lists(st.one_of(st.sampled_from(RECORDS), st.binary(max_size=20)), max_size=12).map(b"".join)
believable = st.lists(st.sampled_from(RECORDS), max_size=12).map(lambda found: b"".join([*RECORDS[:2], *found, b"end"]))


def printed(content: bytes) -> bytes:
    return base64.b64encode(gzip.compress(content, 1))


@settings(max_examples=300, deadline=None)
@given(st.one_of(streams, believable), st.booleans())
@example(b"".join([*RECORDS[:2], RECORDS[5], RECORDS[13], RECORDS[14], b"end"]), True)
def test_any_stream_is_a_listing_or_an_error(content: bytes, contents: bool) -> None:
    try:
        found = listed(content, contents=contents)
    except OutputError:
        return
    for path, text in found.contents.items():
        assert hashlib.sha256(text).hexdigest() == found.digests[path]


def test_a_node_that_makes_up_links_for_ever_is_asked_no_more_than_so_often() -> None:
    reading = NodeReading("46", Commands(), ReadLimits(requests=10))
    outcome: object = reading.first()
    for number in range(20):
        link = b"/etc/hiera/l%d" % number
        content = b"".join(RECORDS[:5]) + b"f d 755 0 0 1 1.5 1 9%d %s\0t %s\0/x\n.\0end" % (number, link, link)
        outcome = reading.take(CommandOutput(printed(content), b"", 0))
        if not isinstance(outcome, str):
            break
    assert number < 12
    assert isinstance(outcome, NodeRead)
    assert list(outcome.faults)[-1].startswith("l")


def test_an_answer_that_tells_no_folder_is_no_files() -> None:
    reading = NodeReading("46", Commands())
    content = b"".join([RECORDS[0], *RECORDS[4:6], RECORDS[13], b"end"])
    outcome = reading.take(CommandOutput(printed(content), b"", 0))
    assert isinstance(outcome, NodeRead)
    assert (dict(outcome.files), len(outcome.faults)) == ({}, 1)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(streams, believable), min_size=1, max_size=4), st.binary(max_size=30), st.integers(0, 255))
def test_a_reading_comes_to_an_end_whatever_is_printed(answers: list[bytes], stderr: bytes, code: int) -> None:
    reading = NodeReading("46", Commands(), ReadLimits(requests=20))
    outcome: object = reading.first()
    for place in range(100):
        outcome = reading.take(CommandOutput(printed(answers[place % len(answers)]), stderr, code if place > 2 else 0))
        if not isinstance(outcome, str):
            break
    assert isinstance(outcome, (NodeRead, NodeError))
    if isinstance(outcome, NodeRead):
        assert not set(outcome.files) & set(outcome.faults)
        for path, file in outcome.files.items():
            assert path.endswith(".yaml")
            assert file.target.startswith("/")
            assert ".." not in path.split("/")


@given(st.binary(max_size=200), st.integers(1, 1000))
@example(b"", 10)
@example(printed(b"x") + b"AAAA", 10)
def test_any_text_is_a_stream_or_an_error(text: bytes, most: int) -> None:
    try:
        found = unpacked(text, most)
    except OutputError:
        return
    assert len(found.content) <= most


@given(st.binary(max_size=3000), st.integers(0, 4000))
def test_a_stream_that_is_cut_gives_its_begin(content: bytes, cut: int) -> None:
    text = printed(content)
    found = unpacked(text[: cut // 4 * 4], 10_000)
    assert content.startswith(found.content)
    assert found.whole == (cut // 4 * 4 >= len(text))


def test_a_bomb_is_unpacked_no_further_than_allowed() -> None:
    packer = zlib.compressobj(9, wbits=31)
    text = base64.b64encode(packer.compress(b"\0" * 200_000_000) + packer.flush())
    found = unpacked(text, 1_000_000)
    assert (len(found.content), found.whole) == (1_000_000, False)


STATE = b"f 644 0 0 5 1.5 1 3"
lines = st.lists(
    st.one_of(
        st.sampled_from([b"", STATE, b"d 755 0 0 5 1.5 1 3", printed(b"a: 1\n"), printed(b"a"), b"?", b"0" * 64]),
        st.just(hashlib.sha256(b"a: 1\n").hexdigest().encode()),
        st.just(base64.b64encode(b"head: /x: Input/output error\n")),
        st.binary(max_size=10).filter(lambda text: b"\n" not in text),
    ),
    min_size=5,
    max_size=5,
)


@settings(max_examples=300, deadline=None)
@given(st.lists(lines, min_size=1, max_size=20))
def test_any_pieces_end_in_a_content_a_fault_or_an_error(rounds: list[list[bytes]]) -> None:
    work = Assembly("/etc/hiera/a.yaml", 100, 3, 5)
    for found in rounds:
        if not work.open:
            break
        (piece,) = next_pieces([work])
        try:
            work.take(piece, found)
        except OutputError:
            return
    if work.content is not None:
        assert hashlib.sha256(work.content).hexdigest() == work.digest


@given(st.lists(st.tuples(st.integers(0, 40_000_000), st.integers(1, 4000)), min_size=1, max_size=200))
def test_what_is_asked_for_fits_in_a_message_and_in_a_command(files: list[tuple[int, int]]) -> None:
    waiting = [Assembly(f"/etc/hiera/{'n' * length}.yaml", 1 << 25, 3, size) for size, length in files]
    asked = next_pieces(waiting)
    assert asked
    assert all(piece.length > 0 for piece in asked)
    assert sum(piece.length for piece in asked) <= PIECES_LIMIT
    assert len(Commands().pieces(asked).encode()) < ARGUMENT


@given(st.binary(max_size=100), st.integers(0, 5))
def test_lines_are_as_many_as_were_asked_for(stdout: bytes, count: int) -> None:
    try:
        found = split(stdout, count)
    except OutputError:
        return
    assert [len(one) for one in found] == [5] * count


@given(st.binary(max_size=500), st.integers(-1, 255))
def test_what_a_node_says_is_shown_harmless(stderr: bytes, code: int) -> None:
    output = CommandOutput(b"", stderr, code)
    for text in (last_words(stderr), system_words(stderr)[0], fault(output) or ""):
        assert text.isprintable() or not text.isascii()
        assert "\n" not in text
        assert len(text) < 300


VALUES: list[object] = [None, True, 0, -1, 1 << 70, b"", b"\xff", "text", "\udcff", [], {}]


@given(st.dictionaries(st.sampled_from(["stdout", "stderr", "exit_code", "more"]), st.integers(0, len(VALUES) - 1)))
def test_any_outputs_of_an_agent_are_an_output_or_an_error(chosen: dict[str, int]) -> None:
    data = {name: VALUES[number] for name, number in chosen.items()}
    rpc = ShellRpc(fault=lambda identity, *_: Reply(identity, data))
    with suppress(NodeError):
        found = Agents(rpc, 1).run("46", "true")
        assert isinstance(found.stdout, bytes)
        assert isinstance(found.code, int)


NAMES = st.binary(min_size=1, max_size=12).filter(lambda name: b"/" not in name and b"\0" not in name)


@settings(max_examples=25, deadline=None)
@given(st.dictionaries(NAMES, st.binary(max_size=60), max_size=8))
def test_any_names_and_contents_arrive(files: dict[bytes, bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        hiera = Path(folder) / "etc/hiera"
        hiera.mkdir(parents=True)
        for name, content in files.items():
            Path(os.fsdecode(os.fsencode(hiera) + b"/" + name + b".yaml")).write_bytes(content)
        found, count = read(Path(folder))
        assert isinstance(found, NodeRead)
        assert count == 1
        assert len(found.files) + len(found.faults) == len(files)
        for path, file in found.files.items():
            assert files[path.removesuffix(".yaml").encode()] == file.content


@pytest.mark.parametrize("number", [300, 3000])
def test_many_files_arrive(number: int, tmp_path: Path) -> None:
    """More than go into one argument list of a program on the node, too."""
    folder = tmp_path / "etc/hiera" / ("long-" * 20)
    folder.mkdir(parents=True)
    for one in range(number):
        (folder / f"{one:06}.yaml").write_text(f"number: {one}\n")
    found, _ = read(tmp_path)
    assert isinstance(found, NodeRead)
    assert len(found.files) == number
    assert not found.faults
