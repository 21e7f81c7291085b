"""Where a body ends, whatever pieces it comes in (R5)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configdb_sync.web.framing import Arrived, Chunked, Sized, hopeless


@given(
    chunks=st.lists(st.binary(min_size=1, max_size=40), max_size=6),
    trailer=st.sampled_from([b"", b"X: y\r\n", b"X: y\r\nZ: 1\r\n"]),
    extension=st.sampled_from([b"", b";a", b' ; a="b"']),
    rest=st.binary(max_size=20),
    cuts=st.sets(st.integers(0, 400)),
)
def test_a_chunked_body_ends_where_it_ends(
    chunks: list[bytes], trailer: bytes, extension: bytes, rest: bytes, cuts: set[int]
) -> None:
    whole = b"".join(b"%x%s\r\n%s\r\n" % (len(chunk), extension, chunk) for chunk in chunks)
    whole += b"0\r\n" + trailer + b"\r\n"
    body = Chunked(10_000)
    for cut in sorted(cuts):
        if cut < len(whole):
            assert body.look(bytearray(whole[:cut])) is Arrived.PART
    assert body.look(bytearray(whole + rest)) is Arrived.WHOLE
    assert body.end == len(whole)


@pytest.mark.parametrize(
    "content", [b"zz\r\n", b"\r\n", b"-1\r\n", b"+1\r\n1\r\n", b"0x1\r\n", b"1\r\n12\r\n", b"1" * 9000, b"1 1\r\n"]
)
def test_broken_chunks(content: bytes) -> None:
    assert Chunked(10_000).look(content) is Arrived.BROKEN


def test_what_is_longer_than_the_limit_is_not_waited_for() -> None:
    assert Sized(11, 10).look(b"") is Arrived.OVER
    assert Chunked(10).look(b"b\r\n") is Arrived.OVER
    assert Chunked(10).look(b"5\r\n12345\r\n6\r\n") is Arrived.OVER
    assert Chunked(10**9).look(b"1\r\n1\r\n" * 100_001) is Arrived.OVER


@pytest.mark.parametrize("start", [b"", b"\r\n", b"GET", b"\r\nGET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nX: \xff"])
def test_a_start_that_may_become_a_request(start: bytes) -> None:
    assert not hopeless(start, 1000)


@pytest.mark.parametrize(
    "start", [b"\n", b"GET / HTTP/1.1\n", b"\x16\x03", b"G\xff", b"GET / HTTP/1.1\r\n" + b"x" * 999]
)
def test_a_start_that_may_not(start: bytes) -> None:
    assert hopeless(start, 1000)
