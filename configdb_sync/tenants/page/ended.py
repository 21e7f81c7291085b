"""Sessions that were signed out of, for all processes: their cookies are in the registry's database (T12)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Connection

from configdb_sync.store import schema
from configdb_sync.tenants.registry import Registry

SESSIONS = schema.ENDED_SESSIONS


@dataclass(frozen=True)
class EndedSessions:
    """Cookies that are worth nothing any more. Raises ``TenantRefusal`` 503 where the database is away: a cookie isn't
    believed then."""

    registry: Registry

    def holds(self, cookie: str) -> bool:
        """Tell whether a cookie was signed out with."""
        query = sa.select(SESSIONS.c.until).where(SESSIONS.c.digest == _digest(cookie))
        return self.registry.read(lambda connection: connection.execute(query).first()) is not None

    def add(self, cookie: str, now: float, until: float) -> None:
        """Take a cookie out of use. ``until``: when it would have ended by itself; such ones are forgotten."""

        def work(connection: Connection) -> None:
            connection.execute(sa.delete(SESSIONS).where(SESSIONS.c.until < int(now)))
            row = self.registry.database.insert(SESSIONS).values(digest=_digest(cookie), until=int(until) + 1)
            connection.execute(row.on_conflict_do_nothing())

        self.registry.database.write(work)


def _digest(cookie: str) -> str:
    return hashlib.sha256(cookie.encode("ascii")).hexdigest()
