"""What a request says, read strictly: its raw target (T1), its conditions (RFC 9110, 13.1) and its body.

The target is decoded segment by segment, never joined, never normalised. A malformed header is an error, never no
header.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote_from_bytes, unquote_to_bytes

from configdb_sync.web.refusals import refuse

KEYS = ("RAW_URI", "REQUEST_URI")
"""Where servers put the raw target: gunicorn, then waitress, uWSGI, mod_wsgi."""

_PLAIN = re.compile(r"[\x21\x22\x24-\x7e]*")
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?]*")
_BROKEN = re.compile(r"%(?![0-9A-Fa-f]{2})")


@dataclass(frozen=True)
class Target:
    """A request target: its decoded path segments (none holds a slash or NUL), and the query as it came."""

    segments: tuple[str, ...]
    query: str | None = None


@lru_cache(maxsize=1024)
def read_target(raw: str) -> Target:
    """Return what a raw request target says. Raises ``RefusalError`` 400.

    Taken are origin-form and absolute-form. Refused are raw spaces, control characters, bytes from 0x80 and ``#``,
    ``%`` without two hexadecimal digits, bytes that aren't UTF-8, an encoded slash and NUL.
    """
    if not _PLAIN.fullmatch(raw):
        raise refuse(400, "the request target holds a character that must be percent-encoded")
    if not raw.startswith("/"):
        absolute = _ABSOLUTE.match(raw)
        if absolute is None:
            raise refuse(400, "the request target is no path")
        raw = raw[absolute.end() :]
        raw = raw if raw.startswith("/") else f"/{raw}"
    path, mark, query = raw.partition("?")
    parts = path[1:].split("/")
    segments = tuple([decoded(part, "the path") for part in parts] if "%" in path else parts)
    return Target(segments, query if mark else None)


def decoded(text: str, where: str, *, slash: bool = False) -> str:
    """Return percent-encoded UTF-8 as text. ``+`` is a plus. ``slash``: an encoded one is taken.

    Raises ``RefusalError`` 400 (``where`` names it).
    """
    if "%" not in text:
        return text
    if _BROKEN.search(text):
        raise refuse(400, f"{where} has a % that no two hexadecimal digits follow")
    content = unquote_to_bytes(text)
    if (b"/" in content and not slash) or b"\0" in content:
        raise refuse(400, f"{where} has an encoded slash or NUL, which no ID can hold")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise refuse(400, f"{where} isn't percent-encoded UTF-8") from None


def parameters(query: str | None, known: frozenset[str]) -> dict[str, str]:
    """Return the query's parameters by name. Raises ``RefusalError`` 400 for one unknown or given twice."""
    found: dict[str, str] = {}
    if not query:
        return found
    for part in query.split("&"):
        if not part:
            continue
        name, _, value = part.partition("=")
        name = decoded(name, "the query")
        if name not in known:
            raise refuse(400, f"the query has a parameter that isn't known here; known: {', '.join(sorted(known))}")
        if name in found:
            raise refuse(400, f"the query gives {name} twice")
        found[name] = decoded(value, f"the query's {name}", slash=name != "dest")
    return found


@lru_cache(maxsize=1024)  # one answer names its tenant several times
def encoded(text: str) -> str:
    """Return a text as one path segment or query value. Dots alone are encoded too, since clients collapse them."""
    if text in {".", ".."}:
        return text.replace(".", "%2E")
    return quote_from_bytes(text.encode("utf-8"), safe="~")


_TAG = re.compile(r'(W/)?"([\x21\x23-\x7e\x80-\xff]*)"')
_LONGEST = 4096


@dataclass(frozen=True)
class Tags:
    """One header: ``any`` is ``*``; ``strong`` and ``weak`` hold opaque tags without quotes."""

    any: bool = False
    strong: frozenset[str] = frozenset()
    weak: frozenset[str] = frozenset()


def read_tags(name: str, text: str) -> Tags:
    """Return the tags of a header's text. Raises ``ValueError`` that names the header and what is wrong."""
    if len(text) > _LONGEST:
        raise ValueError(f"{name} is longer than {_LONGEST} characters")
    text = text.strip(" \t")
    if text == "*":
        return Tags(any=True)
    strong: set[str] = set()
    weak: set[str] = set()
    due = True
    place = 0
    while place < len(text):
        character = text[place]
        found = _TAG.match(text, place) if due else None
        if character in " \t":
            place += 1
        elif character == ",":
            due = True
            place += 1
        elif found:
            (weak if found[1] else strong).add(found[2])
            due = False
            place = found.end()
        else:
            raise ValueError(f"{name} is malformed at character {place + 1}")
    if not strong and not weak:
        raise ValueError(f"{name} names no entity tag")
    return Tags(strong=frozenset(strong), weak=frozenset(weak))
