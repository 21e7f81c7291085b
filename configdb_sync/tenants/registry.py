"""The registry: tenants and what they own (T1-T11).

Its methods that change something take a ``ChangeInfo`` and are one transaction each. They are put together from the
functions of ``lifecycle``, ``ownership`` and ``moves``, which do the work within a transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection

from configdb_sync import failpoints
from configdb_sync.store.database import Database
from configdb_sync.store.opening import open_store
from configdb_sync.tenants import lifecycle, moves, ownership, queries
from configdb_sync.tenants.moves import MoveAction
from configdb_sync.tenants.paths import ResourcePath
from configdb_sync.tenants.queries import Located, Moved
from configdb_sync.tenants.rows import ChangeInfo, Tenant, Work, find_tenant, require_tenant
from configdb_sync.web.refusals import RefusalError, refuse
from configdb_sync.web.requests import Preconditions

T = TypeVar("T")
P = ParamSpec("P")


def _transaction(
    function: Callable[Concatenate[Work, P], T], after: Callable[[], None] = lambda: None
) -> Callable[Concatenate[Registry, ChangeInfo, P], T]:
    """Return a method that runs a function in one transaction; ``after`` is called when it has ended."""

    def run(registry: Registry, change: ChangeInfo, /, *arguments: P.args, **options: P.kwargs) -> T:
        result = registry.write(change, lambda work: function(work, *arguments, **options))
        after()
        return result

    return run


def _query(function: Callable[Concatenate[Connection, P], T]) -> Callable[Concatenate[Registry, P], T]:
    """Return a method that reads."""

    def run(registry: Registry, /, *arguments: P.args, **options: P.kwargs) -> T:
        return registry.read(lambda connection: function(connection, *arguments, **options))

    return run


class Registry:
    """Tenants and what they own. Thread-safe; all state is in the database."""

    def __init__(self, database: Database, *, listed: int = 100) -> None:
        """``listed``: a move action lists up to so many environments and data sources; for more it has a tag."""
        self.database = database
        self._listed = listed

    def close(self) -> None:
        """Release the database's connections."""
        self.database.close()

    def read(self, work: Callable[[Connection], T]) -> T:
        """Return what ``work`` reads, without a transaction around its statements."""
        return self.database.read(work)

    def write(self, change: ChangeInfo, work: Callable[[Work], T]) -> T:
        """Return the result of ``work``, done in one transaction; it may be run more than once."""
        return self.database.write(lambda connection: work(Work(self.database, connection, change)), meeting=True)

    def tenant(self, tenant: str) -> Tenant:
        """Return a tenant. Raises ``RefusalError`` 404, 410."""
        return require_tenant(self.read(lambda connection: find_tenant(connection, tenant)), tenant)

    def tenant_rows(self, tenant: str, limit: int) -> queries.Values:
        """See ``queries.tenant_rows``."""
        return queries.tenant_rows(self.database, tenant, limit)

    def locate(self, place: ResourcePath) -> tuple[Tenant, Located | Moved]:
        """Return what an environment's or data source's path names. Raises ``RefusalError`` 404, 410."""

        def work(connection: Connection) -> tuple[Tenant, Located | Moved]:
            tenant = require_tenant(find_tenant(connection, place.tenant), place.tenant)
            return tenant, queries.locate(connection, tenant, place)

        return self.read(work)

    def move_action(self, place: ResourcePath, destination: str) -> MoveAction:
        """Return what a move would affect. Raises ``RefusalError`` 301 (already moved), 400, 404, 410."""
        return self.read(lambda connection: moves.move_action(connection, place, destination, self._listed))

    def move(
        self,
        change: ChangeInfo,
        place: ResourcePath,
        destination: str,
        conditions: Preconditions = lifecycle.NO_CONDITIONS,
    ) -> ResourcePath:
        """Move what a path names to another tenant and return its new path (T7, T8, T11).

        Raises ``RefusalError``: 301 if it was already moved, 400, 404, 409, 410, 412; nothing is moved then.
        """
        self.write(change, lambda work: moves.move(work, place, destination, conditions, self._listed))
        failpoints.here("tenant-moved")
        return place.under(destination)

    put = _transaction(lifecycle.put)
    mark = _transaction(lifecycle.mark, lambda: failpoints.here("tenant-marked"))
    recover = _transaction(lifecycle.recover)
    purge = _transaction(lifecycle.purge, lambda: failpoints.here("tenant-purged"))
    due = _query(lifecycle.due)

    home = _query(ownership.home_of)
    settle_home = _transaction(ownership.settle_home)
    own = _transaction(ownership.register)
    adopt = _transaction(ownership.adopt)
    tell = _transaction(ownership.set_status)


def open_registry(url: str, *, connections: int = 8) -> Database:
    """Return the database at a URL, the registry's tables up to date; ``StateError`` if it can't be used."""
    return open_store(url, connections=connections, unavailable=_unavailable)


def _unavailable() -> RefusalError:
    # The driver's own text may hold the database's address and parameters: not for a client.
    return refuse(503, "the registry's database can't be used now", ("Retry-After", "5"))
