"""The chain of status drivers (S6, S7): asked on GET, not too often, within a deadline; differences are stored."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa
from sqlalchemy import Connection

from configdb_sync.clock import Clock
from configdb_sync.store import tenant_schema
from configdb_sync.store.database import Database
from configdb_sync.tenants import queries
from configdb_sync.tenants.ownership import Report
from configdb_sync.tenants.paths import ResourcePath
from configdb_sync.tenants.queries import Located
from configdb_sync.tenants.registry import Registry
from configdb_sync.tenants.rows import Holding, Resource, StatusRow, Tenant, change_now, microseconds
from configdb_sync.tenants.status import cut
from configdb_sync.tenants.status_drivers import GuardedDriver, StatusContext, StatusDriver
from configdb_sync.web.refusals import RefusalError

log = logging.getLogger(__name__)

MOST = 500
"""Data sources that one GET of an environment or tenant asks for; the others are reported by runs."""
BREAK = 30.0
"""Seconds for which a driver isn't asked after it failed or hung."""
_REMEMBERED = 100_000


class Chain:
    """Asks the drivers in order. Thread-safe. ``max_age``: seconds for which an answer is used again."""

    def __init__(self, registry: Registry, drivers: Mapping[str, StatusDriver], clock: Clock, max_age: float) -> None:
        self._registry = registry
        self._drivers = {name: GuardedDriver(driver) for name, driver in drivers.items()}
        self._clock = clock
        self._max_age = max_age
        self._turns = PollThrottle(registry.database, clock)
        self._lock = threading.Lock()
        self._asked: dict[ResourcePath, tuple[float, bool]] = {}
        self._open: dict[str, float] = {}
        self.failures: Counter[str] = Counter()

    def refresh(self, place: ResourcePath) -> bool:
        """Update the stored status of a path; return False if ConfigDB was unavailable.

        Nothing is raised: failures are logged and counted, and the stored status stays valid (S7).
        """
        now = self._clock.monotonic()
        # Without the lock, which every request would wait for: reading a dictionary is atomic.
        known = self._asked.get(place)
        if known is not None and now - known[0] < self._max_age:
            return known[1]
        with self._lock:
            known = self._asked.get(place)
            if known is not None and now - known[0] < self._max_age:
                return known[1]
            if len(self._asked) >= _REMEMBERED:
                self._asked.clear()
            # Set before asking, so that only one of many concurrent GETs asks.
            self._asked[place] = (now, True if known is None else known[1])
        fresh, since = True, 0.0
        try:
            fresh, since = self._in_turn(place)
        except RefusalError:
            pass  # it no longer exists; the GET itself reports that
        except Exception:
            log.exception("the status of tenant %r %s couldn't be brought up to date", place.tenant, place.path)
            with self._lock:
                self.failures["chain"] += 1
        with self._lock:
            self._asked[place] = (now - since, fresh)
        return fresh

    def _in_turn(self, place: ResourcePath) -> tuple[bool, float]:
        """Ask unless another process did recently; return whether all was available, and how many seconds ago."""
        if not self._max_age:
            return self._refresh(place), 0.0
        if place.environment is None:
            self._registry.tenant(place.tenant)  # a path that doesn't exist takes no turn
        else:
            self._registry.locate(place)
        turn = self._turns.take(place, self._max_age)
        if not turn.mine:
            return turn.fresh, turn.since
        fresh = self._refresh(place)
        if fresh is not turn.fresh:
            self._turns.tell(place, fresh=fresh)
        return fresh, 0.0

    def _refresh(self, place: ResourcePath) -> bool:
        if place.environment is None:
            tenant = self._registry.tenant(place.tenant)
            page = self._registry.read(lambda one: queries.all_resources(one, tenant.number, None, MOST))
            fresh = self._sources(place, page.items)
            return self._whole(place, self._registry.tenant(place.tenant), "tenant") and fresh
        _, found = self._registry.locate(place)
        if not isinstance(found, Located):
            return True
        if found.resource is not None:
            return self._sources(place, [found.resource])
        number = found.holding.number
        page = self._registry.read(lambda one: queries.resources(one, number, None, MOST))
        fresh = self._sources(place, page.items)
        _, found = self._registry.locate(place)
        return not isinstance(found, Located) or (self._whole(place, found.holding, "environment") and fresh)

    def _sources(self, place: ResourcePath, sources: Sequence[Resource]) -> bool:
        before = []
        for source in sources:
            path = ResourcePath(place.tenant, source.environment, source.name)
            before.append(StatusContext(path, source.status, source.details, source.definition, source.run))
        answers, fresh = self._ask(before, "data_source")
        changed: dict[int, dict[str, Report]] = defaultdict(dict)
        # Only over what was read: what a run reported meanwhile is newer.
        read: dict[int, dict[str, int]] = defaultdict(dict)
        for source, after in zip(sources, answers, strict=True):
            if (after.status, cut(after.details)) != (source.status, source.details):
                changed[source.environment][source.name] = (after.status, after.details)
                read[source.environment][source.name] = source.version
        for environment, reports in changed.items():
            change = change_now(self._clock, "status drivers", "service")
            self._registry.tell(change, environment, reports, only=read[environment])
        return fresh

    def _whole(self, place: ResourcePath, state: StatusRow, kind: str) -> bool:
        """Ask for a tenant or an environment itself, beyond what follows from its data sources."""
        before = StatusContext(place, state.status, state.details)
        (after,), fresh = self._ask([before], kind)
        if (after.status, cut(after.details)) != (state.status, state.details):
            table = tenant_schema.TENANTS if isinstance(state, Tenant) else tenant_schema.HOLDINGS
            assert isinstance(state, (Tenant, Holding))
            values = {
                "status": after.status,
                "status_details": cut(after.details),
                "version": table.c.version + 1,
                "tag": table.c.tag + int(after.status != state.status),
            }
            same = sa.and_(table.c.number == state.number, table.c.version == state.version)
            statement = sa.update(table).where(same).values(values)
            self._registry.database.write(lambda connection: connection.execute(statement))
        return fresh

    def _ask(self, contexts: Sequence[StatusContext], kind: str) -> tuple[Sequence[StatusContext], bool]:
        """Return the result of the chain, and whether ConfigDB was available."""
        fresh = True
        for name, driver in self._drivers.items():
            if not contexts:
                break
            if self._clock.monotonic() < self._open.get(name, 0.0):
                fresh = fresh and driver.local
                continue
            answers, fault = driver.ask(kind, contexts)
            if fault is not None:
                failed = contexts[min(len(answers), len(contexts) - 1)].place
                with self._lock:
                    self.failures[name] += 1
                self._open[name] = self._clock.monotonic() + BREAK
                fresh = fresh and driver.local
                where = f"tenant {failed.tenant!r} {failed.path}".rstrip()
                log.warning("status driver %s failed for %s, isn't asked for %.0f s: %s", name, where, BREAK, fault)
            contexts = [*answers, *contexts[len(answers) :]]
        return contexts, fresh


_TURNS = tenant_schema.STATUS_TURNS
_SECOND = 1_000_000
_AHEAD = 60 * _SECOND
"""A time further ahead than clocks of masters differ was stored before a clock was set back."""
_KEPT = 3600.0


@dataclass(frozen=True)
class PollTurn:
    """A turn to ask the drivers.

    ``mine``: this process is to ask now; else the answer is ``since`` seconds old. ``fresh``: whether all sources were
    available at the last question.
    """

    mine: bool
    fresh: bool
    since: float = 0.0


@dataclass
class PollThrottle:
    """Lets one of all processes on a registry ask for a path, at most once in some seconds (S6). Thread-safe.

    The table has a row for each path that was asked for recently. Each process has its own memory in front of it
    (``Chain``), so that the registry, too, is asked once in these seconds.
    """

    database: Database
    clock: Clock
    _pruned: float = field(default=0.0, repr=False)

    def take(self, place: ResourcePath, max_age: float) -> PollTurn:
        """Return whose turn it is for a path; if it is this process's, record that it asks."""
        now, key = microseconds(self.clock), _key(place)
        old = sa.or_(_TURNS.c.asked <= now - int(max_age * _SECOND), _TURNS.c.asked > now + _AHEAD)
        statement = self.database.insert(_TURNS).values(place=key, asked=now)
        statement = statement.on_conflict_do_update(index_elements=["place"], set_={"asked": now}, where=old)
        self._prune(max(max_age, _KEPT))

        def work(connection: Connection) -> PollTurn:
            given = connection.execute(statement.returning(_TURNS.c.fresh)).first()
            if given is not None:
                return PollTurn(mine=True, fresh=bool(given.fresh))
            row = connection.execute(sa.select(_TURNS).where(_TURNS.c.place == key)).first()
            if row is None:
                return PollTurn(mine=True, fresh=True)
            return PollTurn(mine=False, fresh=bool(row.fresh), since=max(0.0, (now - row.asked) / _SECOND))

        return self.database.write(work)

    def tell(self, place: ResourcePath, *, fresh: bool) -> None:
        """Record whether all sources were available."""
        statement = sa.update(_TURNS).where(_TURNS.c.place == _key(place)).values(fresh=fresh)
        self.database.write(lambda connection: connection.execute(statement))

    def _prune(self, kept: float) -> None:
        if self.clock.monotonic() - self._pruned < _KEPT:
            return
        self._pruned = self.clock.monotonic()
        statement = sa.delete(_TURNS).where(_TURNS.c.asked < microseconds(self.clock) - int(kept * _SECOND))
        self.database.write(lambda connection: connection.execute(statement))


def _key(place: ResourcePath) -> str:
    return hashlib.sha256(place.url.encode("ascii")).hexdigest()
