"""What a reading command prints, made bytes again: base64 of gzip, perhaps cut; bounded whatever is in it."""

from __future__ import annotations

import binascii
import zlib
from dataclasses import dataclass, field

_GZIP = 31


class OutputError(ValueError):
    """A node printed what its command can't have printed. The text is ours alone and holds nothing of it."""


@dataclass(frozen=True)
class Stream:
    """``content``, and whether it is all there was (``whole``) or the begin of it."""

    content: bytes = field(repr=False)
    whole: bool


def decoded(text: bytes) -> bytes:
    """Return the bytes that a text in base64 stands for. Raises ``OutputError``."""
    try:
        return binascii.a2b_base64(text, strict_mode=True) if text else b""
    except binascii.Error:
        raise OutputError("what it printed is not base64") from None


def unpacked(text: bytes, most: int) -> Stream:
    """Return the bytes that were printed, at most ``most`` of them. Raises ``OutputError``."""
    packed = decoded(text)
    unpacker = zlib.decompressobj(_GZIP)
    try:
        content = unpacker.decompress(packed, most)
    except zlib.error:
        raise OutputError("what it printed is not compressed as it should be") from None
    if unpacker.unused_data:
        raise OutputError("what it printed goes on after its end")
    return Stream(content, unpacker.eof)
