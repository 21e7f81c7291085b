"""Versions of values and overrides in the product's own database, for servers that keep none (U17)."""

from __future__ import annotations

import hashlib
import threading
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import cast

import sqlalchemy as sa
from sqlalchemy import Connection

from configdb_sync.clock import Clock
from configdb_sync.configdb.change import Change, Place
from configdb_sync.configdb.model import Version, Writer
from configdb_sync.errors import StateError
from configdb_sync.jsonvalues import EMPTY_DIGEST, Json, document_digest, dumps, loads
from configdb_sync.names import RECORDS
from configdb_sync.store.database import Database
from configdb_sync.store.encryption import sealing_of
from configdb_sync.store.schema import BLOBS, VERSIONS, now_of


@dataclass(frozen=True)
class Subject:
    """One document of one server (by its address); ``kind`` is ``values`` or ``overrides``."""

    server: str
    place: Place
    kind: str

    @property
    def key(self) -> dict[str, str | int]:
        """What its versions are found by; a data source by its name, which outlives definitions."""
        return {
            "server": self.server,
            "environment": self.place.env,
            "level": self.place.level_text,
            "data_source": self.place.data_source,
            "kind": self.kind,
        }


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

    def record(self, server: str, writer: Writer, change: Change) -> None:
        """Remember a change that was made, and one by others that shows by it. Raises ``StateError``.

        The product's own records in ConfigDB are no one's settings: they have no versions.
        """
        before, after = content_of(change.before), content_of(change.after)
        if before.digest == after.digest or change.place.data_source == RECORDS:
            return
        subject = Subject(server, change.place, change.kind)
        said = Writer(writer.run, _text(writer.author), _text(writer.comment or change.reason))
        try:
            self._open().write(lambda connection: self._add(connection, subject, before, after, said))
        except StateError as error:
            raise StateError(
                f"the change was made in ConfigDB, but isn't in the history: {error.what}", way_out=error.way_out
            ) from error

    def history(self, subject: Subject) -> list[Version]:
        """Return the versions that are kept of a document, newest first. Raises ``StateError``."""
        return self._open().read(lambda connection: self._versions(connection, subject))

    def content(self, subject: Subject, number: int) -> dict[str, object] | None:
        """Return a document as it was in a version that ``history`` lists, None for others. Raises ``StateError``."""
        query = (
            sa.select(BLOBS.c.body)
            .select_from(VERSIONS.join(BLOBS, VERSIONS.c.content == BLOBS.c.address))
            .where(*_of(subject), VERSIONS.c.number == number)
        )
        body = self._open().read(lambda connection: connection.execute(query).scalar())
        return None if body is None else document_of(body)

    def now(self) -> float:
        """Return the time by the clock of the versions, in seconds since the epoch."""
        return self._open().read(lambda connection: now_of(connection, self._clock))

    def _open(self) -> Database:
        with self._opening:
            if self._database is None:
                self._database = self._opened()
            return self._database

    def _versions(self, connection: Connection, subject: Subject) -> list[Version]:
        rows = connection.execute(
            sa.select(VERSIONS).where(*_of(subject)).order_by(VERSIONS.c.number.desc()).limit(self._keep)
        )
        return [Version(row.number, time_text(row.time), row.author, row.run, row.comment, row.digest) for row in rows]

    def _add(self, connection: Connection, subject: Subject, before: Content, after: Content, said: Writer) -> None:
        if connection.dialect.name == "postgresql":
            # One writer at a time, as on SQLite: versions are counted, and a content is dropped when none has it.
            connection.execute(sa.text("LOCK TABLE document_versions IN SHARE ROW EXCLUSIVE MODE"))
        newest = (
            sa.select(VERSIONS.c.number, VERSIONS.c.digest)
            .where(*_of(subject))
            .order_by(VERSIONS.c.number.desc())
            .limit(1)
        )
        last = connection.execute(newest).first()
        number = 0 if last is None else last.number
        now = now_of(connection, self._clock)
        added = [(after, said)]
        if is_by_others(None if last is None else last.digest, before.digest):
            added.insert(0, (before, Writer(comment=BY_OTHERS)))
        for content, writer in added:
            number += 1
            address = sealing_of(connection.dialect).address(content.address)
            _keep_content(connection, address, content.body)
            told = {
                **subject.key,
                "number": number,
                "time": now,
                "author": writer.author,
                "run": writer.run,
                "comment": writer.comment,
                "digest": content.digest,
                "content": address,
            }
            connection.execute(sa.insert(VERSIONS).values(told))
        _prune(connection, subject, number - self._keep)


def _of(subject: Subject) -> list[sa.ColumnElement[bool]]:
    return [VERSIONS.c[name] == value for name, value in subject.key.items()]


def _keep_content(connection: Connection, address: str, body: bytes) -> None:
    there = sa.select(BLOBS.c.address).where(BLOBS.c.address == address)
    if connection.execute(there).first() is None:
        connection.execute(sa.insert(BLOBS).values(address=address, body=body))


def _prune(connection: Connection, subject: Subject, upto: int) -> None:
    """Drop the versions up to a number, and the contents that no version has any more."""
    old = [*_of(subject), VERSIONS.c.number <= upto]
    contents = set(connection.execute(sa.select(VERSIONS.c.content).where(*old)).scalars())
    if contents:
        connection.execute(sa.delete(VERSIONS).where(*old))
        used = sa.select(VERSIONS.c.content).where(VERSIONS.c.content == BLOBS.c.address)
        connection.execute(sa.delete(BLOBS).where(BLOBS.c.address.in_(sorted(contents)), ~used.exists()))


def _text(text: str | None) -> str | None:
    """Return what any database stores: a user's bytes that aren't UTF-8, and NUL, become ``?``."""
    return None if text is None else text.encode("utf-8", "replace").decode().replace("\0", "?")


BY_OTHERS = "changed by someone else"

_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Content:
    """A document to be kept: ``address`` is the sha256 (hex) of its JSON text, ``body`` the text compressed (zlib),
    ``digest`` that of the value (``jsonvalues.document_digest``), key order aside."""

    address: str
    digest: str
    body: bytes = field(repr=False)


def content_of(document: dict[str, Json]) -> Content:
    """Return a document made ready to be kept; ``document_of`` gives it back, key order included."""
    text = dumps(document).encode("ascii")
    return Content(hashlib.sha256(text).hexdigest(), document_digest(document), zlib.compress(text))


def document_of(body: bytes) -> dict[str, Json]:
    """Return the document that ``content_of`` made the body of."""
    return cast(dict[str, Json], loads(zlib.decompress(body)))


def is_by_others(last: str | None, found: str) -> bool:
    """Tell whether someone else changed a document.

    ``last`` is the digest that our last version left (None: there is none), ``found`` that of the document now.
    """
    return found != (EMPTY_DIGEST if last is None else last)


def with_present(versions: Sequence[Version], found: str, now: float) -> list[Version]:
    """Return versions, newest first, with the document that is there now (digest ``found``) in front if it is another
    one than the newest's; ``now`` in seconds since the epoch."""
    newest = versions[0] if versions else None
    if not is_by_others(None if newest is None else newest.digest, found):
        return list(versions)
    number = 1 if newest is None else newest.number + 1
    return [Version(number, time_text(now), None, None, BY_OTHERS, found), *versions]


def time_text(seconds: float) -> str:
    """Return a time since the epoch as ISO 8601 in UTC, to the microsecond."""
    return (_BEGINNING + timedelta(seconds=seconds)).isoformat(timespec="microseconds")
