"""Cuts the bytes of a STOMP connection into frames, without I/O: each byte is looked at once, memory is bounded.

A frame whose body is beyond the limit is skipped; its head is kept, so that the caller knows who sent it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from configdb_sync.errors import ProductError

HEAD = 64 << 10
"""Longest command and headers, in bytes."""

_END = re.compile(rb"\r?\n\r?\n")
_LENGTH = re.compile(rb"^content-length:[ \t]*([^\r\n]*)", flags=re.MULTILINE)
_LINE_ENDS = b"\r\n"
_DIGITS = 12


class FrameError(ProductError):
    """Bytes that can't be STOMP."""


@dataclass(frozen=True)
class RawFrame:
    """A frame: its head (command and headers, without the empty line) and its body.

    ``size``: the body's length in bytes; ``body`` is None if that is beyond the limit.
    """

    head: bytes = field(repr=False)
    body: bytes | None = field(repr=False)
    size: int


class Splitter:
    """Takes bytes as they come and yields frames as they end."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._head: bytes | None = None
        self._size = 0
        self._left: int | None = None

    def feed(self, chunk: bytes) -> Iterator[RawFrame]:
        """Yield the frames that end in ``chunk``. Raises ``FrameError`` for what can't be STOMP.

        Take all of them before the next call. After an error the connection is of no more use.
        """
        rest = memoryview(chunk)
        while rest:
            if self._head is None:
                rest = self._in_head(rest)
            else:
                frame, rest = self._in_body(rest)
                if frame is not None:
                    yield frame

    def _in_head(self, rest: memoryview) -> memoryview:
        taken = bytes(rest)
        if not self._buffer:
            taken = taken.lstrip(_LINE_ENDS)
            if not taken:
                return rest[:0]
        # The empty line may have begun in what came before.
        start = max(0, len(self._buffer) - 3)
        self._buffer += taken[: HEAD + 4]
        end = _END.search(self._buffer, start)
        nul = self._buffer.find(b"\0", start, end.start() if end else len(self._buffer))
        if nul >= 0:
            raise FrameError(f"a STOMP frame that ends within its headers, after {nul} bytes")
        if end is None:
            if len(self._buffer) > HEAD:
                raise FrameError(f"STOMP headers of more than {HEAD} bytes")
            return rest[:0]
        # What of this chunk belongs to the body: all beyond the end of the empty line.
        over = len(self._buffer) - end.end() + max(0, len(taken) - HEAD - 4)
        self._head = bytes(self._buffer[: end.start()])
        self._left = self._length(self._head)
        self._buffer = bytearray()
        self._size = 0
        return rest[len(rest) - over :]

    @staticmethod
    def _length(head: bytes) -> int | None:
        found = _LENGTH.search(head)
        if found is None:
            return None
        digits = found[1].strip()
        if not digits.isdigit() or len(digits) > _DIGITS:
            raise FrameError("a STOMP frame whose content-length is no number")
        return int(digits)

    def _in_body(self, rest: memoryview) -> tuple[RawFrame | None, memoryview]:
        if self._left is None:
            return self._until_nul(rest)
        if self._left:
            part = rest[: self._left]
            self._keep(part, self._size + self._left)
            self._left -= len(part)
            return None, rest[len(part) :]
        if rest[0]:
            raise FrameError(f"a STOMP frame of {self._size} bytes that doesn't end where it should")
        return self._done(), rest[1:]

    def _until_nul(self, rest: memoryview) -> tuple[RawFrame | None, memoryview]:
        end = bytes(rest).find(b"\0")
        part = rest if end < 0 else rest[:end]
        self._keep(part, self._size + len(part))
        return (None, rest[:0]) if end < 0 else (self._done(), rest[end + 1 :])

    def _keep(self, part: memoryview, due: int) -> None:
        self._size += len(part)
        if due <= self._limit:
            self._buffer += part
        else:
            self._buffer.clear()

    def _done(self) -> RawFrame:
        assert self._head is not None
        body = bytes(self._buffer) if self._size <= self._limit else None
        frame = RawFrame(self._head, body, self._size)
        self._head, self._buffer = None, bytearray()
        return frame
