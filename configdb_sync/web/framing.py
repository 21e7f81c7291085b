"""Finds where a request ends (RFC 9112 2, 6 and 7.1) in the bytes that have arrived so far."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

HEAD_END = b"\r\n\r\n"
_LINE = 8190
_CHUNKS = 100_000
_TRAILERS = 64 * 1024
_SIZE = re.compile(rb"[0-9a-fA-F]{1,15}")
_NO_TEXT = re.compile(rb"[^\t\r\n\x20-\x7e]")
_BARE_LINE_END = re.compile(rb"(?<!\r)\n")


class Arrived(Enum):
    """How much of a body is there. OVER: it is longer than the service takes; BROKEN: its framing is not HTTP."""

    PART = "part"
    WHOLE = "whole"
    OVER = "over"
    BROKEN = "broken"


def hopeless(start: bytes | bytearray, limit: int) -> bool:
    """Tell whether no request can come of bytes without the end of a head: it is too long, or its lines are no HTTP."""
    line = start.find(b"\r\n", 2)
    first = bytes(start if line < 0 else start[:line])
    return (
        len(start) > limit
        or (line < 0 and len(start) > _LINE + 4)
        or _NO_TEXT.search(first) is not None
        or _BARE_LINE_END.search(start) is not None
    )


@dataclass
class Sized:
    """A body of a known length."""

    length: int
    limit: int
    end: int = 0

    def look(self, body: bytes | bytearray) -> Arrived:
        """Return how much of it has arrived; ``end`` is where it ends."""
        if self.length > self.limit:
            return Arrived.OVER
        self.end = self.length
        return Arrived.WHOLE if len(body) >= self.length else Arrived.PART


@dataclass
class Chunked:
    """A body in chunks; each call goes on where the last one stopped."""

    limit: int
    end: int = 0
    _size: int = 0
    _chunks: int = 0
    _trailers: bool = False

    def look(self, body: bytes | bytearray) -> Arrived:
        """Return how much of it has arrived; ``end`` is where it ends."""
        while not self._trailers:
            line = body.find(b"\r\n", self.end, self.end + _LINE + 2)
            if line < 0:
                return Arrived.BROKEN if len(body) - self.end > _LINE else Arrived.PART
            size = _SIZE.fullmatch(bytes(body[self.end : line]).partition(b";")[0].rstrip(b" \t"))
            if size is None:
                return Arrived.BROKEN
            length = int(size[0], 16)
            if self._size + length > self.limit or self._chunks >= _CHUNKS:
                return Arrived.OVER
            if length:
                after = line + 2 + length
                if len(body) < after + 2:
                    return Arrived.PART
                if body[after : after + 2] != b"\r\n":
                    return Arrived.BROKEN
                self.end, self._size, self._chunks = after + 2, self._size + length, self._chunks + 1
            else:
                self.end, self._trailers = line + 2, True
        return self._look_at_trailers(body)

    def _look_at_trailers(self, body: bytes | bytearray) -> Arrived:
        if body.startswith(b"\r\n", self.end):
            self.end += 2
            return Arrived.WHOLE
        found = body.find(HEAD_END, self.end)
        if found >= 0:
            self.end = found + len(HEAD_END)
            return Arrived.WHOLE
        return Arrived.BROKEN if len(body) - self.end > _TRAILERS else Arrived.PART


Body = Sized | Chunked
