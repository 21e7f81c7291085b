"""Bytes of a STOMP connection into frames, whatever way they come in pieces (STOMP 1.2; B01)."""

from __future__ import annotations

import contextlib
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configdb_sync.mcollective.frames import HEAD, FrameError, RawFrame, Splitter


def split(content: bytes, sizes: list[int], limit: int = 1 << 20) -> list[RawFrame]:
    splitter = Splitter(limit)
    found = []
    place = 0
    while place < len(content):
        size = sizes[place % len(sizes)] if sizes else len(content)
        found += list(splitter.feed(content[place : place + size]))
        place += size
    return found


frames = st.builds(
    lambda head, body, end: (head.encode(), body, end),
    st.sampled_from(["MESSAGE\na:b", "ERROR\nmessage:Bad CONNECT", "X", "CONNECTED\nversion:1.1\nheart-beat:1,2"]),
    st.binary(max_size=300),
    st.sampled_from([b"", b"\n", b"\n\n\n", b"\r\n"]),
)


@given(sent=st.lists(frames, max_size=5), sizes=st.lists(st.integers(1, 50), max_size=5), long=st.booleans())
@settings(max_examples=300, deadline=None)
def test_frames_come_out_whole_in_whatever_pieces_they_come(
    sent: list[tuple[bytes, bytes, bytes]], sizes: list[int], long: bool
) -> None:
    content = b"\n"
    for head, body, end in sent:
        if long or b"\0" in body:
            content += head + b"\ncontent-length:%d\n\n" % len(body) + body + b"\0" + end
        else:
            content += head + b"\n\n" + body + b"\0" + end
    found = split(content, sizes)
    assert [(frame.head.split(b"\ncontent-length")[0], frame.body) for frame in found] == [
        (head, body) for head, body, _ in sent
    ]
    assert all(frame.body is not None and frame.size == len(frame.body) for frame in found)


@given(content=st.binary(max_size=300), sizes=st.lists(st.integers(1, 20), max_size=3))
@settings(max_examples=500, deadline=None)
def test_any_bytes_are_frames_or_a_typed_error(content: bytes, sizes: list[int]) -> None:
    for start in (b"", b"MESSAGE\n", b"MESSAGE\ncontent-length:", b"MESSAGE\ncontent-length:3\n\n"):
        with contextlib.suppress(FrameError):
            split(start + content, sizes, limit=50)


def test_lines_may_end_as_in_stomp_1_2() -> None:
    (frame,) = split(b"MESSAGE\r\ncontent-length:2\r\n\r\n\0a\0", [1])
    assert (frame.head, frame.body) == (b"MESSAGE\r\ncontent-length:2", b"\0a")


@pytest.mark.parametrize(
    "content",
    [
        b"MESSAGE\0",
        b"MESSAGE\na:b\n\0\n\n",
        b"MESSAGE\ncontent-length:x\n\n",
        b"MESSAGE\ncontent-length:-1\n\n",
        b"MESSAGE\ncontent-length:" + b"9" * 5000 + b"\n\n",
        b"MESSAGE\ncontent-length:1\n\nab\0",
        b"A" * (HEAD + 1),
    ],
)
def test_what_is_not_stomp_is_a_typed_error(content: bytes) -> None:
    for size in (1, 7, len(content)):
        with pytest.raises(FrameError):
            split(content, [size])


@pytest.mark.parametrize("long", [True, False])
def test_a_frame_beyond_the_limit_is_passed_over_in_little_memory(long: bool) -> None:
    splitter = Splitter(1 << 16)
    size = 64 << 20
    head = b"MESSAGE\nmc_sender:2" + (b"\ncontent-length:%d" % size if long else b"")
    piece = b"x" * (1 << 16)
    tracemalloc.start()
    try:
        found = list(splitter.feed(head + b"\n\n"))
        for _ in range(size >> 16):
            found += list(splitter.feed(piece))
        found += list(splitter.feed(b"\0\nMESSAGE\n\nnext\0"))
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
    assert [(frame.head, frame.body, frame.size) for frame in found] == [
        (head, None, size),
        (b"MESSAGE", b"next", 4),
    ]


def test_a_length_of_2_gb_alone_takes_no_memory() -> None:
    splitter = Splitter(16 << 20)
    tracemalloc.start()
    try:
        assert list(splitter.feed(b"MESSAGE\ncontent-length:2147483647\n\nabc")) == []
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_many_zero_bytes_are_looked_at_once() -> None:
    # Each chunk has zero bytes: whoever searches all that came before each time needs hours for this.
    content = b"MESSAGE\ncontent-length:%d\n\n" % (8 << 20) + b"\0" * (8 << 20) + b"\0"
    (frame,) = split(content, [1024], limit=16 << 20)
    assert frame.size == 8 << 20
