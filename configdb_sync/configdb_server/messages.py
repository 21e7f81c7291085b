"""What the handlers read and write: a request with its headers, body and fields, and the answers."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TypeVar
from urllib.parse import unquote_to_bytes

from sqlalchemy import Connection
from werkzeug.datastructures import Headers
from werkzeug.wrappers import Request, Response

from configdb_sync import __version__, jsonvalues
from configdb_sync.configdb_server.contents import Content, check_count, checked_text, content_of_text, type_name
from configdb_sync.configdb_server.document_paths import MAX_ID, quoted
from configdb_sync.configdb_server.preconditions import Conditions, read_conditions
from configdb_sync.jsonvalues import Json, is_unicode
from configdb_sync.names import NAME_LIMIT
from configdb_sync.store.database import Database
from configdb_sync.web.refusals import RefusalError, refuse

Result = TypeVar("Result")

RUN_HEADER = "X-Configdb-Run"
COMMENT_HEADER = "X-Configdb-Comment"


@dataclass(frozen=True)
class Limits:
    """``body``: bytes of a request's body, and of a document that keys operations let grow. ``versions``: how many
    of each document's values, and of its overrides, are kept, the present one counted."""

    body: int = 64 * 1024 * 1024
    versions: int = 30


@dataclass(frozen=True)
class Writer:
    """Who changes something, in which run, why, and when (microseconds since 1970, UTC)."""

    author: str
    run: str | None
    comment: str | None
    time: int


@dataclass(frozen=True)
class Call:
    """A request that was let in."""

    request: Request
    database: Database
    limits: Limits
    author: str
    clock: Callable[[], datetime]

    def body(self) -> jsonvalues.Json:
        """Return the JSON value of the body. Raises ``RefusalError`` 400, 413, 415."""
        return self._read(jsonvalues.loads)

    def document(self) -> Content:
        """Return the document in the body, ready to be stored. Raises ``RefusalError`` 400, 413, 415, 422."""
        return self._read(content_of_text)

    def _read(self, convert: Callable[[str], Result]) -> Result:
        text = read_text(self.request, self.limits.body)
        check_count(text, "the body")
        try:
            return convert(text)
        except ValueError as error:
            raise refuse(400, f"the body isn't the JSON that is taken here: {_reason(error)}") from None

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

    def conditions(self) -> Conditions:
        """Return If-Match and If-None-Match. Raises ``RefusalError`` 400."""
        return read_conditions(self.request.headers)

    def writer(self) -> Writer:
        """Return who changes what they are about to change. Raises ``RefusalError`` 400 for unreadable headers."""
        now = self.clock().astimezone(UTC)
        return Writer(
            self.author,
            decoded(self.request.headers, RUN_HEADER),
            decoded(self.request.headers, COMMENT_HEADER, MAX_TEXT),
            int(now.timestamp()) * 1_000_000 + now.microsecond,
        )


def read_text(request: Request, limit: int) -> str:
    """Return the text of a request's body.

    Raises ``RefusalError``: 415 for another type or coding, 413 beyond ``limit`` bytes, 400 for a body that is empty,
    cut or not UTF-8.
    """
    kind = request.mimetype
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise refuse(415, f"a body must be of type application/json, not {kind[:100] or 'without any'}")
    coding = request.headers.get("Content-Encoding", "identity").strip().lower()
    if coding not in ("", "identity"):
        raise refuse(415, f"a body must come without Content-Encoding, not as {coding[:100]}")
    length = request.content_length
    if length is not None and length > limit:
        raise _too_large(limit)
    raw = request.environ["wsgi.input"]
    # Only a server that ends the stream itself lets a body without a length be read.
    wanted = limit + 1 if length is None and request.environ.get("wsgi.input_terminated") else length or 0
    content = _read(raw.read, wanted)
    if len(content) > limit:
        raise _too_large(limit)
    if length is not None and len(content) < length:
        raise refuse(400, f"the body was cut: {len(content)} of {length} bytes came")
    if not content:
        raise refuse(400, "the body is empty")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise refuse(400, f"the body isn't UTF-8: byte {error.start + 1}") from None


def _read(read: Callable[[int], bytes], wanted: int) -> bytes:
    parts = []
    try:
        while wanted > 0 and (part := read(wanted)):
            parts.append(part)
            wanted -= len(part)
    except OSError:
        raise refuse(400, "the body was cut") from None
    return b"".join(parts)


def _reason(error: ValueError) -> str:
    # JSONDecodeError's own place is kept; its text never holds the document. Python's own on long numbers is advice to
    # programmers.
    text = str(error)
    return "a number has more digits than are taken" if "integer string conversion" in text else text[:200]


def _too_large(limit: int) -> Exception:
    return refuse(413, f"the body is larger than {limit} bytes")


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


PRODUCT_HEADER = "Server-Product"
PRODUCT = f"configdb-sync/{__version__}"
VERSION_HEADER = "X-Configdb-Version"


def json_answer(value: jsonvalues.Json, status: int = 200) -> Response:
    """Return ``value`` as JSON."""
    return text_answer(jsonvalues.dumps(value), status)


def text_answer(text: str, status: int = 200) -> Response:
    """Return a JSON text that is at hand already."""
    return Response(f"{text}\n", status, mimetype="application/json")


def listing(value: jsonvalues.Json, conditions: Conditions) -> Response:
    """Return ``value`` as JSON with the digest of its text as ETag, or 304 if the reader has it."""
    text = jsonvalues.dumps(value)
    digest = hashlib.sha256(text.encode("ascii")).hexdigest()
    return not_modified(digest) if conditions.unchanged(digest) else tagged(text_answer(text), digest)


def tagged(response: Response, digest: str, version: int | None = None) -> Response:
    """Return ``response`` with the document's strong ETag, and the number of its version where it has one."""
    response.headers["ETag"] = f'"{digest}"'
    if version is not None:
        response.headers[VERSION_HEADER] = str(version)
    return response


def no_content() -> Response:
    """Return 204."""
    return _bare(204)


def not_modified(digest: str) -> Response:
    """Return 304."""
    return tagged(_bare(304), digest)


def refused(refusal: RefusalError) -> Response:
    """Return a refusal in the one shape; both names for its text, since tuning-box's two modes use one each."""
    response = json_answer(
        {"msg": refusal.what, "message": refusal.what, "status": refusal.status}, HTTPStatus(refusal.status)
    )
    response.headers.extend(refusal.headers)
    return response


def _bare(status: int) -> Response:
    response = Response(status=status)
    response.headers.pop("Content-Type", None)
    return response
