"""Whose turn it is to ask for a status (S6): of all processes on a registry, one asks at most once in N seconds.

A row for each place that was asked for of late; each process keeps its own memory before it, so that the registry is
asked once in N seconds, too.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import sqlalchemy as sa
from sqlalchemy import Connection

from configdb_sync.clock import Clock
from configdb_sync.store import schema
from configdb_sync.store.database import Database
from configdb_sync.tenants.paths import Place

TURNS = schema.STATUS_TURNS
_SECOND = 1_000_000
_AHEAD = 60 * _SECOND
"""A time further ahead than clocks of masters differ was noted before a clock was put back."""
_KEPT = 3600.0


@dataclass(frozen=True)
class Turn:
    """``mine``: to be asked by this process, now; else ``since``: seconds for which the answer has been there.

    ``fresh``: whether whoever asked last could ask all.
    """

    mine: bool
    fresh: bool
    since: float = 0.0


@dataclass
class Turns:
    """Gives turns. Safe for several threads."""

    database: Database
    clock: Clock
    _pruned: float = field(default=0.0, repr=False)

    def take(self, place: Place, max_age: float) -> Turn:
        """Return whose turn it is for a place; if it is this process's, it is noted as having asked."""
        now, key = self._now(), _key(place)
        old = sa.or_(TURNS.c.asked <= now - int(max_age * _SECOND), TURNS.c.asked > now + _AHEAD)
        statement = self.database.insert(TURNS).values(place=key, asked=now)
        statement = statement.on_conflict_do_update(index_elements=["place"], set_={"asked": now}, where=old)
        self._prune(max(max_age, _KEPT))

        def work(connection: Connection) -> Turn:
            given = connection.execute(statement.returning(TURNS.c.fresh)).first()
            if given is not None:
                return Turn(mine=True, fresh=bool(given.fresh))
            row = connection.execute(sa.select(TURNS).where(TURNS.c.place == key)).first()
            if row is None:
                return Turn(mine=True, fresh=True)
            return Turn(mine=False, fresh=bool(row.fresh), since=max(0.0, (now - row.asked) / _SECOND))

        return self.database.write(work)

    def tell(self, place: Place, *, fresh: bool) -> None:
        """Note whether all could be asked."""
        statement = sa.update(TURNS).where(TURNS.c.place == _key(place)).values(fresh=fresh)
        self.database.write(lambda connection: connection.execute(statement))

    def _prune(self, kept: float) -> None:
        if self.clock.monotonic() - self._pruned < _KEPT:
            return
        self._pruned = self.clock.monotonic()
        statement = sa.delete(TURNS).where(TURNS.c.asked < self._now() - int(kept * _SECOND))
        self.database.write(lambda connection: connection.execute(statement))

    def _now(self) -> int:
        now = self.clock.now()
        return int(now.timestamp()) * _SECOND + now.microsecond


def _key(place: Place) -> str:
    return hashlib.sha256(place.url.encode("ascii")).hexdigest()
