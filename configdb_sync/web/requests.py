"""What a request says, read strictly: its raw target (T1), its conditions (RFC 9110, 13.1) and its body.

The target is decoded segment by segment, never joined, never normalised. A malformed header is an error, never no
header.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import quote_from_bytes, unquote_to_bytes

from configdb_sync.web.refusals import RefusalError, refuse

Environ = Mapping[str, Any]

_RAW_TARGET = ("RAW_URI", "REQUEST_URI")
"""Where servers put the raw target: gunicorn, then waitress, uWSGI, mod_wsgi."""

_PLAIN = re.compile(r"[\x21\x22\x24-\x7e]*")
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?]*")
_BROKEN = re.compile(r"%(?![0-9A-Fa-f]{2})")


@dataclass(frozen=True)
class Target:
    """A request target: its decoded path segments (none holds a slash or NUL), and the query as it came."""

    segments: tuple[str, ...]
    query: str | None = None


def target_of(environ: Environ) -> Target:
    """Return the request's target. Raises ``RefusalError``: 500 if the server doesn't give it raw, 400."""
    for key in _RAW_TARGET:
        if key in environ:
            return read_target(environ[key])
    raise refuse(500, "this server gives no raw request target; see the documentation for those that do")


def client_address(environ: Environ, *, behind_proxy: bool) -> str:
    """Return the client's address; behind a proxy the one that the proxy itself added last to X-Forwarded-For."""
    told = str(environ.get("HTTP_X_FORWARDED_FOR", "")).rpartition(",")[2].strip() if behind_proxy else ""
    return told[:64] or str(environ.get("REMOTE_ADDR") or "")


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
_LONGEST_CONDITION = 4096
_TAG_LENGTH = 40


@dataclass(frozen=True)
class EntityTags:
    """One header: ``any`` is ``*``; ``strong`` and ``weak`` hold opaque tags without quotes."""

    any: bool = False
    strong: frozenset[str] = frozenset()
    weak: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Preconditions:
    """If-Match and If-None-Match of a request; None where it has no such header.

    Each method gets the tags that the thing has now. ``exists``, by default whether it has any, is what ``*`` asks.
    """

    match: EntityTags | None = None
    none_match: EntityTags | None = None

    def matches(self, *current: str, exists: bool | None = None) -> bool:
        """Tell whether If-Match lets the request through."""
        if self.match is None:
            return True
        if self.match.any:
            return bool(current) if exists is None else exists
        return not self.match.strong.isdisjoint(current)

    def none_matches(self, *current: str, exists: bool | None = None) -> bool:
        """Tell whether If-None-Match lets the request through; a read that it doesn't is answered with 304."""
        if self.none_match is None:
            return True
        if self.none_match.any:
            return not (bool(current) if exists is None else exists)
        return (self.none_match.strong | self.none_match.weak).isdisjoint(current)

    def hold(self, *current: str, exists: bool | None = None) -> bool:
        """Tell whether both let a change through."""
        return self.matches(*current, exists=exists) and self.none_matches(*current, exists=exists)

    def check(self, *current: str) -> None:
        """Raise ``RefusalError`` 412 unless what has these tags (none: it isn't there) may be changed."""
        if not self.hold(*current):
            raise refuse(412, "it has changed, or is there, since the ETag in the condition")


def read_preconditions(environ: Environ) -> Preconditions:
    """Return the conditions of a request. Raises ``RefusalError`` 400 for a malformed header."""
    return Preconditions(
        _condition(environ, "If-Match", "HTTP_IF_MATCH"), _condition(environ, "If-None-Match", "HTTP_IF_NONE_MATCH")
    )


def is_conditional(environ: Environ) -> bool:
    """Tell whether a request has If-Match or If-None-Match."""
    return "HTTP_IF_MATCH" in environ or "HTTP_IF_NONE_MATCH" in environ


def _condition(environ: Environ, name: str, key: str) -> EntityTags | None:
    # Asked by presence: an empty header is malformed, not absent.
    if key not in environ:
        return None
    try:
        return read_entity_tags(name, environ[key])
    except ValueError as error:
        raise refuse(400, str(error)) from None


def read_entity_tags(name: str, text: str) -> EntityTags:
    """Return the tags of a header's text. Raises ``ValueError`` that names the header and what is wrong.

    Werkzeug's ``parse_etags`` takes a malformed header for none, and the change would go through.
    """
    if len(text) > _LONGEST_CONDITION:
        raise ValueError(f"{name} is longer than {_LONGEST_CONDITION} characters")
    text = text.strip(" \t")
    if text == "*":
        return EntityTags(any=True)
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
    return EntityTags(strong=frozenset(strong), weak=frozenset(weak))


def tag_of_parts(*parts: object) -> str:
    """Return the entity tag (T2) of what these parts (texts and numbers) tell apart."""
    text = "\0".join(map(str, parts))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_TAG_LENGTH]


def tag_of_body(body: bytes) -> str:
    """Return the entity tag of an answer by its bytes."""
    return hashlib.sha256(body).hexdigest()[:_TAG_LENGTH]


def read_body(environ: Environ, limit: int) -> bytes:
    """Return the body's bytes, empty if there is none. Raises ``RefusalError`` 400, 411, 413.

    Werkzeug's ``get_data`` returns a body that was cut as if it were whole.
    """
    told = environ.get("CONTENT_LENGTH") or ""
    chunked = "HTTP_TRANSFER_ENCODING" in environ
    if chunked and not environ.get("wsgi.input_terminated"):
        raise refuse(411, "this server needs a Content-Length")
    if told and not (told.isascii() and told.isdigit()):
        raise refuse(400, "Content-Length is no number, or given twice")
    length = int(told) if told else 0
    if length > limit:
        raise refuse(413, f"the body is larger than {limit} bytes")
    content = _read(environ, limit + 1 if chunked else length)
    if len(content) > limit:
        raise refuse(413, f"the body is larger than {limit} bytes")
    if not chunked and len(content) < length:
        raise refuse(400, f"the body was cut: {len(content)} of {length} bytes came")
    return content


def drain(environ: Environ, limit: int) -> None:
    """Read what is left of a refused request's body, up to a limit: a connection that is closed on it would be reset,
    and the client might never see the answer."""
    told = environ.get("CONTENT_LENGTH") or ""
    if told.isascii() and told.isdigit() and 0 < int(told) <= limit:
        with contextlib.suppress(RefusalError):
            _read(environ, int(told))


def _read(environ: Environ, wanted: int) -> bytes:
    parts = []
    try:
        while wanted > 0 and (part := environ["wsgi.input"].read(wanted)):
            parts.append(part)
            wanted -= len(part)
    except (OSError, ValueError):
        raise refuse(400, "the body was cut") from None
    return b"".join(parts)


def media_type(environ: Environ) -> str:
    """Return the type of the body in lower case, without parameters; empty if none is given."""
    return str(environ.get("CONTENT_TYPE") or "").partition(";")[0].strip().lower()


def content_coding(environ: Environ) -> str:
    """Return the Content-Encoding in lower case, empty for none."""
    coding = str(environ.get("HTTP_CONTENT_ENCODING", "identity")).strip().lower()
    return "" if coding == "identity" else coding


def json_fault(error: ValueError) -> str:
    """Return why a text is no JSON as it is taken here, for the client.

    The error's own text names a place and never holds the document, but for long numbers it is advice to programmers.
    """
    text = str(error)
    return "a number has more digits than are taken" if "integer string conversion" in text else text[:200]
