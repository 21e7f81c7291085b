"""The registry as its users see it: each method is one transaction, or reads (T1-T11)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from sqlalchemy import Connection

from configdb_sync import failpoints
from configdb_sync.store.database import Database
from configdb_sync.tenants import lifecycle, listing, locating, moving, owning
from configdb_sync.tenants.lifecycle import NO_CONDITIONS, Conditions
from configdb_sync.tenants.locating import Live, Moved
from configdb_sync.tenants.metadata import TenantBody
from configdb_sync.tenants.move_action import Item, MoveAction, Party, Summary
from configdb_sync.tenants.paths import Place
from configdb_sync.tenants.rows import Change, Holding, Resource, Tenant, Work, find_tenant, there
from configdb_sync.web.refusals import refuse

T = TypeVar("T")


class Registry:
    """Tenants and what they own. Safe for several threads; all state is in the database."""

    def __init__(self, database: Database, *, listed: int = 100) -> None:
        """``listed``: up to so many environments and data sources a move action lists them, else it gives a tag."""
        self.database = database
        self._listed = listed

    def close(self) -> None:
        """Give the database's connections back."""
        self.database.close()

    def read(self, work: Callable[[Connection], T]) -> T:
        """Return what ``work`` reads; each statement for itself."""
        return self.database.read(work)

    def write(self, change: Change, work: Callable[[Work], T]) -> T:
        """Return what ``work`` does in one transaction; it must bear being run again."""
        return self.database.write(lambda connection: work(Work(self.database, connection, change)), meeting=True)

    def tenant(self, tenant: str) -> Tenant:
        """Return a tenant. Raises ``RefusalError`` 404, 410."""
        return there(self.read(lambda connection: find_tenant(connection, tenant)), tenant)

    def tenant_rows(self, tenant: str, limit: int) -> listing.Values:
        """See ``listing.tenant_rows``."""
        return listing.tenant_rows(self.database, tenant, limit)

    def put(
        self,
        change: Change,
        tenant: str,
        body: TenantBody | None,
        conditions: Conditions = NO_CONDITIONS,
        *,
        updatable: bool = True,
    ) -> tuple[Tenant, bool]:
        """See ``lifecycle.put``."""
        return self.write(change, lambda work: lifecycle.put(work, tenant, body, conditions, updatable=updatable))

    def mark(self, change: Change, tenant: str, retention: int, conditions: Conditions = NO_CONDITIONS) -> None:
        """See ``lifecycle.mark``."""
        self.write(change, lambda work: lifecycle.mark(work, tenant, retention, conditions))
        failpoints.here("tenant-marked")

    def recover(self, change: Change, tenant: str) -> None:
        """See ``lifecycle.recover``."""
        self.write(change, lambda work: lifecycle.recover(work, tenant))

    def due(self, time: int) -> dict[str, int]:
        """See ``lifecycle.due``."""
        return self.read(lambda connection: lifecycle.due(connection, time))

    def purge(self, change: Change, tenant: str) -> bool:
        """See ``lifecycle.purge``."""
        purged = self.write(change, lambda work: lifecycle.purge(work, tenant))
        failpoints.here("tenant-purged")
        return purged

    def locate(self, place: Place) -> tuple[Tenant, Live | Moved]:
        """Return what is at an environment's or data source's path. Raises ``RefusalError`` 404, 410."""

        def work(connection: Connection) -> tuple[Tenant, Live | Moved]:
            tenant = there(find_tenant(connection, place.tenant), place.tenant)
            return tenant, locating.locate(connection, tenant, place)

        return self.read(work)

    def move_action(self, place: Place, destination: str) -> MoveAction:
        """Return what a move would touch. Raises ``RefusalError`` 301 (moved on), 400, 404, 410."""

        def work(connection: Connection) -> MoveAction:
            found = find_tenant(connection, place.tenant)
            return self._action(
                connection, place, there(found, place.tenant), find_tenant(connection, destination), destination
            )

        _refuse_same(place, destination)
        return self.read(work)

    def move(self, change: Change, place: Place, destination: str, conditions: Conditions = NO_CONDITIONS) -> Place:
        """Move what is at a place to another tenant and return its new place (T7, T8, T11).

        Raises ``RefusalError``: 301 if it moved on already, 400, 404, 409, 410, 412; nothing is moved then.
        """
        _refuse_same(place, destination)

        def work(work: Work) -> None:
            connection = work.connection
            tenant, target = moving.both(connection, place, destination)
            holding, resource = _live(connection, tenant, place, destination)
            target = there(target, destination)
            if conditions.match is not None or conditions.none_match is not None:
                conditions.check(*self._action(connection, place, tenant, target, destination).etags)
            moving.carry_out(work, place, (tenant, holding, resource), target)

        self.write(change, work)
        failpoints.here("tenant-moved")
        return place.under(destination)

    def _action(
        self, connection: Connection, place: Place, tenant: Tenant, target: Tenant | None, destination: str
    ) -> MoveAction:
        holding, resource = _live(connection, tenant, place, destination)
        parties = (_party(tenant), _party(there(target, destination)))
        return MoveAction(place, destination, parties, self._items(connection, tenant, holding, resource))

    def _items(
        self, connection: Connection, tenant: Tenant, holding: Holding | None, resource: Resource | None
    ) -> list[Item] | Summary:
        if resource is not None:
            return [_item(tenant, resource)]
        whole: Tenant | Holding = tenant if holding is None else holding
        summary = Summary(f"{whole.number}.{whole.created}.{whole.tag}", whole.counts)
        if whole.counts.size > self._listed:
            return summary
        held = [holding] if holding else listing.environments(connection, tenant.number, None, self._listed).items
        found: list[Item] = []
        for one in held:
            found.append(Item(Place(tenant.id, one.environment).path, one.status, one.home))
            sources = listing.resources(connection, one.number, None, self._listed + 1).items
            found += [_item(tenant, source) for source in sources]
            if len(found) > self._listed:
                return summary
        return found

    def home(self, environment: int) -> Tenant | None:
        """See ``owning.home_of``."""
        return self.read(lambda connection: owning.home_of(connection, environment))

    def settle_home(self, change: Change, environment: int, tenant: str) -> Tenant:
        """See ``owning.settle_home``."""
        return self.write(change, lambda work: owning.settle_home(work, environment, tenant))

    def own(self, change: Change, tenant: str, environment: int, sources: Mapping[str, int | None]) -> list[str]:
        """See ``owning.own``."""
        return self.write(change, lambda work: owning.own(work, tenant, environment, sources))

    def adopt(self, change: Change, tenant: str, environment: int, sources: Mapping[str, int | None]) -> list[str]:
        """See ``owning.adopt``."""
        return self.write(change, lambda work: owning.adopt(work, tenant, environment, sources))

    def tell(self, change: Change, environment: int, told: Mapping[str, owning.Told], run: str | None = None) -> int:
        """See ``owning.tell``."""
        return self.write(change, lambda work: owning.tell(work, environment, told, run))


def _live(
    connection: Connection, tenant: Tenant, place: Place, destination: str
) -> tuple[Holding | None, Resource | None]:
    """Return what is to be moved; both None for all of a tenant. Raises ``RefusalError`` 301, 404, 410."""
    if place.environment is None:
        return None, None
    found = locating.locate(connection, tenant, place)
    if isinstance(found, Live):
        return found.holding, found.resource
    owner = there(found.owner, found.owner.id)
    raise refuse(301, "it has been moved already", ("Location", place.under(owner.id).move_url(destination)))


def _refuse_same(place: Place, destination: str) -> None:
    if place.tenant == destination:
        raise refuse(400, "dest is the tenant that has it")


def _party(tenant: Tenant) -> Party:
    return Party(tenant.id, tenant.status, tenant.counts.size, tenant.metadata)


def _item(tenant: Tenant, resource: Resource) -> Item:
    return Item(Place(tenant.id, resource.environment, resource.name).path, resource.status)
