"""The outbox: what is to follow in ConfigDB, noted with each transition, worked off in order by one at a time."""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from configdb_sync import failpoints
from configdb_sync.clock import Clock, new_request_id, new_run_id
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.faults import UnsupportedError
from configdb_sync.configdb.model import ServerKind
from configdb_sync.errors import BusyError, ProductError
from configdb_sync.store import schema
from configdb_sync.store.schema import now_of
from configdb_sync.tenants.reconcile import align, desired_owners, purge
from configdb_sync.tenants.registry import Registry
from configdb_sync.tenants.rows import ChangeInfo
from configdb_sync.web.refusals import refuse

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


def process_exists(pid: int) -> bool:
    """Tell whether a process of this machine is there."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


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
            told = self.registry.read(lambda connection: desired_owners(connection, environment))
            done += align(self.client(), told)
            if self.registry.read(lambda connection: desired_owners(connection, environment)) == told:
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


log = logging.getLogger(__name__)

EVERY = 5.0
LONGEST = 60.0
LATE_FOR = 900.0
"""Seconds, by the monotonic clock, for which a tenant's time must be seen to be over before it is purged."""
LOOKS = 3


class Connected:
    """A client that is made when it is first needed, then kept; safe for several threads."""

    def __init__(self, make: Callable[[], AbstractContextManager[ConfigDBClient]]) -> None:
        self._make = make
        self._kept = ExitStack()
        self._lock = threading.Lock()
        self._client: ConfigDBClient | None = None

    def __call__(self) -> ConfigDBClient:
        """Return the client. Raises as what makes it."""
        with self._lock:
            if self._client is None:
                self._client = self._kept.enter_context(self._make())
            return self._client

    def close(self) -> None:
        """Give its connections back."""
        with self._lock:
            self._client = None
            self._kept.close()


def change_now(clock: Clock, actor: str, origin: str) -> ChangeInfo:
    """Return a change that is made now."""
    now = clock.now()
    return ChangeInfo(actor, origin, new_run_id(), int(now.timestamp()) * 1_000_000 + now.microsecond)


class Lateness:
    """What is irrevocable waits until it has been late for a while: a clock may be wrong until it is set.

    Used by one thread.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[str, tuple[float, int]] = {}

    def lasting(self, late: Mapping[str, int]) -> list[str]:
        """Return the names that were late at each of the last looks, of which this is one, for long enough.

        ``late`` says of each how long it had (microseconds): what had no time needs no proof that it is over.
        """
        now = self._clock.monotonic()
        seen = {name: self._seen.get(name, (now, 0)) for name in late}
        self._seen = {name: (first, looks + 1) for name, (first, looks) in seen.items()}
        return [
            name
            for name, (first, looks) in self._seen.items()
            if not late[name] or (looks >= LOOKS and now - first >= min(LATE_FOR, late[name] / 1_000_000))
        ]


def purge_due(registry: Registry, clock: Clock, actor: str, origin: str, lateness: Lateness | None = None) -> list[str]:
    """Purge all tenants whose time to be recovered is over; return them.

    ``lateness`` tells whose time is over beyond doubt; without it the clock is believed.
    """
    purged: list[str] = []
    while True:
        change = change_now(clock, actor, origin)
        late = registry.due(change.time)
        due = late if lateness is None else lateness.lasting(late)
        gone = [tenant for tenant in due if registry.purge(change, tenant)]
        if not gone:
            return purged
        purged += gone


class OutboxWorker:
    """A thread of the service's own. ``wake`` has it look at once; it looks from time to time anyway."""

    def __init__(self, registry: Registry, client: Connected, clock: Clock) -> None:
        self._registry = registry
        self._client = client
        self._clock = clock
        self._lateness = Lateness(clock)
        self._outbox = Outbox(registry, client, clock)
        self._woken = threading.Event()
        threading.Thread(target=self._run, name="following", daemon=True).start()

    def wake(self) -> None:
        """Take note that there is something to do."""
        self._woken.set()

    def check_movable(self) -> None:
        """Raise ``RefusalError``: 501 if this ConfigDB can't move definitions, 503 if it can't be asked whether."""
        check_movable(self._client)

    def _run(self) -> None:
        pause = 0.0
        while True:
            self._woken.wait(pause)
            self._woken.clear()
            pause = EVERY if self._once() else min(max(pause, EVERY) * 2, LONGEST)

    def _once(self) -> bool:
        """Do what there is to do; return whether all of it could be done."""
        try:
            purge_due(self._registry, self._clock, "service", "service", self._lateness)
            done = self._outbox.work_off()
        except BusyError:
            return True
        except ProductError as error:
            log.warning("what was to follow in ConfigDB waits: %s", error)
            return False
        except Exception:
            log.exception("a fault of the service's own")
            return False
        for one in done:
            if one.failure is not None:
                log.warning("environment %d in ConfigDB waits: %s", one.environment, one.failure)
        return not any(one.failure for one in done)


def check_movable(client: Callable[[], ConfigDBClient]) -> None:
    """Raise ``RefusalError`` 501, 503 unless ConfigDB says now that it can move definitions."""
    try:
        # Asked each time: what a process remembers of earlier calls decides nothing.
        kind = client().server_now()
    except ProductError as error:
        raise refuse(503, "ConfigDB can't be asked now whether it can move", ("Retry-After", "5")) from error
    if kind is ServerKind.LEGACY:
        raise refuse(
            501,
            "this ConfigDB (tuning-box 0.1.0) can't move resource definitions; nothing was moved:"
            " use the embedded server or a newer tuning-box",
        )
