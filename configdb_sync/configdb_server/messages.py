"""What the handlers read and write: a request with its headers, body and fields, and the answers."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar
from urllib.parse import unquote_to_bytes

from sqlalchemy import Connection
from werkzeug.datastructures import Headers, MultiDict
from werkzeug.wrappers import Request

from configdb_sync import __version__, jsonvalues
from configdb_sync.configdb_server.contents import (
    DocumentContent,
    check_count,
    checked_text,
    content_of_text,
    type_name,
)
from configdb_sync.configdb_server.document_paths import MAX_ID, quoted
from configdb_sync.jsonvalues import Json, is_unicode
from configdb_sync.names import NAME_LIMIT
from configdb_sync.store.database import Database
from configdb_sync.web.refusals import RefusalError, refuse
from configdb_sync.web.requests import (
    Environ,
    Preconditions,
    content_coding,
    json_fault,
    media_type,
    read_body,
    read_preconditions,
)
from configdb_sync.web.responses import ApiResponse, HeaderLines, json_response

Result = TypeVar("Result")

RUN_HEADER = "X-Configdb-Run"
COMMENT_HEADER = "X-Configdb-Comment"
AUTHOR_HEADER = "X-Configdb-Author"
_LONGEST_COMMENT = 4096
_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


@dataclass(frozen=True)
class ServerLimits:
    """``body``: bytes of a request's body, and of a document that keys operations let grow. ``versions``: how many
    of each document's values, and of its overrides, are kept, the present one counted."""

    body: int = 64 * 1024 * 1024
    versions: int = 30


@dataclass(frozen=True)
class Authorship:
    """Who changes something, in which run, why, and when (microseconds since 1970, UTC)."""

    author: str
    run: str | None
    comment: str | None
    time: int


@dataclass(frozen=True)
class ConfigDBRequest:
    """A request that was let in."""

    http: Request
    database: Database
    limits: ServerLimits
    author: str
    clock: Callable[[], datetime]

    @property
    def environ(self) -> Environ:
        """The request as WSGI has it."""
        return self.http.environ

    @property
    def args(self) -> MultiDict[str, str]:
        """The query's parameters."""
        return self.http.args

    def body(self) -> Json:
        """Return the JSON value of the body. Raises ``RefusalError`` 400, 413, 415."""
        return self._read(jsonvalues.loads)

    def document(self) -> DocumentContent:
        """Return the document in the body, ready to be stored. Raises ``RefusalError`` 400, 413, 415, 422."""
        return self._read(content_of_text)

    def _read(self, convert: Callable[[str], Result]) -> Result:
        text = self._text()
        check_count(text, "the body")
        try:
            return convert(text)
        except ValueError as error:
            raise refuse(400, f"the body isn't the JSON that is taken here: {json_fault(error)}") from None

    def _text(self) -> str:
        kind, coding = media_type(self.environ), content_coding(self.environ)
        if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
            raise refuse(415, f"a body must be of type application/json, not {kind[:100] or 'without any'}")
        if coding:
            raise refuse(415, f"a body must come without Content-Encoding, not as {coding[:100]}")
        content = read_body(self.environ, self.limits.body)
        if not content:
            raise refuse(400, "the body is empty")
        try:
            return content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise refuse(400, f"the body isn't UTF-8: byte {error.start + 1}") from None

    def read(self, work: Callable[[Connection], Result]) -> Result:
        """Return what ``work`` reads: all its statements see the same structure and the same contents (``locks``)."""
        return self.database.read(work, snapshot=True)

    @contextlib.contextmanager
    def missing_first(self, look: Callable[[Connection], object]) -> Iterator[None]:
        """What isn't there is told before what is wrong with the body that is read in this context, as tuning-box does:
        ``look`` raises the 404."""
        try:
            yield
        except RefusalError:
            self.read(look)
            raise

    def preconditions(self) -> Preconditions:
        """Return If-Match and If-None-Match. Raises ``RefusalError`` 400."""
        return read_preconditions(self.environ)

    def authorship(self) -> Authorship:
        """Return who changes what they are about to change. Raises ``RefusalError`` 400 for unreadable headers."""
        now = self.clock().astimezone(UTC)
        return Authorship(
            self.author,
            header_text(self.http.headers, RUN_HEADER),
            header_text(self.http.headers, COMMENT_HEADER, _LONGEST_COMMENT),
            int(now.timestamp()) * 1_000_000 + now.microsecond,
        )


def object_of(body: Json, what: str) -> dict[str, Json]:
    """Return a body that must be an object."""
    if not isinstance(body, dict):
        raise refuse(422, f"{what} is a JSON object, not {type_name(body)}")
    return body


def list_of(value: Json, what: str) -> list[Json]:
    """Return a field that must be a list."""
    if not isinstance(value, list):
        raise refuse(422, f"{what} must be an array, not {type_name(value)}")
    return value


def required(fields: dict[str, Json], name: str, what: str) -> Json:
    """Return a field that must be there."""
    if name not in fields:
        raise refuse(422, f"{what} needs the field {name!r}")
    return fields[name]


def name_of(value: Json, what: str, *, numeric: bool = False) -> str:
    """Return a name: 1 to ``NAME_LIMIT`` characters, none that a database can't hold. With
    ``numeric`` a whole number is one too, as tuning-box takes it."""
    if numeric and isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise refuse(422, f"{what} must be a string, not {type_name(value)}")
    if not 1 <= len(value) <= NAME_LIMIT:
        raise refuse(422, f"{what} must have 1 to {NAME_LIMIT} characters, not {len(value)}")
    checked_text(value)
    if not is_unicode(value):
        raise refuse(422, f"{what} holds half a surrogate pair")
    return value


def refuse_twice(names: Sequence[str], what: str) -> None:
    """Raise ``RefusalError`` 409 if one of the names is given twice; ``what`` says of what they are."""
    for place, name in enumerate(names):
        if name in names[:place]:
            raise refuse(409, f"the {what} {quoted(name)} is given twice")


def reachable(name: str) -> bool:
    """Tell whether a URL can name it: it has no line ends, no empty segments, and none that clients resolve."""
    return name.splitlines() == [name] and {"", ".", ".."}.isdisjoint(name.split("/"))


def id_of(value: Json, what: str) -> int:
    """Return an id that is a number."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise refuse(422, f"{what} must be a number, not {type_name(value)}")
    if not 0 <= value <= MAX_ID:
        raise refuse(422, f"{what} must lie between 0 and {MAX_ID}, not {quoted(value, 40)}")
    return value


def header_text(headers: Headers, name: str, longest: int = 255) -> str | None:
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


PRODUCT_HEADER = "Server-Product"
PRODUCT = f"configdb-sync/{__version__}"
VERSION_HEADER = "X-Configdb-Version"


def text_response(text: str, digest: str | None = None, version: int | None = None) -> ApiResponse:
    """Return a document's JSON text with its strong ETag, and the number of its version where it has one."""
    return ApiResponse(200, f"{text}\n".encode("ascii"), _tags(digest, version))


def no_content(digest: str | None = None, version: int | None = None) -> ApiResponse:
    """Return 204, after a change of a document with its ETag and version."""
    return ApiResponse(204, headers=_tags(digest, version))


def not_modified(digest: str) -> ApiResponse:
    """Return 304."""
    return ApiResponse(304, headers=_tags(digest))


def listing(value: Json, preconditions: Preconditions) -> ApiResponse:
    """Return ``value`` as JSON with the digest of its text as ETag, or 304 if the reader has it."""
    text = jsonvalues.dumps(value)
    digest = hashlib.sha256(text.encode("ascii")).hexdigest()
    return text_response(text, digest) if preconditions.none_matches(digest) else not_modified(digest)


def _tags(digest: str | None, version: int | None = None) -> HeaderLines:
    tag = () if digest is None else (("ETag", f'"{digest}"'),)
    return tag if version is None else (*tag, (VERSION_HEADER, str(version)))


def refused(refusal: RefusalError) -> ApiResponse:
    """Return a refusal in the one shape; both names for its text, since tuning-box's two modes use one each."""
    shape = {"msg": refusal.what, "message": refusal.what, "status": refusal.status}
    return json_response(shape, refusal.status, (*refusal.headers, (PRODUCT_HEADER, PRODUCT)))
