"""A document read block by block is the document read whole: values, types, order, warnings and refusals."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from configdb_sync.errors import DocumentError
from configdb_sync.hiera import builder, entries
from configdb_sync.hiera.blocks import split, split_body
from configdb_sync.hiera.documents import HieraDocument, Reader
from configdb_sync.hiera.entries import repeat_warning
from configdb_sync.jsonvalues import same, value_digest
from tests.hiera.ruby_oracle import outcome
from tests.hiera.yaml_generation import document
from tests.support import fixtures


def _whole(raw: bytes) -> Any:
    """Return what reading in one piece gives, as ``_told``."""
    reader = Reader()
    try:
        block = reader._blocks.parse_whole(raw.decode().removeprefix("\ufeff"))
    except DocumentError as error:
        return type(error)
    pairs = [(entry.key, entry.value, entry.marks, entry.digest) for entry in block.entries]
    return pairs, sorted(map(repeat_warning, block.repeats))


def _told(found: HieraDocument | DocumentError) -> Any:
    if isinstance(found, DocumentError):
        return type(found)
    marks, digests = found.type_marks(), found.key_digests
    pairs = [(key, value, marks.get(key), digests[key]) for key, value in found.values.items()]
    return pairs, sorted(found.warnings)


def _agree(seed: int, count: int) -> int:
    draw = random.Random(seed)
    reader = Reader()
    values = 0
    for _ in range(count):
        raw = document(draw).encode()
        told = _told(outcome(reader, raw))
        assert repr(told) == repr(_whole(raw)), raw
        values += isinstance(told, tuple) and bool(told[0])
    return values


@pytest.fixture(params=["as it is", "cut to the last leaf"])
def cutting(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param != "as it is":
        monkeypatch.setattr(entries, "_CUT_FROM", 1)


@pytest.mark.usefixtures("cutting")
@pytest.mark.parametrize("seed", range(3))
def test_blocks_are_the_whole(seed: int) -> None:
    assert _agree(seed, 1000) > 200


@pytest.mark.long
@pytest.mark.usefixtures("cutting")
@pytest.mark.parametrize("seed", range(1000, 1040))
def test_blocks_are_the_whole_of_very_many_documents(seed: int) -> None:
    assert _agree(seed, 5000)


@pytest.mark.usefixtures("cutting")
def test_blocks_are_the_whole_of_real_files_with_any_line_taken_out_or_doubled() -> None:
    draw = random.Random(0)
    files = sorted((fixtures.require_data() / "clusters").rglob("*.yaml"))
    paths = list({path.name + path.parts[-5]: path for path in files if b"\n" in path.read_bytes()}.values())
    for path in paths:
        lines = path.read_bytes().splitlines(keepends=True)
        reader = Reader()
        for _ in range(4):
            place = draw.randrange(len(lines))
            raw = b"".join([*lines[:place], *draw.choice(([], [lines[place]] * 2)), *lines[place + 1 :]])
            assert repr(_told(outcome(reader, raw))) == repr(_whole(raw)), (path, place)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("a: 1\nb: 2\n", ["a: 1\n", "b: 2\n"]),
        ("# c\n---\n\na: 1\nb:\n- c\nd:", ["a: 1\n", "b:\n- c\n", "d:"]),
        ("--- \n  a: 1\n  b:\n    c: 2\n", ["  a: 1\n", "  b:\n    c: 2\n"]),
        ('a: 1\n"q": 2\nb: 3\n', ['a: 1\n"q": 2\n', "b: 3\n"]),
        ("a: 1\n# about b\nb: 2\n", ["a: 1\n# about b\n", "b: 2\n"]),
        ('q: "a\nkey: b"\n', ['q: "a\n', 'key: b"\n']),
    ],
)
def test_cuts_at_plain_keys(text: str, pieces: list[str]) -> None:
    assert split(text) == pieces
    assert "".join(pieces) == text[len(text) - sum(map(len, pieces)) :]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# c\n",
        '"a": 1\n',
        "? a\n",
        "- a\n",
        "{a: 1}\n",
        "--- {a: 1}\n",
        "a: 1\r\nb: 2\r\n",
        "a: 1\n---\nb: 2\n",
        "a: x\u2028\n",
        "%YAML 1.1\n---\na: 1\n",
        "a: 1\n...\n",
        "a: 1\n? b\n",
        "---\n---\na: 1\n",
        "a: \x85\n",
        "a: 1\x00",
    ],
)
def test_does_not_cut_what_could_mean_something_else(text: str) -> None:
    assert split(text) is None


def test_cuts_below_a_key() -> None:
    body = split_body("a:\n  b: 1\n  c:\n    d: 1\n")
    assert body is not None
    assert (body.key, body.mapping, body.pieces) == ("a", True, ["  b: 1\n", "  c:\n    d: 1\n"])
    body = split_body("a:\n# c\n- b: 1\n  c: 2\n- d\n")
    assert body is not None
    assert (body.key, body.mapping, body.pieces) == ("a", False, ["# c\n- b: 1\n  c: 2\n", "- d\n"])
    for text in ("a: 1\n", "a: |\n  b: 1\n", "a:\nb: 1\n", "a:\n  b: 1\n  ? c\n", "a: # c\n  b: 1\n", "a:\n"):
        assert split_body(text) is None, text


def test_parses_a_block_that_was_seen_no_second_time(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    build = builder.build

    def counted(text: str, *others: Any) -> Any:
        parsed.append(text)
        return build(text, *others)

    monkeypatch.setattr(entries, "build", counted)
    nodes = "".join(f"  node-{number}:\n    name: node-{number}\n    role: [compute]\n" for number in range(300))
    reader = Reader()
    for leaf in ("x", "y", "z"):
        text = f"a: 1\nnodes:\n{nodes.replace('name: node-7' + chr(10), f'name: {leaf}' + chr(10))}b: {leaf}\n"
        found = reader.read(text.encode())
        assert found.values["nodes"]["node-7"] == {"name": leaf, "role": ["compute"]}
        assert found.key_digests["nodes"] == value_digest(found.values["nodes"])
    assert len(parsed) == 300 + 2 + 2 * 2


def test_an_anchor_from_another_block_means_what_it_meant_there() -> None:
    reader = Reader()
    for value in ("1", "2", "1", ":s", "':s'"):
        text = f"a: &x {value}\nb: [*x]\nc: &x 3\nd: *x\n"
        found = reader.read(text.encode())
        whole = _whole(text.encode())
        assert repr(_told(found)) == repr(whole)
    assert isinstance(outcome(reader, b"b: [*x]\nd: 1\n"), DocumentError)
    assert isinstance(outcome(reader, b"a: 1\nb: [*x]\nc: &x 1\n"), DocumentError)


def test_lines_of_a_key_that_stands_in_several_blocks_and_twice_in_one() -> None:
    text = b"a: 0\nb: 1\n&k b: 2\nb: {c: 1, c: 2}\na: 3\n"
    found = Reader().read(text)
    assert repr(_told(found)) == repr(_whole(text))
    assert "key b stands twice, in lines 3 and 4; the last one counts" in found.warnings


def test_documents_share_no_state(tmp_path: Path) -> None:
    reader = Reader()
    first = reader.read(b"a: {b: 1}\nc: 2\n")
    second = reader.read(b"a: {b: 1}\nc: 3\n")
    assert first.values["a"] is second.values["a"]
    assert same(dict(first.values), {"a": {"b": 1}, "c": 2})
    assert first.digest != second.digest
