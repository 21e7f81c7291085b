"""The chain of status drivers (S6, S7): asked on GET, not too often, within a deadline; what differs is stored."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from configdb_sync.clock import Clock
from configdb_sync.store import schema
from configdb_sync.tenants import listing, owning
from configdb_sync.tenants.drivers import StatusContext, StatusDriver
from configdb_sync.tenants.following import change_now
from configdb_sync.tenants.guarded_driver import GuardedDriver
from configdb_sync.tenants.locating import Live
from configdb_sync.tenants.paths import Place
from configdb_sync.tenants.registry import Registry
from configdb_sync.tenants.rows import Holding, Resource, State, Tenant
from configdb_sync.tenants.status import cut
from configdb_sync.tenants.turns import Turns
from configdb_sync.web.refusals import RefusalError

log = logging.getLogger(__name__)

MOST = 500
"""Data sources that one GET of an environment or tenant asks for; the rest is told by who pushes."""
BREAK = 30.0
"""Seconds for which a driver that failed or hung isn't asked."""
_REMEMBERED = 100_000


class Chain:
    """Asks the drivers in order. Safe for several threads. ``max_age``: seconds in which the same isn't asked again."""

    asks = True

    def __init__(self, registry: Registry, drivers: Mapping[str, StatusDriver], clock: Clock, max_age: float) -> None:
        self._registry = registry
        self._drivers = {name: GuardedDriver(driver) for name, driver in drivers.items()}
        self._clock = clock
        self._max_age = max_age
        self._turns = Turns(registry.database, clock)
        self._lock = threading.Lock()
        self._asked: dict[Place, tuple[float, bool]] = {}
        self._open: dict[str, float] = {}
        self.failures: Counter[str] = Counter()

    def refresh(self, place: Place) -> bool:
        """Bring the stored status of a place up to date; return False if ConfigDB couldn't be asked.

        Nothing is raised: what fails is logged and counted, and the stored status holds (S7).
        """
        now = self._clock.monotonic()
        # Without the lock, which every request would wait for: one read of a dictionary is whole in itself.
        known = self._asked.get(place)
        if known is not None and now - known[0] < self._max_age:
            return known[1]
        with self._lock:
            known = self._asked.get(place)
            if known is not None and now - known[0] < self._max_age:
                return known[1]
            if len(self._asked) >= _REMEMBERED:
                self._asked.clear()
            # Noted before, so that of many GETs at once one asks.
            self._asked[place] = (now, True if known is None else known[1])
        fresh, since = True, 0.0
        try:
            fresh, since = self._in_turn(place)
        except RefusalError:
            pass  # it is gone; the GET itself says so
        except Exception:
            log.exception("the status of tenant %r %s couldn't be brought up to date", place.tenant, place.path)
            with self._lock:
                self.failures["chain"] += 1
        with self._lock:
            self._asked[place] = (now - since, fresh)
        return fresh

    def _in_turn(self, place: Place) -> tuple[bool, float]:
        """Ask unless another process has of late; return whether all could be asked, and how many seconds ago."""
        if not self._max_age:
            return self._refresh(place), 0.0
        if place.environment is None:
            self._registry.tenant(place.tenant)  # what isn't there takes no turn
        else:
            self._registry.locate(place)
        turn = self._turns.take(place, self._max_age)
        if not turn.mine:
            return turn.fresh, turn.since
        fresh = self._refresh(place)
        if fresh is not turn.fresh:
            self._turns.tell(place, fresh=fresh)
        return fresh, 0.0

    def _refresh(self, place: Place) -> bool:
        if place.environment is None:
            tenant = self._registry.tenant(place.tenant)
            page = self._registry.read(lambda one: listing.all_resources(one, tenant.number, None, MOST))
            fresh = self._sources(place, page.items)
            return self._whole(place, self._registry.tenant(place.tenant), "tenant") and fresh
        _, found = self._registry.locate(place)
        if not isinstance(found, Live):
            return True
        if found.resource is not None:
            return self._sources(place, [found.resource])
        number = found.holding.number
        page = self._registry.read(lambda one: listing.resources(one, number, None, MOST))
        fresh = self._sources(place, page.items)
        _, found = self._registry.locate(place)
        return not isinstance(found, Live) or (self._whole(place, found.holding, "environment") and fresh)

    def _sources(self, place: Place, sources: Any) -> bool:
        changed: dict[int, dict[str, tuple[Resource, StatusContext]]] = {}
        before = [
            StatusContext(
                Place(place.tenant, source.environment, source.name),
                source.status,
                source.details,
                source.definition,
                source.run,
            )
            for source in sources
        ]
        told, fresh = self._ask(before, "data_source")
        for source, after in zip(sources, told, strict=True):
            if (after.status, cut(after.details)) != (source.status, source.details):
                changed.setdefault(source.environment, {})[source.name] = (source, after)
        for environment, found in changed.items():
            self._store(environment, found)
        return fresh

    def _store(self, environment: int, told: dict[str, tuple[Resource, StatusContext]]) -> None:
        change = change_now(self._clock, "status drivers", "service")

        found = {name: (after.status, after.details) for name, (_, after) in told.items()}
        # Only over what was read: a push meanwhile knows better.
        read = {name: source.version for name, (source, _) in told.items()}
        self._registry.write(change, lambda work: owning.tell(work, environment, found, only=read))

    def _whole(self, place: Place, state: State, kind: str) -> bool:
        """Ask of a tenant or an environment itself, beyond what follows from its data sources."""
        before = StatusContext(place, state.status, state.details)
        (after,), fresh = self._ask([before], kind)
        if (after.status, cut(after.details)) != (state.status, state.details):
            table = schema.TENANTS if isinstance(state, Tenant) else schema.HOLDINGS
            assert isinstance(state, (Tenant, Holding))
            values = {
                "status": None if after.status is None else after.status.value,
                "status_details": cut(after.details),
                "version": table.c.version + 1,
                "tag": table.c.tag + int(after.status != state.status),
            }
            same = sa.and_(table.c.number == state.number, table.c.version == state.version)
            statement = sa.update(table).where(same).values(values)
            self._registry.database.write(lambda connection: connection.execute(statement))
        return fresh

    def _ask(self, contexts: Sequence[StatusContext], kind: str) -> tuple[Sequence[StatusContext], bool]:
        """Return the chain's last words, and whether ConfigDB could be asked."""
        fresh = True
        for name, driver in self._drivers.items():
            if not contexts:
                break
            if self._clock.monotonic() < self._open.get(name, 0.0):
                fresh = fresh and driver.local
                continue
            told, fault = driver.ask(kind, contexts)
            if fault is not None:
                failed = contexts[min(len(told), len(contexts) - 1)].place
                with self._lock:
                    self.failures[name] += 1
                self._open[name] = self._clock.monotonic() + BREAK
                fresh = fresh and driver.local
                where = f"tenant {failed.tenant!r} {failed.path}".rstrip()
                log.warning("status driver %s failed for %s, isn't asked for %.0f s: %s", name, where, BREAK, fault)
            contexts = [*told, *contexts[len(told) :]]
        return contexts, fresh
