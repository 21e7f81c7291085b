"""A tenant's life (T4-T6): made, changed, marked for deletion, recovered, purged. Each is one transaction's work."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import Connection

from configdb_sync import failpoints
from configdb_sync.entity_tags import Tags
from configdb_sync.store import schema
from configdb_sync.store.database import Database
from configdb_sync.tenants import moves, ownership, queries, rows
from configdb_sync.tenants.moves import Item, MoveAction, Party, Summary
from configdb_sync.tenants.paths import Place
from configdb_sync.tenants.queries import Live, Moved
from configdb_sync.tenants.refusals import refuse, shown
from configdb_sync.tenants.representations import TenantBody
from configdb_sync.tenants.rows import (
    Change,
    Holding,
    Resource,
    Tenant,
    Work,
    find_tenant,
    locked,
    note,
    post,
    tenant_of,
    there,
)

TENANTS = schema.TENANTS
PURGE = "purge"


@dataclass(frozen=True)
class Conditions:
    """If-Match and If-None-Match of a request; None where it has no such header."""

    match: Tags | None = None
    none_match: Tags | None = None

    def check(self, *current: str) -> None:
        """Raise ``TenantRefusal`` 412 unless a change of what has these tags (none: it isn't there) may be made."""
        if not (rows.matches(self.match, *current) and rows.none_matches(self.none_match, *current)):
            raise refuse(412, "it has changed, or is there, since the ETag in the condition")


NO_CONDITIONS = Conditions()


def put(
    work: Work,
    tenant: str,
    body: TenantBody | None,
    conditions: Conditions = NO_CONDITIONS,
    *,
    updatable: bool = True,
) -> tuple[Tenant, bool]:
    """Make a tenant, or change its metadata; return it and whether it was made (T4).

    ``body`` None: the request had none. Raises ``TenantRefusal``: 400 for another status than the stored one, 409 for
    what can't be changed, 412.
    """
    made = _insert(work, tenant, body, conditions, updatable=updatable)
    if made is not None:
        return made, True
    found = locked(work.connection, [tenant]).get(tenant)
    if found is None:
        raise refuse(409, f"tenant {shown(tenant)} was purged this moment; try again", ("Retry-After", "1"))
    if found.deleted is not None:
        raise refuse(409, f"tenant {shown(tenant)} is marked for deletion; recover it, or wait until it is purged")
    conditions.check(found.etag)
    if body is None:
        raise refuse(409, f"there is a tenant {shown(tenant)} already; a body would modify it")
    if not found.updatable:
        raise refuse(409, f"tenant {shown(tenant)} can't be modified")
    _refuse_status(body.told, None if found.status is None else found.status.shown, found.details)
    if body.metadata == found.metadata:
        return found, False
    work.connection.execute(
        sa.update(TENANTS)
        .where(TENANTS.c.number == found.number)
        .values(
            metadata=json.dumps(body.metadata),
            version=TENANTS.c.version + 1,
            tag=TENANTS.c.tag + 1,
            updated=work.time,
        )
    )
    note(work, tenant, "", "modify", before=found.metadata, after=body.metadata)
    return locked(work.connection, [tenant])[tenant], False


def _insert(
    work: Work,
    tenant: str,
    body: TenantBody | None,
    conditions: Conditions,
    *,
    updatable: bool,
) -> Tenant | None:
    """Make the tenant and return it; None if it is there."""
    values = {
        "id": tenant,
        "metadata": json.dumps({} if body is None else body.metadata),
        "updatable": updatable,
        "created": work.time,
        "updated": work.time,
    }
    if work.connection.execute(sa.select(TENANTS.c.number).where(TENANTS.c.id == tenant)).first() is not None:
        return None
    conditions.check()
    if body is not None:
        _refuse_status(body.told, None, None)
    statement = work.database.insert(TENANTS).values(values).on_conflict_do_nothing().returning(TENANTS)
    row = work.connection.execute(statement).first()
    if row is None:
        return None
    note(work, tenant, "", "create", metadata={} if body is None else body.metadata)
    return tenant_of(row)


def _refuse_status(told: dict[str, Any], status: str | None, details: str | None) -> None:
    stored = {"status": status, "status_details": details}
    for name, value in told.items():
        if value != stored[name]:
            raise refuse(400, f"{name} is read-only; leave it out, or give it as it is")


def mark(
    work: Work,
    tenant: str,
    retention: int,
    conditions: Conditions = NO_CONDITIONS,
) -> None:
    """Mark a tenant for deletion; it can be recovered for ``retention`` microseconds (T5).

    Raises ``TenantRefusal`` 404, 410, 412.
    """
    found = there(locked(work.connection, [tenant]).get(tenant), tenant)
    conditions.check(found.etag)
    # A clock that is behind must not shorten the time to recover: what was noted before tells that it is later.
    newest = work.connection.execute(sa.select(sa.func.max(schema.AUDIT.c.time))).scalar() or 0
    until = max(work.time, newest) + retention
    work.connection.execute(
        sa.update(TENANTS).where(TENANTS.c.number == found.number).values(deleted=work.time, purge_after=until)
    )
    note(work, tenant, "", "delete", data_sources=found.counts.size)


def recover(work: Work, tenant: str) -> None:
    """Take the mark away; everything is as before (T6). Raises ``TenantRefusal`` 404, 409."""
    found = locked(work.connection, [tenant]).get(tenant)
    if found is None:
        raise refuse(404, f"there is no tenant {shown(tenant)}")
    if found.deleted is None:
        raise refuse(409, f"tenant {shown(tenant)} isn't marked for deletion: there is nothing to recover")
    work.connection.execute(
        sa.update(TENANTS).where(TENANTS.c.number == found.number).values(deleted=None, purge_after=None)
    )
    note(work, tenant, "", "recover")


def due(connection: Connection, time: int) -> dict[str, int]:
    """Return tenants whose time to be recovered is over, with how long that was (microseconds)."""
    query = sa.select(TENANTS.c.id, TENANTS.c.purge_after - TENANTS.c.deleted).where(TENANTS.c.purge_after <= time)
    rows = connection.execute(query.order_by(TENANTS.c.purge_after).limit(100))
    return {row[0]: row[1] for row in rows}


def purge(work: Work, tenant: str) -> bool:
    """Remove a marked tenant whose time is over, with all it holds; ConfigDB follows by definition ids (T5).

    Returns whether there was such a tenant (by now it may have been recovered).
    """
    found = locked(work.connection, [tenant]).get(tenant)
    if found is None or found.purge_after is None or found.purge_after > work.time:
        return False
    held = sa.select(schema.HOLDINGS.c.number).where(schema.HOLDINGS.c.tenant == found.number)
    rows = work.connection.execute(
        sa.select(schema.RESOURCES.c.environment, schema.RESOURCES.c.name, schema.RESOURCES.c.definition)
        .where(schema.RESOURCES.c.holding.in_(held))
        .order_by(schema.RESOURCES.c.environment, schema.RESOURCES.c.definition)
    )
    gone: dict[int, list[list[Any]]] = defaultdict(list)
    for environment, name, definition in rows:
        if definition is not None:
            gone[environment].append([definition, name])
    for environment, definitions in gone.items():
        post(work, PURGE, environment, {"tenant": tenant, "definitions": definitions})
    homes = schema.FORMER_HOMES
    lost = sa.select(schema.RESOURCES.c.number).where(schema.RESOURCES.c.holding.in_(held))
    gone_homes = sa.or_(homes.c.tenant == found.number, homes.c.resource.in_(lost))
    work.connection.execute(sa.delete(homes).where(gone_homes))
    work.connection.execute(sa.delete(TENANTS).where(TENANTS.c.number == found.number))
    note(work, tenant, "", "purge", data_sources=found.counts.size)
    return True


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
        """Return a tenant. Raises ``TenantRefusal`` 404, 410."""
        return there(self.read(lambda connection: find_tenant(connection, tenant)), tenant)

    def tenant_rows(self, tenant: str, limit: int) -> queries.Values:
        """See ``listing.tenant_rows``."""
        return queries.tenant_rows(self.database, tenant, limit)

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
        return self.write(change, lambda work: put(work, tenant, body, conditions, updatable=updatable))

    def mark(self, change: Change, tenant: str, retention: int, conditions: Conditions = NO_CONDITIONS) -> None:
        """See ``lifecycle.mark``."""
        self.write(change, lambda work: mark(work, tenant, retention, conditions))
        failpoints.here("tenant-marked")

    def recover(self, change: Change, tenant: str) -> None:
        """See ``lifecycle.recover``."""
        self.write(change, lambda work: recover(work, tenant))

    def due(self, time: int) -> dict[str, int]:
        """See ``lifecycle.due``."""
        return self.read(lambda connection: due(connection, time))

    def purge(self, change: Change, tenant: str) -> bool:
        """See ``lifecycle.purge``."""
        purged = self.write(change, lambda work: purge(work, tenant))
        failpoints.here("tenant-purged")
        return purged

    def locate(self, place: Place) -> tuple[Tenant, Live | Moved]:
        """Return what is at an environment's or data source's path. Raises ``TenantRefusal`` 404, 410."""

        def work(connection: Connection) -> tuple[Tenant, Live | Moved]:
            tenant = there(find_tenant(connection, place.tenant), place.tenant)
            return tenant, queries.locate(connection, tenant, place)

        return self.read(work)

    def move_action(self, place: Place, destination: str) -> MoveAction:
        """Return what a move would touch. Raises ``TenantRefusal`` 301 (moved on), 400, 404, 410."""

        def work(connection: Connection) -> MoveAction:
            found = find_tenant(connection, place.tenant)
            return self._action(
                connection, place, there(found, place.tenant), find_tenant(connection, destination), destination
            )

        _refuse_same(place, destination)
        return self.read(work)

    def move(self, change: Change, place: Place, destination: str, conditions: Conditions = NO_CONDITIONS) -> Place:
        """Move what is at a place to another tenant and return its new place (T7, T8, T11).

        Raises ``TenantRefusal``: 301 if it moved on already, 400, 404, 409, 410, 412; nothing is moved then.
        """
        _refuse_same(place, destination)

        def work(work: Work) -> None:
            connection = work.connection
            tenant, target = moves.both(connection, place, destination)
            holding, resource = _live(connection, tenant, place, destination)
            target = there(target, destination)
            if conditions.match is not None or conditions.none_match is not None:
                conditions.check(*self._action(connection, place, tenant, target, destination).etags)
            moves.carry_out(work, place, (tenant, holding, resource), target)

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
        held = [holding] if holding else queries.environments(connection, tenant.number, None, self._listed).items
        found: list[Item] = []
        for one in held:
            found.append(Item(Place(tenant.id, one.environment).path, one.status, one.home))
            sources = queries.resources(connection, one.number, None, self._listed + 1).items
            found += [_item(tenant, source) for source in sources]
            if len(found) > self._listed:
                return summary
        return found

    def home(self, environment: int) -> Tenant | None:
        """See ``owning.home_of``."""
        return self.read(lambda connection: ownership.home_of(connection, environment))

    def settle_home(self, change: Change, environment: int, tenant: str) -> Tenant:
        """See ``owning.settle_home``."""
        return self.write(change, lambda work: ownership.settle_home(work, environment, tenant))

    def own(self, change: Change, tenant: str, environment: int, sources: Mapping[str, int | None]) -> list[str]:
        """See ``owning.own``."""
        return self.write(change, lambda work: ownership.own(work, tenant, environment, sources))

    def adopt(self, change: Change, tenant: str, environment: int, sources: Mapping[str, int | None]) -> list[str]:
        """See ``owning.adopt``."""
        return self.write(change, lambda work: ownership.adopt(work, tenant, environment, sources))

    def tell(self, change: Change, environment: int, told: Mapping[str, ownership.Told], run: str | None = None) -> int:
        """See ``owning.tell``."""
        return self.write(change, lambda work: ownership.tell(work, environment, told, run))


def _live(
    connection: Connection, tenant: Tenant, place: Place, destination: str
) -> tuple[Holding | None, Resource | None]:
    """Return what is to be moved; both None for all of a tenant. Raises ``TenantRefusal`` 301, 404, 410."""
    if place.environment is None:
        return None, None
    found = queries.locate(connection, tenant, place)
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
