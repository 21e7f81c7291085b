"""Versions of values and overrides in the product's own database, for servers that keep none (U17).

We know of the changes that we made. What others made shows when the document that is found isn't the one that our
last version left.

Notes on overrides (U27) are one JSON document for each environment of a server.
"""

from __future__ import annotations

import hashlib
import threading
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy import Connection

from configdb_sync.clock import Clock
from configdb_sync.errors import StateError
from configdb_sync.jsonvalues import EMPTY_DIGEST, Document, Json, document_digest, dumps, packed, unpacked
from configdb_sync.names import RECORDS
from configdb_sync.store.database import Database
from configdb_sync.store.encryption import sealing_of
from configdb_sync.store.schema import BLOBS, OVERRIDE_NOTES, VERSIONS, now_of

BY_OTHERS = "changed by someone else"

_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class DocumentKey:
    """One document of one server (by its address), as its versions are found.

    A data source has its name here, which outlives definitions. ``kind`` is ``values`` or ``overrides``.
    """

    server: str
    environment: int
    level: str
    data_source: str
    kind: str


class StoredVersion(NamedTuple):
    """One version of a document: ``time`` is ISO 8601 in UTC, ``digest`` that of the value."""

    number: int
    time: str
    author: str | None
    run: str | None
    comment: str | None
    digest: str


@dataclass(frozen=True)
class PackedDocument:
    """A document to be stored: ``address`` is the sha256 (hex) of its JSON text, ``body`` the text compressed (zlib),
    ``digest`` that of the value (``jsonvalues.document_digest``), key order aside."""

    address: str
    digest: str
    body: bytes = field(repr=False)


def pack(document: Document) -> PackedDocument:
    """Return a document made ready to be stored; ``jsonvalues.unpacked`` gives it back from its body."""
    text = dumps(document).encode("ascii")
    return PackedDocument(hashlib.sha256(text).hexdigest(), document_digest(document), zlib.compress(text))


def is_by_others(last: str | None, found: str) -> bool:
    """Tell whether someone else changed a document.

    ``last`` is the digest that our last version left (None: there is none), ``found`` that of the document now.
    """
    return found != (EMPTY_DIGEST if last is None else last)


def time_text(seconds: float) -> str:
    """Return a time since the epoch as ISO 8601 in UTC, to the microsecond."""
    return (_BEGINNING + timedelta(seconds=seconds)).isoformat(timespec="microseconds")


class VersionStore:
    """Keeps the newest ``keep`` versions of each document. Safe for several threads.

    The database is opened by ``opened`` when it is first needed, and again if it is needed after ``close``.
    """

    def __init__(self, opened: Callable[[], Database], keep: int, clock: Clock) -> None:
        self._opened = opened
        self._keep = keep
        self._clock = clock
        self._database: Database | None = None
        self._opening = threading.Lock()

    def close(self) -> None:
        """Close the database."""
        with self._opening:
            if self._database is not None:
                self._database.close()
                self._database = None

    def record(
        self,
        key: DocumentKey,
        before: Document,
        after: Document,
        *,
        author: str | None = None,
        run: str | None = None,
        comment: str | None = None,
    ) -> None:
        """Remember a change that was made, and one by others that shows by it. Raises ``StateError``.

        The product's own records in ConfigDB are no one's settings: they have no versions.
        """
        was, made = pack(before), pack(after)
        if was.digest == made.digest or key.data_source == RECORDS:
            return
        author_and_run = {"author": _storable(author), "run": run, "comment": _storable(comment)}
        try:
            self._open().write(lambda connection: self._add(connection, key, was, made, author_and_run))
        except StateError as error:
            raise StateError(
                f"the change was made in ConfigDB, but isn't in the history: {error.what}", way_out=error.way_out
            ) from error

    def history(self, key: DocumentKey) -> list[StoredVersion]:
        """Return the versions that are stored of a document, newest first. Raises ``StateError``."""
        query = sa.select(VERSIONS).where(*_of(key)).order_by(VERSIONS.c.number.desc()).limit(self._keep)
        rows = self._open().read(lambda connection: connection.execute(query).all())
        return [
            StoredVersion(row.number, time_text(row.time), row.author, row.run, row.comment, row.digest) for row in rows
        ]

    def content(self, key: DocumentKey, number: int) -> dict[str, Json] | None:
        """Return a document as it was in a version that ``history`` lists, None for others. Raises ``StateError``."""
        query = (
            sa.select(BLOBS.c.body)
            .join_from(VERSIONS, BLOBS, VERSIONS.c.content == BLOBS.c.address)
            .where(*_of(key), VERSIONS.c.number == number)
        )
        body = self._open().read(lambda connection: connection.execute(query).scalar())
        return None if body is None else unpacked(body)

    def now(self) -> float:
        """Return the time by the clock of the versions, in seconds since the epoch."""
        return self._open().read(lambda connection: now_of(connection, self._clock))

    def _open(self) -> Database:
        with self._opening:
            if self._database is None:
                self._database = self._opened()
            return self._database

    def _add(
        self,
        connection: Connection,
        key: DocumentKey,
        before: PackedDocument,
        after: PackedDocument,
        author_and_run: dict[str, str | None],
    ) -> None:
        if connection.dialect.name == "postgresql":
            # One writer at a time, as on SQLite: versions are counted, and a content is dropped when none has it.
            connection.execute(sa.text("LOCK TABLE document_versions IN SHARE ROW EXCLUSIVE MODE"))
        newest = sa.select(VERSIONS.c.number, VERSIONS.c.digest).where(*_of(key)).order_by(VERSIONS.c.number.desc())
        last = connection.execute(newest.limit(1)).first()
        first = 1 if last is None else last.number + 1
        now = now_of(connection, self._clock)
        added = [(after, author_and_run)]
        if is_by_others(None if last is None else last.digest, before.digest):
            added.insert(0, (before, {"comment": BY_OTHERS}))
        for number, (content, about) in enumerate(added, first):
            address = sealing_of(connection.dialect).address(content.address)
            there = sa.select(BLOBS.c.address).where(BLOBS.c.address == address)
            if connection.execute(there).first() is None:
                connection.execute(sa.insert(BLOBS).values(address=address, body=content.body))
            row = {"number": number, "time": now, "digest": content.digest, "content": address}
            connection.execute(sa.insert(VERSIONS).values({**asdict(key), **row, **about}))
        _prune(connection, key, first + len(added) - 1 - self._keep)


def _of(key: DocumentKey) -> list[sa.ColumnElement[bool]]:
    return [VERSIONS.c[name] == value for name, value in asdict(key).items()]


def _prune(connection: Connection, key: DocumentKey, upto: int) -> None:
    """Drop the versions up to a number, and the contents that no version has any more."""
    old = [*_of(key), VERSIONS.c.number <= upto]
    contents = set(connection.execute(sa.select(VERSIONS.c.content).where(*old)).scalars())
    if contents:
        connection.execute(sa.delete(VERSIONS).where(*old))
        used = sa.select(VERSIONS.c.content).where(VERSIONS.c.content == BLOBS.c.address)
        connection.execute(sa.delete(BLOBS).where(BLOBS.c.address.in_(sorted(contents)), ~used.exists()))


def _storable(text: str | None) -> str | None:
    """Return what any database stores: a user's bytes that aren't UTF-8, and NUL, become ``?``."""
    return None if text is None else text.encode("utf-8", "replace").decode().replace("\0", "?")


def read_notes(database: Database, server: str, environment: int) -> dict[str, Json]:
    """Return the document of an environment of a server (by its address), ``{}`` where there is none."""
    return database.read(lambda connection: _read(connection, server, environment))


def rewrite_notes(database: Database, server: str, environment: int, make: Callable[[Document], Document]) -> None:
    """Replace the document by what ``make`` makes of it; an empty one is dropped. No other writer comes between."""

    def work(connection: Connection) -> None:
        if connection.dialect.name == "postgresql":
            # One writer at a time, as on SQLite.
            connection.execute(sa.text("LOCK TABLE override_notes IN SHARE ROW EXCLUSIVE MODE"))
        after = make(_read(connection, server, environment))
        connection.execute(sa.delete(OVERRIDE_NOTES).where(*_notes_of(server, environment)))
        if after:
            row = {"server": server, "environment": environment, "body": packed(after)}
            connection.execute(sa.insert(OVERRIDE_NOTES).values(row))

    database.write(work)


def _read(connection: Connection, server: str, environment: int) -> dict[str, Json]:
    body = connection.execute(sa.select(OVERRIDE_NOTES.c.body).where(*_notes_of(server, environment))).scalar()
    return {} if body is None else unpacked(body)


def _notes_of(server: str, environment: int) -> list[sa.ColumnElement[bool]]:
    return [OVERRIDE_NOTES.c.server == server, OVERRIDE_NOTES.c.environment == environment]
