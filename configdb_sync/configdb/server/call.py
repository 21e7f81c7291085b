"""One request as the handlers see it, and the server's limits."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from sqlalchemy import Connection
from werkzeug.wrappers import Request

from configdb_sync import jsonvalues
from configdb_sync.configdb.server.contents import Content, check_count, content_of_text
from configdb_sync.configdb.server.headers import MAX_TEXT, decoded
from configdb_sync.configdb.server.preconditions import Conditions, read_conditions
from configdb_sync.configdb.server.refusals import RefusalError, refuse
from configdb_sync.store.database import Database

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
