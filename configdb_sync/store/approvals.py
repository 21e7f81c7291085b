"""Unsafe changes that runs withheld, and a person's word that lets exactly these through once (F5).

The digest that a run prints stands for a set of changes, each with its content before and after. An approval is spent
change by change as they are carried out, and wholly when a run that found all its changes has ended. It lasts for a
number of runs of its environment: a clock may be wrong, a count isn't.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass

import sqlalchemy as sa
from sqlalchemy import Connection

from configdb_sync.clock import Clock
from configdb_sync.errors import UnsafeError
from configdb_sync.jsonvalues import combine_digests
from configdb_sync.store.database import Database
from configdb_sync.store.schema import WITHHELD

LASTS_RUNS = 50


@dataclass(frozen=True)
class UnsafeChange:
    """One document's withheld change: which, why, and the digests of it before and after."""

    node: str
    data_source: str
    path: str
    lost: tuple[str, ...]
    of: int
    before: str
    after: str

    @property
    def reason(self) -> str:
        """Why it was withheld, in words."""
        return f"would remove {len(self.lost)} of {self.of} keys"


def unsafe_digest(unsafe: Iterable[UnsafeChange]) -> str:
    """Return the digest (12 hex digits) that names exactly these changes, whatever their order."""
    whole = combine_digests(
        (
            f"{change.node}\n{change.data_source}",
            hashlib.sha256(f"{change.path}\n{change.before}\n{change.after}".encode()).hexdigest(),
        )
        for change in unsafe
    )
    return whole[:12]


def encode(changes: Iterable[UnsafeChange]) -> bytes:
    """Return changes as bytes; ``decode`` gives them back."""
    return zlib.compress(json.dumps([astuple(change) for change in changes], separators=(",", ":")).encode("ascii"))


def decode(body: bytes) -> tuple[UnsafeChange, ...]:
    """Return the changes that ``encode`` made the bytes of."""
    rows = json.loads(zlib.decompress(body))
    return tuple(
        UnsafeChange(node, data_source, path, tuple(lost), of, before, after)
        for node, data_source, path, lost, of, before, after in rows
    )


class Approvals:
    """The withheld changes of all environments, and which of them are approved."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def withhold(self, environment: int, run: str, changes: Sequence[UnsafeChange]) -> None:
        """Remember what a run withheld that has ended now, and forget what is too old to be approved."""
        now = self._clock.now().timestamp()
        here = sa.or_(WITHHELD.c.environment == environment, WITHHELD.c.environment.is_(None))
        digest = unsafe_digest(changes) if changes else None
        if digest is None and not self._any(here):
            return

        def work(connection: Connection) -> None:
            connection.execute(sa.update(WITHHELD).where(here).values(runs=WITHHELD.c.runs + 1))
            connection.execute(sa.delete(WITHHELD).where(here, WITHHELD.c.runs >= LASTS_RUNS))
            if digest is not None:
                again = sa.and_(
                    WITHHELD.c.digest == digest, sa.or_(WITHHELD.c.approved.is_(None), WITHHELD.c.spent.is_not(None))
                )
                connection.execute(sa.delete(WITHHELD).where(again))
                if not connection.execute(sa.select(WITHHELD.c.digest).where(WITHHELD.c.digest == digest)).first():
                    row = {"digest": digest, "environment": environment, "run": run, "noted": now, "runs": 0}
                    connection.execute(sa.insert(WITHHELD).values(**row, changes=encode(changes)))

        self._database.write(work)

    def _any(self, where: sa.ColumnElement[bool]) -> bool:
        """Tell whether there is a row; most runs find none, and write nothing."""
        query = sa.select(WITHHELD.c.digest).where(where).limit(1)
        return self._database.read(lambda connection: connection.execute(query).first()) is not None

    def approve(self, digest: str, author: str) -> int | None:
        """Let the changes of this digest through, once; return how many they are, None if no run has shown them yet.

        Raises ``UnsafeError`` for what is no digest of this kind.
        """
        if len(digest) != 12 or not set(digest) <= set("0123456789abcdef"):
            raise UnsafeError(
                f"{digest[:40]!r} is no digest of unsafe changes", way_out="give the 12 digits that the run printed"
            )
        now = self._clock.now().timestamp()
        approved = {"author": author, "approved": now, "noted": now, "spent": None, "runs": 0}
        here = WITHHELD.c.digest == digest

        def work(connection: Connection) -> bytes | None:
            connection.execute(sa.delete(WITHHELD).where(here, WITHHELD.c.spent.is_not(None)))
            if not connection.execute(sa.update(WITHHELD).where(here).values(approved)).rowcount:
                connection.execute(sa.insert(WITHHELD).values(digest=digest, **approved))
            return connection.execute(sa.select(WITHHELD.c.changes).where(here)).scalar()

        changes = self._database.write(work)
        return None if changes is None else len(decode(changes))

    def open(self, environment: int) -> tuple[frozenset[UnsafeChange], frozenset[str]]:
        """Return the changes that are approved now, and the approved digests whose changes aren't known yet."""
        approved = WITHHELD.c.approved.is_not(None)
        here = sa.or_(WITHHELD.c.environment == environment, WITHHELD.c.environment.is_(None))
        query = sa.select(WITHHELD.c.digest, WITHHELD.c.changes).where(approved, here, WITHHELD.c.spent.is_(None))
        rows = self._database.read(lambda connection: connection.execute(query).all())
        known = frozenset(change for row in rows if row.changes is not None for change in decode(row.changes))
        return known, frozenset(row.digest for row in rows if row.changes is None)

    def found(self, environment: int, changes: Sequence[UnsafeChange]) -> None:
        """Take note that an approved digest turned out to stand for these changes."""
        where = WITHHELD.c.digest == unsafe_digest(changes)
        values = {"environment": environment, "changes": encode(changes)}
        self._database.write(lambda connection: connection.execute(sa.update(WITHHELD).where(where).values(values)))

    def spend(self, environment: int, run: str, carried_out: frozenset[tuple[str, str]]) -> None:
        """Take back what let changes of these (node, data source) through; an approval with none left is spent."""
        here = sa.and_(
            WITHHELD.c.environment == environment, WITHHELD.c.approved.is_not(None), WITHHELD.c.spent.is_(None)
        )
        query = sa.select(WITHHELD.c.digest, WITHHELD.c.changes).where(here)

        if not carried_out or not self._any(here):
            return

        def work(connection: Connection) -> None:
            for row in connection.execute(query).all():
                before = decode(row.changes)
                left = [change for change in before if (change.node, change.data_source) not in carried_out]
                if len(left) < len(before):
                    values = {"changes": encode(left), "spent": None if left else run}
                    connection.execute(sa.update(WITHHELD).where(WITHHELD.c.digest == row.digest).values(values))

        self._database.write(work)
