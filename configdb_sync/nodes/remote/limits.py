"""How much of a node is read at most: whatever is beyond is reported, never loaded."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """``file`` and ``node`` in bytes; ``stream`` is what one answer may hold once it is unpacked."""

    file: int = 32 << 20
    node: int = 256 << 20
    stream: int = 64 << 20
    entries: int = 20_000
    depth: int = 16
    tries: int = 3
    requests: int = 400
