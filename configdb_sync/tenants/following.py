"""The service's work behind the answers: tenants whose time is over are purged, and ConfigDB follows the registry."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack

from configdb_sync.clock import Clock, new_run_id
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.model import ServerKind
from configdb_sync.errors import BusyError, ProductError
from configdb_sync.tenants.outbox import Outbox
from configdb_sync.tenants.registry import Registry
from configdb_sync.tenants.rows import Change
from configdb_sync.web.refusals import refuse

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


def change_now(clock: Clock, actor: str, origin: str) -> Change:
    """Return a change that is made now."""
    now = clock.now()
    return Change(actor, origin, new_run_id(), int(now.timestamp()) * 1_000_000 + now.microsecond)


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


class Following:
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
