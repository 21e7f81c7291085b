"""Headers that carry text: percent-encoded UTF-8, since a header holds no other characters safely."""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

from werkzeug.datastructures import Headers

from configdb_sync.configdb_server.refusals import refuse

MAX_TEXT = 4096

_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


def decoded(headers: Headers, name: str, longest: int = 255) -> str | None:
    """Return the text of a header; None if it is missing or empty.

    Raises ``RefusalError`` 400 for broken escapes, bytes that aren't UTF-8, control characters, or more than
    ``longest`` characters.
    """
    raw = headers.get(name)
    if not raw:
        return None
    if _BROKEN_ESCAPE.search(raw):
        raise refuse(400, f"{name} must be percent-encoded UTF-8")
    try:
        text = unquote_to_bytes(raw.encode("latin-1")).decode("utf-8")
    except UnicodeError:
        raise refuse(400, f"{name} must be percent-encoded UTF-8") from None
    if len(text) > longest:
        raise refuse(400, f"{name} has {len(text)} characters, {longest} are allowed")
    if any(ord(character) < 32 and character not in "\n\t" for character in text):
        raise refuse(400, f"{name} holds control characters")
    return text.strip() or None
