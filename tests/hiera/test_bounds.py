"""Hostile files end soon, in a value or in an error of our own: aliases, depth, size, numbers, any bytes at all."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from configdb_sync.errors import DocumentError
from configdb_sync.hiera.blocks import MAX_BYTES, split, split_body
from configdb_sync.hiera.documents import Reader, created
from configdb_sync.hiera.entries import BlockCache
from configdb_sync.hiera.events import PlainScalars
from configdb_sync.jsonvalues import Json, document_digest, dumps, loads, same
from tests.hiera.ruby_oracle import outcome
from tests.hiera.yaml_generation import document
from tests.support import fixtures

BOMB = "a: &a [x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 8)}]\n"
    for before, name in zip("abcdefghi", "bcdefghij", strict=True)
)
MERGES = "a: &a {k: v}\n" + "".join(
    f"{name}: &{name}\n  <<: *{before}\n  x: *{before}\n"
    for before, name in zip("abcdefghijklmnopqrstuvw", "bcdefghijklmnopqrstuvwx", strict=True)
)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param(BOMB, "aliases stand for more", id="bomb over blocks"),
        pytest.param(
            "r:\n" + "".join(f"  {line}\n" for line in BOMB.splitlines()), "aliases stand for", id="bomb in one"
        ),
        pytest.param(MERGES, "aliases stand for more", id="merge bomb"),
        pytest.param("a: &a [*a]\n", "into itself", id="circle"),
        pytest.param("a: &a {b: {<<: *a}}\n", "into itself", id="merged circle"),
        pytest.param("--- &r\na: *r\n", "into itself", id="circle through the root"),
        pytest.param("a: *b\n", "isn't there", id="no anchor"),
        pytest.param("a: " + "[" * 200 + "]" * 200, "200 levels", id="deep flow"),
        pytest.param("a: " + "[" * 100_000, None, id="deep open flow"),
        pytest.param("a: " + "{a: " * 100_000, "200 levels", id="deep open mappings"),
        pytest.param("a:\n" + "".join(" " * depth + "a:\n" for depth in range(1, 300)), "200 levels", id="deep block"),
        pytest.param("- " * 100_000, "200 levels", id="deep list"),
        pytest.param("? " * 100_000, None, id="deep keys"),
        pytest.param(
            "a: &a " + "[" * 150 + "]" * 150 + "\nb: " + "[" * 60 + "*a" + "]" * 60, "200 levels", id="deep alias"
        ),
        pytest.param("a: 1\n" * 3 + "%TAG !a! x\n" * 100_000, None, id="directives"),
        pytest.param("%TAG !a! x\n" * 100_000 + "---\na: 1\n", None, id="directives before"),
        pytest.param("".join(f"%TAG !a{number}! x\n" for number in range(8_000)), None, id="different directives"),
        pytest.param("a" * 1_000_000 + ": 1", None, id="long key"),
        pytest.param('"' + "\n" * 1_000_000, None, id="open quote"),
        pytest.param("a: '" + "b: c\n" * 200_000, None, id="open quote over borders"),
        pytest.param("a: " + "1" * 1_000_000, "digits", id="long number"),
        pytest.param("a: " + "1:" * 500_000 + "0x", None, id="long base 60"),
        pytest.param("a: 0." + "1" * 1_000_000, "digits", id="long float"),
        pytest.param("a: " + "_" * 10 + ",0" * 500_000 + "\n\tb", None, id="long almost number"),
    ],
)
def test_hostile_texts_are_refused(text: str, reason: str | None) -> None:
    with pytest.raises(DocumentError, match=reason):
        Reader().read(text.encode() + (b"" if reason else b"\n: :"))


def test_aliases_within_the_bounds_are_read() -> None:
    text = "a: &a [x, x, x, x]\n" + "".join(f"{name}: [*a, *a]\n" for name in "bcdefgh")
    assert Reader().read(text.encode()).values["h"] == [["x"] * 4] * 2
    deep = "a: &a " + "[" * 100 + "]" * 100 + "\nb: " + "[" * 90 + "*a" + "]" * 90
    assert len(Reader().read(deep.encode()).values) == 2


def test_depth_is_that_of_json() -> None:
    text = "a: " + "[" * 199 + "1" + "]" * 199
    found = Reader().read(text.encode())
    assert loads(found.json_bytes()) == found.values


def test_too_large_a_file_is_refused_by_its_size() -> None:
    with pytest.raises(DocumentError, match="bytes"):
        Reader().read(b"#" * (MAX_BYTES + 1))


def test_many_keys_and_repeats_take_no_squares() -> None:
    text = "".join(f"k{number % 8_000}: {number}\n" for number in range(10_000))
    found = Reader().read(text.encode())
    assert len(found.values) == 8_000
    assert len(found.warnings) == 2_000


def _sound(raw: bytes, reader: Reader) -> None:
    """Read any bytes: a value that JSON and we ourselves carry on, or our own error."""
    found = outcome(reader, raw)
    if isinstance(found, DocumentError):
        str(found)
        return
    assert found.json_bytes() == dumps(found.values).encode()
    assert same(loads(found.json_bytes()), dict(found.values))
    assert found.digest == document_digest(found.values)
    assert found.rewritten(found.values).raw == raw


ALPHABET = "ab01 \n\n:-?[]{},#&*!|>'\"%@`\\\t\r~<=._\u00e9\u2028\ufeff\0"


@given(st.text(alphabet=ALPHABET, max_size=60))
@example("a: 1\n...\n# x\n")
@example("? a\nb: 1\n: 2\n")
@settings(max_examples=1500, deadline=None)
def test_any_text_is_read_or_refused(text: str) -> None:
    _sound(text.encode(), Reader())


@given(st.binary(max_size=60))
@settings(max_examples=500, deadline=None)
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    _sound(raw, Reader())


@given(st.text(alphabet="ab:- \n#'\"?|", max_size=80))
@settings(max_examples=1000, deadline=None)
def test_pieces_are_the_text(text: str) -> None:
    pieces = split(text)
    if pieces is not None:
        assert text.endswith("".join(pieces))
        assert all(pieces)
    body = split_body(text)
    if body is not None:
        assert text.endswith("".join(body.pieces))


@given(st.randoms(use_true_random=False))
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_spoiled_documents_are_read_or_refused(draw: random.Random) -> None:
    _sound(document(draw).encode(), Reader())


def _refused(values: dict[str, Json]) -> bool:
    if "\\u0000" not in dumps(values) and "\\ud" not in dumps(values):
        return False
    try:
        created(values)
    except DocumentError:
        return True
    return False


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(), children, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), JSON, max_size=4), st.dictionaries(st.text(), JSON, max_size=4))
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_json_is_written_and_read_or_refused(one: dict[str, Json], other: dict[str, Json]) -> None:
    if _refused(one):
        return
    raw = created(one)
    document = Reader().read(raw)
    assert same(dict(document.values), one)
    if _refused(other):
        return
    result = document.rewritten(other)
    again = Reader().read(result.raw)
    assert same(dict(again.values), other)
    assert again.rewritten(one, result.kept).raw == raw


@pytest.mark.long
def test_real_files_spoiled_at_any_byte_are_read_or_refused() -> None:
    draw = random.Random(1)
    files = [path.read_bytes() for path in sorted((fixtures.require_data() / "clusters").rglob("*.yaml"))]
    reader = Reader()
    for _ in range(3000):
        raw = bytearray(draw.choice(files))
        for _ in range(draw.randint(1, 4)):
            place = draw.randrange(len(raw) or 1)
            raw[place : place + draw.randint(0, 3)] = draw.choice(ALPHABET).encode() * draw.randint(0, 2)
        _sound(bytes(raw), reader)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1000, 1020))
def test_very_many_spoiled_documents_are_read_or_refused(seed: int) -> None:
    draw = random.Random(seed)
    reader = Reader()
    for _ in range(3000):
        text = document(draw)
        for _ in range(draw.randint(1, 5)):
            place = draw.randrange(len(text) + 1)
            text = text[:place] + draw.choice(ALPHABET) + text[place + draw.randint(0, 2) :]
        _sound(text.encode(), reader)


def test_threads_share_a_reader() -> None:
    reader = Reader()
    faults: list[BaseException] = []

    def work(number: int) -> None:
        draw = random.Random(number % 2)
        try:
            for _ in range(150):
                _sound(document(draw).encode(), reader)
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []


def test_memory_is_bounded_and_forgets_the_least_recently_used() -> None:
    memory: BlockCache[int] = BlockCache(10)
    for number in range(4):
        memory.put(number, number, 3)
        assert memory.get(0) == 0
    assert (memory.get(0), memory.get(1), memory.get(3), memory.cost) == (0, None, 3, 9)
    memory.put("large", 5, 11)
    assert (memory.get("large"), memory.cost) == (None, 0)
    memory.grow(20)
    memory.put("large", 5, 11)
    memory.put("large", 6, 12)
    assert (memory.get("large"), memory.cost) == (6, 12)


def test_a_reader_s_memory_stays_bounded(tmp_path: Path) -> None:
    reader = Reader()
    for number in range(300):
        reader.read(f"a: {'x' * 30_000}{number}\nb:\n  c: {'y' * 30_000}{number}\n".encode())
    assert reader._memory.cost <= reader._memory._budget
    assert reader._blocks.parts.cost <= reader._blocks.parts._budget
    assert reader._memory._budget < 5_000_000


def test_known_plain_scalars_stay_bounded() -> None:
    plain = PlainScalars()
    for number in range(60_000):
        plain.resolve(f"text {number}")
    assert len(plain.known) <= 20_000
