"""The codec of Ruby's Marshal format against Ruby itself, both ways, and against enemies (B15)."""

from __future__ import annotations

import contextlib
import shutil
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from configdb_sync.mcollective.marshal import MarshalError, MarshalLimits, Ruby, String, Symbol, dumps, loads
from tests.mcollective import oracle
from tests.mcollective.oracle import Oracle, told
from tests.mcollective.strategies import values
from tests.mcollective.vectors import REPLY, REPLY_BODY, REQUEST, REQUEST_BODY

shared = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@pytest.fixture(scope="module")
def ruby() -> Iterator[Oracle]:
    if shutil.which("ruby") is None:
        pytest.skip("ruby is not installed here")
    with oracle.running() as found:
        yield found


@given(value=values())
@shared
def test_ruby_reads_what_we_write_and_we_read_what_ruby_writes(ruby: Oracle, value: Ruby) -> None:
    ours = dumps(value)
    assert loads(ours) == value
    answer = ruby.load(ours)
    assert answer is not None
    assert answer[0] == told(value)
    assert told(loads(answer[1])) == told(value)
    # Ruby links strings that it shares by itself, such as keys and the names of encodings.
    if b"@" not in answer[1]:
        assert answer[1] == ours


@given(seed=st.integers(0, 10**9))
@shared
def test_we_read_objects_that_ruby_links(ruby: Oracle, seed: int) -> None:
    shown, dump = ruby.make(seed)
    assert told(loads(dump)) == shown


mutations = st.lists(
    st.tuples(st.sampled_from(["set", "cut", "put", "end"]), st.integers(0, 10**6), st.integers(0, 255)), max_size=4
)


def _mutated(raw: bytes, changes: list[tuple[str, int, int]]) -> bytes:
    for kind, place, byte in changes:
        at = 2 + place % max(1, len(raw) - 2)
        if kind == "set":
            raw = raw[:at] + bytes([byte]) + raw[at + 1 :]
        elif kind == "cut":
            raw = raw[:at] + raw[at + 1 + byte % 4 :]
        elif kind == "put":
            raw = raw[:at] + bytes([byte]) + raw[at:]
        else:
            raw = raw[:at]
    return raw


@given(value=values(), changes=mutations)
@shared
def test_what_we_take_of_damaged_data_ruby_takes_for_the_same(
    ruby: Oracle, value: Ruby, changes: list[tuple[str, int, int]]
) -> None:
    raw = _mutated(dumps(value), changes)
    try:
        found = loads(raw)
    except MarshalError:
        return
    answer = ruby.load(raw)
    if answer is not None and "encoding" not in str(raw):
        assert answer[0] == told(found)


@given(raw=st.one_of(st.binary(max_size=200), st.binary(max_size=200).map(lambda rest: b"\x04\x08" + rest)))
@settings(max_examples=400, deadline=None)
def test_any_bytes_are_a_value_or_a_typed_error(raw: bytes) -> None:
    with contextlib.suppress(MarshalError):
        loads(raw)


@given(raw=st.sampled_from([REQUEST, REPLY, REQUEST_BODY, REPLY_BODY]), changes=mutations)
@settings(max_examples=200, deadline=None)
def test_damaged_messages_are_a_value_or_a_typed_error(raw: bytes, changes: list[tuple[str, int, int]]) -> None:
    with contextlib.suppress(MarshalError):
        loads(_mutated(raw, changes))


@given(raw=st.sampled_from([REQUEST, REPLY, REQUEST_BODY, REPLY_BODY]))
def test_every_cut_and_every_addition_is_an_error(raw: bytes) -> None:
    for end in range(len(raw)):
        with pytest.raises(MarshalError):
            loads(raw[:end])
    with pytest.raises(MarshalError, match="1 bytes are left over"):
        loads(raw + b"0")


HOSTILE = {
    "B15: a Hash with a default": b"\x04\x08}\x06:\x06ai\x06i\x0a",
    "B15: an object": b"\x04\x08o:\x08Foo\x00",
    "B15: a Time": b"\x04\x08Iu:\x09Time\x0d" + b"\0" * 8,
    "B15: nested 10,000 deep": b"\x04\x08" + b"[\x06" * 10000 + b"0",
    "B15: a 2 GB length": b'\x04\x08"\x04\xff\xff\xff\x7f',
    "a 2 GB array": b"\x04\x08[\x04\xff\xff\xff\x7f",
    "a 2 GB hash": b"\x04\x08{\x04\xff\xff\xff\x7f",
    "a 2 GB integer": b"\x04\x08l+\x04\xff\xff\xff\x7f",
    "a negative length": b'\x04\x08"\xfa',
    "a negative count": b"\x04\x08[\xfa",
    "a Float": b"\x04\x08f\x061",
    "a class": b"\x04\x08c\x08Foo",
    "a Struct": b"\x04\x08S:\x06a\x00",
    "a String's subclass": b'\x04\x08C:\x06a"\x00',
    "a Regexp": b"\x04\x08I/\x06a\x00\x06:\x06ET",
    "an extended object": b"\x04\x08e:\x06a0",
    "a user's dump": b"\x04\x08U:\x08Foo0",
    "an array in itself": b"\x04\x08[\x06@\x00",
    "a link to nothing": b"\x04\x08@\x06",
    "a negative link": b"\x04\x08@\xfa",
    "a symbol link to nothing": b"\x04\x08;\x00",
    "a symbol in itself": b"\x04\x08I:\x06a\x06;\x00T",
    "a symbol that isn't text": b"\x04\x08:\x06\xff",
    "a symbol in Shift_JIS": b'\x04\x08I:\x06a\x06:\x0dencoding"\x0eShift_JIS',
    "instance variables on a String": b'\x04\x08I"\x06a\x06:\x07@xi\x00',
    "two instance variables": b'\x04\x08I"\x06a\x07:\x06ET:\x06ET',
    "an encoding that is a number": b'\x04\x08I"\x06a\x06:\x0dencodingi\x06',
    "an array as a key": b"\x04\x08{\x06[\x000",
    "a boolean as a key": b"\x04\x08{\x06T0",
    "a key twice": b"\x04\x08{\x07i\x000i\x000",
    "a key twice in two encodings": b'\x04\x08{\x07"\x06a0I"\x06a\x06:\x06ET0',
    "an integer without a sign": b"\x04\x08l*\x060000",
    "another version": b"\x04\x090",
    "nothing": b"",
    "no value": b"\x04\x08",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_data_is_a_typed_error_in_little_memory(name: str) -> None:
    """B15: never a graph of unknown classes, bounded time and memory."""
    tracemalloc.start()
    try:
        with pytest.raises(MarshalError) as error:
            loads(HOSTILE[name])
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
    assert "Foo" not in str(error.value)


def test_links_that_double_at_each_step_are_stopped() -> None:
    # Each array holds the one before it twice: 2^40 values in 200 bytes.
    raw = b"\x04\x08[" + bytes([45])
    raw += b"[\x00" + b"".join(b"[\x07@" + dumps(place)[3:] + b"@" + dumps(place)[3:] for place in range(1, 40))
    with pytest.raises(MarshalError, match="more than 100000 values"):
        loads(raw)


def test_limits_are_settings() -> None:
    raw = dumps([[[1, 2, 3]]])
    assert loads(raw, MarshalLimits(depth=3, values=6, size=len(raw))) == [[[1, 2, 3]]]
    for limits in (MarshalLimits(depth=2), MarshalLimits(values=5), MarshalLimits(size=len(raw) - 1)):
        with pytest.raises(MarshalError):
            loads(raw, limits)


def test_a_container_used_twice_is_written_out_twice() -> None:
    one: list[Ruby] = []
    assert loads(dumps({"fact": one, "cf_class": one})) == {
        String(b"fact", "UTF-8"): [],
        String(b"cf_class", "UTF-8"): [],
    }


def _nested(levels: int) -> Ruby:
    value: Ruby = None
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("value", [1.5, object(), {1.5: 1}, {None: 1}, {True: 1}, "\udcff", _nested(65), {1, 2}])
def test_what_cannot_be_sent_is_a_typed_error(value: Ruby) -> None:
    with pytest.raises(MarshalError):
        dumps(value)


def test_an_endless_value_is_a_typed_error() -> None:
    endless: list[Ruby] = []
    endless.append(endless)
    with pytest.raises(MarshalError, match="deep"):
        dumps(endless)


def test_text_is_sent_as_utf_8_and_bytes_as_binary() -> None:
    assert loads(dumps(["é", b"\xff", (1,)])) == [String("é".encode(), "UTF-8"), String(b"\xff"), [1]]
    assert loads(dumps({Symbol("a"): {}})) == {Symbol("a"): {}}
