"""ConfigDB follows the registry: changes add entries to the outbox, and one worker at a time handles them in order.

The service's worker also purges tenants that can't be recovered any more.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from configdb_sync import failpoints
from configdb_sync.clock import Clock, new_request_id
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.model import ServerKind
from configdb_sync.errors import BusyError, ProductError, UnsupportedError
from configdb_sync.store import tenant_schema
from configdb_sync.store.lease import Lease, process_exists
from configdb_sync.tenants.reconcile import align, desired_owners, purge
from configdb_sync.tenants.registry import Registry
from configdb_sync.tenants.rows import PURGE, change_now
from configdb_sync.web.refusals import refuse

log = logging.getLogger(__name__)

OUTBOX = tenant_schema.OUTBOX
EVERY, LONGEST = 5.0, 60.0
"""Seconds between two looks at the outbox; after failures they grow to the second number."""
LATE_FOR = 900.0
"""Seconds, by the monotonic clock, for which a tenant must be seen as overdue before it is purged."""
LOOKS = 3


@dataclass(frozen=True)
class Done:
    """The result of one entry: what was done, or why the entry stays."""

    environment: int
    actions: tuple[str, ...]
    failure: str | None = None


@dataclass
class Outbox:
    """Handles the entries of the outbox. Used by one thread at a time; others may have their own."""

    registry: Registry
    client: Callable[[], ConfigDBClient]
    clock: Clock

    def waiting(self) -> int:
        """Return the number of entries."""
        statement = sa.select(sa.func.count()).select_from(OUTBOX)
        return self.registry.read(lambda connection: int(connection.execute(statement).scalar_one()))

    def work_off(self) -> list[Done]:
        """Handle all entries; one that fails stays, with its environment's later ones.

        Raises ``BusyError`` if another process handles them.
        """
        if not self.waiting():
            return []
        host = socket.gethostname()
        holder = f"{host}/{os.getpid()}/{new_request_id()}"
        lease = Lease(self.registry.database, "outbox", holder, host, self.clock, _has_ended, by_clock=True)
        other = lease.try_take()
        if other is not None:
            raise BusyError(f"{other.holder} is bringing ConfigDB in step", way_out="it will be done by that one")
        with lease.kept():
            return self._all(lease)

    def _all(self, lease: Lease) -> list[Done]:
        done: list[Done] = []
        last, stuck = 0, set[int]()
        while True:
            following = sa.select(OUTBOX).where(OUTBOX.c.number > last, OUTBOX.c.environment.not_in(stuck))
            following = following.order_by(OUTBOX.c.number).limit(1)
            row = self.registry.read(lambda connection, query=following: connection.execute(query).first())  # type: ignore[misc]
            if row is None:
                return done
            last = row.number
            lease.check()
            found = self._one(row)
            done.append(found)
            if found.failure is not None:
                stuck.add(row.environment)

    def _one(self, row: Any) -> Done:
        actions: list[str] = []
        failure = None
        try:
            if row.kind == PURGE:
                actions = purge(self.client(), row.environment, json.loads(row.body))
            else:
                actions = self.aligned(row.environment)
        except UnsupportedError as error:
            # This server never will: the definitions stay usable where they are.
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
        """Bring one environment in step and return what was done; repeat while the registry changes."""
        done: list[str] = []
        while True:
            desired = self.registry.read(lambda connection: desired_owners(connection, environment))
            done += align(self.client(), desired)
            if self.registry.read(lambda connection: desired_owners(connection, environment)) == desired:
                return done

    def environments(self) -> list[int]:
        """Return all environments that the registry knows."""
        statement = (
            sa.select(tenant_schema.HOLDINGS.c.environment).distinct().order_by(tenant_schema.HOLDINGS.c.environment)
        )
        return self.registry.read(lambda connection: list(connection.scalars(statement)))


def _has_ended(holder: str) -> bool:
    return not process_exists(int(holder.rsplit("/", 2)[1]))


class Connected:
    """A client that is created when first needed. Thread-safe."""

    def __init__(self, make: Callable[[], AbstractContextManager[ConfigDBClient]]) -> None:
        self._make = make
        self._stack = ExitStack()
        self._lock = threading.Lock()
        self._client: ConfigDBClient | None = None

    def __call__(self) -> ConfigDBClient:
        """Return the client. Raises what creating it raises."""
        with self._lock:
            if self._client is None:
                self._client = self._stack.enter_context(self._make())
            return self._client

    def close(self) -> None:
        """Close its connections."""
        with self._lock:
            self._client = None
            self._stack.close()


class Lateness:
    """Delays a purge, which is irrevocable, until the tenant was overdue for a while: a clock may be wrong at first.

    Used by one thread.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[str, tuple[float, int]] = {}

    def lasting(self, late: Mapping[str, int]) -> list[str]:
        """Return the names that were late at each of the last looks, including this one, for long enough.

        ``late``: for how long each could be recovered (microseconds); one that never could is returned at once.
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
    """Purge all tenants that can't be recovered any more; return them.

    ``lateness`` says which are certainly overdue; without it the clock decides.
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
    """A thread of the service. ``wake`` makes it look at once; it also looks periodically."""

    def __init__(self, registry: Registry, client: Connected, clock: Clock) -> None:
        self._registry = registry
        self._client = client
        self._clock = clock
        self._lateness = Lateness(clock)
        self._outbox = Outbox(registry, client, clock)
        self._woken = threading.Event()
        threading.Thread(target=self._run, name="following", daemon=True).start()

    def wake(self) -> None:
        """Look at once: there is something to do."""
        self._woken.set()

    def check_movable(self) -> None:
        """Raise ``RefusalError``: 501 if this ConfigDB can't move definitions, 503 if that is unknown."""
        check_movable(self._client)

    def _run(self) -> None:
        pause = 0.0
        while True:
            self._woken.wait(pause)
            self._woken.clear()
            pause = EVERY if self._once() else min(max(pause, EVERY) * 2, LONGEST)

    def _once(self) -> bool:
        """Handle what is due; return whether all of it succeeded."""
        try:
            purge_due(self._registry, self._clock, "service", "service", self._lateness)
            done = self._outbox.work_off()
        except BusyError:
            return True
        except ProductError as error:
            log.warning("changes for ConfigDB wait: %s", error)
            return False
        except Exception:
            log.exception("a fault of the service's own")
            return False
        for one in done:
            if one.failure is not None:
                log.warning("changes of environment %d for ConfigDB wait: %s", one.environment, one.failure)
        return not any(one.failure for one in done)


def check_movable(client: Callable[[], ConfigDBClient]) -> None:
    """Raise ``RefusalError`` 501, 503 unless ConfigDB says now that it can move definitions."""
    try:
        # Asked each time: an earlier answer may be outdated.
        kind = client().server_now()
    except ProductError as error:
        raise refuse(503, "ConfigDB can't be asked now whether it can move", ("Retry-After", "5")) from error
    if kind is ServerKind.LEGACY:
        raise refuse(
            501,
            "this ConfigDB (tuning-box 0.1.0) can't move resource definitions; nothing was moved:"
            " use the embedded server or a newer tuning-box",
        )
