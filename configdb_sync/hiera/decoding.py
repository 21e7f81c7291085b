"""From a file's bytes to its text: UTF-8 with or without a byte order mark, within bounds."""

from __future__ import annotations

import re

from configdb_sync.hiera.faults import UnreadableError, fault

MAX_BYTES = 1 << 24
"""Largest file that is read; ``astute.yaml`` of an environment of a thousand nodes has 2.3 MB."""

BOM = "\ufeff"

_PATH = re.compile(r"[A-Za-z0-9_.@+-]*(?:/[A-Za-z0-9_.@+-]+)+|[A-Za-z0-9_@+-][A-Za-z0-9_.@+-]*\.yaml")


def decode(raw: bytes) -> str:
    """Return the text without its byte order mark. Raises ``DocumentError`` that names the byte's place."""
    if len(raw) > MAX_BYTES:
        raise fault(f"it has {len(raw)} bytes; at most {MAX_BYTES} are read")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise fault(
            f"the byte at offset {error.start} is not UTF-8",
            line=raw.count(b"\n", 0, error.start) + 1,
            way_out="Ruby reads settings as UTF-8",
        ) from None
    text = text.removeprefix(BOM)
    if text.startswith(BOM):
        raise fault("it begins with two byte order marks", line=1)
    return text


def link_hint(error: UnreadableError, text: str) -> UnreadableError:
    """Return ``error``, with a hint if the text is a path as a flattened symbolic link holds it."""
    if error.way_out is None and len(text) < 4096 and _PATH.fullmatch(text):
        error.way_out = "it holds just a path: a symbolic link that was copied as a regular file?"
    return error
