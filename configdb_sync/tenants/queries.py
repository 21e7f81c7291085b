"""Queries: lists in pages (T15), and what a path names (T7).

A page begins after a marker, never at an offset; what the marker names needn't exist any more.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import sqlalchemy as sa
from sqlalchemy import Connection, Row, Select

from configdb_sync.store import tenant_schema
from configdb_sync.store.database import Database, Lookup
from configdb_sync.tenants.paths import ResourcePath
from configdb_sync.tenants.rows import (
    LIVE,
    Holding,
    Resource,
    Tenant,
    find_holding,
    find_resource,
    holding_of,
    resource_of,
    tenant_of,
)
from configdb_sync.web.refusals import refuse, shown

T = TypeVar("T")
TENANTS, HOLDINGS, RESOURCES, AUDIT = (
    tenant_schema.TENANTS,
    tenant_schema.HOLDINGS,
    tenant_schema.RESOURCES,
    tenant_schema.AUDIT,
)
_WIDTH = len(TENANTS.c)
_METADATA = TENANTS.c.keys().index("metadata")


@dataclass(frozen=True)
class Page(Generic[T]):
    """Some items in order; ``marker`` gives the following ones, None if there are none."""

    items: Sequence[T]
    marker: str | None = None


@dataclass(frozen=True)
class AuditEntry:
    """One entry of the audit trail."""

    number: int
    time: int
    tenant: str
    path: str
    action: str
    actor: str
    origin: str
    request: str
    details: dict[str, Any]


def page_of(found: Sequence[T], limit: int, marker: Callable[[T], str]) -> Page[T]:
    """Return the page of at most ``limit`` items; ``found`` has one more if others follow it."""
    return Page(found[:limit], marker(found[limit - 1]) if len(found) > limit else None)


def _page(
    connection: Connection,
    statement: Select[Any],
    limit: int,
    make: Callable[[Row[Any]], T],
    marker: Callable[[T], str],
) -> Page[T]:
    return page_of([make(row) for row in connection.execute(statement.limit(limit + 1))], limit, marker)


def tenants(connection: Connection, marker: str | None, limit: int, *, recoverable: bool = False) -> Page[Tenant]:
    """Return tenants by ID (code points): those that exist, or those marked for deletion."""
    marked = TENANTS.c.deleted.is_not(None) if recoverable else TENANTS.c.deleted.is_(None)
    statement = sa.select(TENANTS).where(marked).order_by(TENANTS.c.id)
    if recoverable:
        # Few of many: this uses the index on the time at which they are purged.
        statement = statement.where(TENANTS.c.purge_after.is_not(None))
    if marker is not None:
        statement = statement.where(TENANTS.c.id > marker)
    return _page(connection, statement, limit, tenant_of, lambda tenant: tenant.id)


def environments(connection: Connection, tenant: int, marker: int | None, limit: int) -> Page[Holding]:
    """Return what a tenant has, by environment."""
    after = HOLDINGS.c.environment > (-1 if marker is None else marker)
    statement = sa.select(HOLDINGS).where(HOLDINGS.c.tenant == tenant, after, LIVE).order_by(HOLDINGS.c.environment)
    return _page(connection, statement, limit, holding_of, _environment_marker)


Values = tuple[tuple[Any, ...], ...]
"""Rows of a tenant, each joined with one of its environments; without any, these columns are None."""


def tenant_rows(database: Database, tenant: str, limit: int) -> Values:
    """Return a tenant with ``limit`` of its environments and one more, by one statement; no rows: it doesn't exist."""
    return tuple(_WITH_ENVIRONMENTS.rows(database, tenant=tenant, limit=limit + 1))


def tenant_and_environments(rows: Values, limit: int) -> tuple[Tenant, Page[Holding]]:
    """Return the tenant of these rows and the first page of its environments."""
    first = rows[0]
    held = [] if first[_WIDTH] is None else [holding_of(row[_WIDTH:]) for row in rows]
    return tenant_of(first[:_WIDTH]), page_of(held, limit, _environment_marker)


def metadata_of(rows: Values) -> str:
    """Return the tenant's metadata as stored."""
    text: str = rows[0][_METADATA]
    return text


def _environment_marker(holding: Holding) -> str:
    return str(holding.environment)


_WITH_ENVIRONMENTS = Lookup(
    sa.select(TENANTS, HOLDINGS)
    .join(HOLDINGS, sa.and_(HOLDINGS.c.tenant == TENANTS.c.number, LIVE), isouter=True)
    .where(TENANTS.c.id == sa.bindparam("tenant"))
    .order_by(HOLDINGS.c.environment)
    .limit(sa.bindparam("limit", type_=sa.Integer))
)


def resources(connection: Connection, holding: int, marker: str | None, limit: int) -> Page[Resource]:
    """Return the data sources of a holding, by name."""
    statement = sa.select(RESOURCES).where(RESOURCES.c.holding == holding).order_by(RESOURCES.c.name)
    if marker is not None:
        statement = statement.where(RESOURCES.c.name > marker)
    return _page(connection, statement, limit, resource_of, lambda resource: resource.name)


def all_resources(connection: Connection, tenant: int, marker: tuple[int, str] | None, limit: int) -> Page[Resource]:
    """Return all data sources of a tenant, by environment and name; the marker is ``<environment>/<name>``."""
    statement = (
        sa.select(RESOURCES)
        .join(HOLDINGS, HOLDINGS.c.number == RESOURCES.c.holding)
        .where(HOLDINGS.c.tenant == tenant)
        .order_by(HOLDINGS.c.environment, RESOURCES.c.name)
    )
    if marker is not None:
        number, name = marker
        same = sa.and_(HOLDINGS.c.environment == number, RESOURCES.c.name > name)
        statement = statement.where(sa.or_(HOLDINGS.c.environment > number, same))
    return _page(connection, statement, limit, resource_of, lambda one: f"{one.environment}/{one.name}")


def audit(connection: Connection, tenant: str | None, marker: int | None, limit: int) -> Page[AuditEntry]:
    """Return entries of the audit trail, newest first: all, or those of a tenant ID."""
    statement = sa.select(AUDIT).order_by(AUDIT.c.number.desc())
    if tenant is not None:
        statement = statement.where(AUDIT.c.tenant == tenant)
    if marker is not None:
        statement = statement.where(AUDIT.c.number < marker)
    return _page(connection, statement, limit, _entry, lambda entry: str(entry.number))


def _entry(row: Row[Any]) -> AuditEntry:
    fields = {name: value for name, value in row._mapping.items() if name != "details"}  # noqa: SLF001  # public in SQLAlchemy
    return AuditEntry(**fields, details=json.loads(row.details))


@dataclass(frozen=True)
class Located:
    """An environment or a data source at its path; ``resource`` is None for an environment."""

    holding: Holding
    resource: Resource | None = None


@dataclass(frozen=True)
class Moved:
    """It was at this path, and ``owner`` has it now."""

    owner: Tenant


def locate(connection: Connection, tenant: Tenant, place: ResourcePath) -> Located | Moved:
    """Return what a path below a tenant names. Raises ``RefusalError`` 404 for nothing."""
    assert place.environment is not None
    found = (
        _environment(connection, tenant, place.environment)
        if place.data_source is None
        else _data_source(connection, tenant, place.environment, place.data_source)
    )
    if found is None:
        raise refuse(404, f"tenant {shown(tenant.id)} has no {shown(place.path)}")
    return found


def _environment(connection: Connection, tenant: Tenant, environment: int) -> Located | Moved | None:
    holding = find_holding(connection, tenant.number, environment)
    if holding is not None and holding.live:
        return Located(holding)
    former = tenant_schema.FORMER_HOLDERS
    row = connection.execute(
        sa.select(HOLDINGS)
        .join(former, former.c.holding == HOLDINGS.c.number)
        .where(
            former.c.tenant == tenant.number,
            former.c.moved > 0,
            HOLDINGS.c.environment == environment,
            HOLDINGS.c.tenant != tenant.number,
        )
    ).first()
    if row is None or not (found := holding_of(row)).live:
        return None
    return _moved(connection, found)


def _data_source(connection: Connection, tenant: Tenant, environment: int, name: str) -> Located | Moved | None:
    resource = find_resource(connection, environment, name)
    if resource is None:
        return None
    row = connection.execute(sa.select(HOLDINGS).where(HOLDINGS.c.number == resource.holding)).one()
    holding = holding_of(row)
    if holding.tenant == tenant.number:
        return Located(holding, resource)
    if not was_at(connection, tenant.number, resource):
        return None
    return _moved(connection, holding)


def _moved(connection: Connection, holding: Holding) -> Moved:
    owner = sa.select(TENANTS).where(TENANTS.c.number == holding.tenant)
    return Moved(tenant_of(connection.execute(owner).one()))


def was_at(connection: Connection, tenant: int, resource: Resource) -> bool:
    """Tell whether a tenant owned a data source that it doesn't own now.

    It owned it by itself, or as part of an environment that was moved after the data source entered it (``cut``).
    """
    homes, holders = tenant_schema.FORMER_HOMES, tenant_schema.FORMER_HOLDERS
    alone = sa.select(homes.c.tenant).where(homes.c.tenant == tenant, homes.c.resource == resource.number)
    within = sa.select(holders.c.tenant).where(
        holders.c.tenant == tenant, holders.c.holding == resource.holding, holders.c.cut > resource.entered
    )
    return connection.execute(sa.union_all(alone, within).limit(1)).first() is not None
