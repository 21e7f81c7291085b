"""The outbox: what is to follow in ConfigDB, noted with each transition, worked off in order by one at a time."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from configdb_sync import failpoints
from configdb_sync.clock import Clock, new_request_id
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.errors import BusyError, ProductError, UnsupportedError
from configdb_sync.store import schema
from configdb_sync.store.lease import process_exists
from configdb_sync.store.schema import now_of
from configdb_sync.tenants.align import align, purge, wanted
from configdb_sync.tenants.registry import Registry

OUTBOX, LEASES = schema.OUTBOX, schema.TENANT_LEASES
LASTS = 300
"""Seconds after which the turn of one that is known no more is over; one dead on this machine isn't waited for."""
_NAME = "outbox"


@dataclass(frozen=True)
class Done:
    """One entry of the outbox worked on: what was done, or why it stays."""

    environment: int
    actions: tuple[str, ...]
    failure: str | None = None


@dataclass
class Outbox:
    """Works off what the registry noted. One thread at a time uses it; others may have their own."""

    registry: Registry
    client: Callable[[], ConfigDBClient]
    clock: Clock
    host: str = field(default_factory=socket.gethostname)
    alive: Callable[[int], bool] = process_exists
    _identity: str = field(default_factory=new_request_id)

    def waiting(self) -> int:
        """Return how many entries there are."""
        statement = sa.select(sa.func.count()).select_from(OUTBOX)
        return self.registry.read(lambda connection: int(connection.execute(statement).scalar_one()))

    def work_off(self) -> list[Done]:
        """Do all there is to do and return what was done; what fails stays, with its environment's later entries.

        Raises ``BusyError`` if another is at it.
        """
        if not self.waiting():
            return []
        self._take()
        try:
            return self._all()
        finally:
            self.registry.database.write(lambda connection: connection.execute(sa.delete(LEASES).where(self._mine())))

    def _all(self) -> list[Done]:
        done: list[Done] = []
        last, stuck = 0, set[int]()
        while True:
            row = self.registry.read(
                lambda connection, last=last: connection.execute(  # type: ignore[misc]
                    sa.select(OUTBOX).where(OUTBOX.c.number > last).order_by(OUTBOX.c.number).limit(1)
                ).first()
            )
            if row is None:
                return done
            last = row.number
            if row.environment in stuck:
                continue
            self._take()
            found = self._one(row)
            done.append(found)
            if found.failure is not None:
                stuck.add(row.environment)

    def _one(self, row: Any) -> Done:
        actions: list[str] = []
        failure = None
        try:
            if row.kind == "purge":
                actions = purge(self.client(), row.environment, json.loads(row.body))
            else:
                actions = self.aligned(row.environment)
        except UnsupportedError as error:
            # It never will: what it holds stays usable where it is.
            actions = [f"left as it is: {error}"]
        except ProductError as error:
            failure = str(error)
        this = OUTBOX.c.number == row.number
        change = sa.update(OUTBOX).where(this).values(tries=OUTBOX.c.tries + 1, failure=failure)
        statement = sa.delete(OUTBOX).where(this) if failure is None else change
        self.registry.database.write(lambda connection: connection.execute(statement))
        failpoints.here("outbox-done")
        return Done(row.environment, tuple(actions), failure)

    def aligned(self, environment: int) -> list[str]:
        """Bring one environment in step and return what was done; again while the registry changes meanwhile."""
        done: list[str] = []
        while True:
            told = self.registry.read(lambda connection: wanted(connection, environment))
            done += align(self.client(), told)
            if self.registry.read(lambda connection: wanted(connection, environment)) == told:
                return done

    def environments(self) -> list[int]:
        """Return all environments that the registry knows."""
        statement = sa.select(schema.HOLDINGS.c.environment).distinct().order_by(schema.HOLDINGS.c.environment)
        return self.registry.read(lambda connection: list(connection.scalars(statement)))

    def _take(self) -> None:
        """Take the turn, or renew it. Raises ``BusyError``."""

        def work(connection: Connection) -> str | None:
            now = int(now_of(connection, self.clock))
            mine = {"holder": f"{self.host}/{os.getpid()}/{self._identity}", "until": now + LASTS}
            held = connection.execute(sa.select(LEASES).where(LEASES.c.name == _NAME).with_for_update()).first()
            if held is None:
                insert = self.registry.database.insert(LEASES).values(name=_NAME, **mine).on_conflict_do_nothing()
                return None if connection.execute(insert).rowcount else "another"
            # One that ends later than any can was taken under another clock.
            if now < held.until <= now + LASTS and held.holder != mine["holder"] and not self._over(held.holder):
                return str(held.holder)
            connection.execute(sa.update(LEASES).where(LEASES.c.name == _NAME).values(mine))
            return None

        holder = self.registry.database.write(work)
        if holder is not None:
            raise BusyError(f"{holder} is bringing ConfigDB in step", way_out="it will be done by that one")

    def _over(self, holder: str) -> bool:
        host, pid, _ = holder.rsplit("/", 2)
        return host == self.host and not self.alive(int(pid))

    def _mine(self) -> sa.ColumnElement[bool]:
        return sa.and_(LEASES.c.name == _NAME, LEASES.c.holder == f"{self.host}/{os.getpid()}/{self._identity}")
