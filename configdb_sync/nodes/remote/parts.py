"""Content cut into parts that the agent ``uploadfile`` takes (B19): none too large for a message, none without text."""

from __future__ import annotations

from dataclasses import dataclass, field

UPLOAD_LIMIT = 1_500_000
"""Bytes of one upload: with its envelope a message stays below 2 MB."""

WHOLE = "new"
"""The name of the part that is the whole content."""

_FILLER = b"."


@dataclass(frozen=True)
class Part:
    """What is sent in one message, and the name that it gets in the temporary folder.

    A name that ends in ``p`` tells that one byte was put behind the content.
    """

    name: str
    content: bytes = field(repr=False)


def parts(content: bytes, limit: int = UPLOAD_LIMIT) -> list[Part]:
    """Return the parts of a content; none for an empty one.

    The agent's own rule is ``^.+$``: it refuses what has no character besides line ends.
    """
    pieces = [content[place : place + limit] for place in range(0, len(content), limit)]
    if len(pieces) == 1 and content.strip(b"\n"):
        return [Part(WHOLE, content)]
    return [_part(number, piece) for number, piece in enumerate(pieces, start=1)]


def _part(number: int, piece: bytes) -> Part:
    if piece.strip(b"\n"):
        return Part(str(number), piece)
    return Part(f"{number}p", piece + _FILLER)


def names(found: list[Part]) -> list[str]:
    """Return the names of the parts that have to be put together: none if there is but the whole."""
    return [part.name for part in found if part.name != WHOLE]
