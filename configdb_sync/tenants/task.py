"""The registry as a run uses it: it creates the home tenant, registers data sources and reports their status (S8)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import sqlalchemy as sa
from sqlalchemy import Connection

from configdb_sync.clock import Clock
from configdb_sync.errors import ProductError
from configdb_sync.store import tenant_schema
from configdb_sync.store.runs import PastRuns
from configdb_sync.store.states import source_states
from configdb_sync.tenants import ownership, paths
from configdb_sync.tenants.registry import Registry
from configdb_sync.tenants.rows import Work, change_now, find_tenant
from configdb_sync.tenants.status import Status
from configdb_sync.web.refusals import RefusalError, shown

log = logging.getLogger(__name__)

_KEPT = 1.0
"""Seconds for which a run uses the owners that it read: its many documents need one query."""


@dataclass
class TaskOwners:
    """``Owners`` over the registry, for one run. ``author``: who runs it. Thread-safe."""

    registry: Registry
    clock: Clock
    author: str
    _run: str | None = None
    _cached: tuple[float, frozenset[str], dict[str, str]] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def home(self, environment: int, recorded: str | None, setting: str) -> str:
        """Return the home in the registry; else the recorded one unless it was purged; else the setting."""
        found = self.registry.home(environment)
        if found is not None:
            return found.id
        if recorded is None or self._purged(recorded):
            return setting
        return recorded

    def _purged(self, tenant: str) -> bool:
        audit = tenant_schema.AUDIT

        def work(connection: Connection) -> bool:
            if find_tenant(connection, tenant) is not None:
                return False
            gone = sa.select(audit.c.number).where(audit.c.tenant == tenant, audit.c.action == "purge").limit(1)
            return connection.execute(gone).first() is not None

        return self.registry.read(work)

    def check(self, environment: int, data_source: str, home: str) -> None:
        """Raise ``ProductError`` if the owner is marked for deletion, or the name is impossible."""
        paths.data_source(data_source)
        now = self.clock.monotonic()
        with self._lock:
            if self._cached is None or now - self._cached[0] > _KEPT:
                self._cached = (now, *self._owners(environment))
            _, marked, owned = self._cached
        owner = owned.get(data_source, home)
        if owner in marked:
            raise ProductError(
                f"tenant {shown(owner)}, which owns it, is marked for deletion",
                way_out="recover the tenant, or move the data source before it is deleted",
            )

    def _owners(self, environment: int) -> tuple[frozenset[str], dict[str, str]]:
        tenants, holdings, resources = tenant_schema.TENANTS, tenant_schema.HOLDINGS, tenant_schema.RESOURCES
        owners = (
            sa.select(resources.c.name, tenants.c.id)
            .join(holdings, holdings.c.number == resources.c.holding)
            .join(tenants, tenants.c.number == holdings.c.tenant)
            .where(resources.c.environment == environment)
        )
        marked = sa.select(tenants.c.id).where(tenants.c.deleted.is_not(None))
        return self.registry.read(
            lambda connection: (
                frozenset(connection.scalars(marked)),
                {row.name: row.id for row in connection.execute(owners)},
            )
        )

    def made(self, environment: int, home: str, definitions: Mapping[str, int]) -> None:
        """Create the home tenant if necessary, and register the data sources that nobody owns yet."""
        taken: dict[str, int | None] = {}
        for name, number in definitions.items():
            try:
                taken[paths.data_source(name)] = number
            except RefusalError:
                continue

        if self.registry.read(lambda connection: ownership.is_registered(connection, environment, taken)):
            return

        def work(work: Work) -> None:
            settled = ownership.settle_home(work, environment, home)
            if settled.deleted is None:
                new = ownership.register(work, settled.id, environment, taken)
                if self._run is not None:
                    ownership.set_status(work, environment, self._build(new), self._run)

        self.registry.write(change_now(self.clock, self.author, "run"), work)

    def begins(self, environment: int, run: str) -> None:
        """Report BUILD for all data sources of the environment; a failure here doesn't stop the run."""
        self._run = run
        self._tell(environment)

    def ended(self, environment: int) -> None:
        """Report ACTIVE or ERROR as the run recorded it; a data source without a record has no status."""
        self._run = None
        self._tell(environment)

    def _build(self, sources: Iterable[str]) -> dict[str, ownership.Report]:
        return dict.fromkeys(sources, (Status.BUILD, f"run {self._run} is at work"))

    def _tell(self, environment: int) -> None:
        try:
            listed = dict(self.registry.read(lambda connection: ownership.owned(connection, environment)))
            reports = self._build(listed)
            if self._run is None:
                past = PastRuns(self.registry.database, self.clock)
                states = source_states(self.registry.database, past, environment)
                for name in listed:
                    state = states.get(name)
                    reports[name] = (Status[state.state.name], state.details or None) if state else (None, None)
            change = change_now(self.clock, self.author, "run")
            self.registry.tell(change, environment, reports, self._run)
        except ProductError as error:
            log.warning("the status of environment %d could not be stored: %s", environment, error)
