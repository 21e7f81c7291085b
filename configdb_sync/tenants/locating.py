"""What is at a path of a tenant (T7): something live, something that has moved on, or nothing."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Connection

from configdb_sync.store import schema
from configdb_sync.tenants.paths import Place
from configdb_sync.tenants.rows import (
    Holding,
    Resource,
    Tenant,
    find_holding,
    find_resource,
    holding_of,
    locked_numbers,
    tenant_of,
)
from configdb_sync.web.refusals import refuse, shown

HOLDINGS, TENANTS = schema.HOLDINGS, schema.TENANTS


@dataclass(frozen=True)
class Live:
    """An environment or a data source where the path says; ``resource`` is None for an environment."""

    holding: Holding
    resource: Resource | None = None


@dataclass(frozen=True)
class Moved:
    """It was there once, and this tenant has it now."""

    owner: Tenant


def locate(connection: Connection, tenant: Tenant, place: Place) -> Live | Moved:
    """Return what is at a path below a tenant. Raises ``RefusalError`` 404 for nothing."""
    assert place.environment is not None
    found = (
        _environment(connection, tenant, place.environment)
        if place.data_source is None
        else _data_source(connection, tenant, place.environment, place.data_source)
    )
    if found is None:
        raise refuse(404, f"tenant {shown(tenant.id)} has no {shown(place.path)}")
    return found


def _environment(connection: Connection, tenant: Tenant, environment: int) -> Live | Moved | None:
    holding = find_holding(connection, tenant.number, environment)
    if holding is not None and holding.live:
        return Live(holding)
    former = schema.FORMER_HOLDERS
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
    return Moved(tenant_of(connection.execute(sa.select(TENANTS).where(TENANTS.c.number == found.tenant)).one()))


def _data_source(connection: Connection, tenant: Tenant, environment: int, name: str) -> Live | Moved | None:
    resource = find_resource(connection, environment, name)
    if resource is None:
        return None
    row = connection.execute(sa.select(HOLDINGS).where(HOLDINGS.c.number == resource.holding)).one()
    holding = holding_of(row)
    if holding.tenant == tenant.number:
        return Live(holding, resource)
    if not was_at(connection, tenant.number, resource):
        return None
    return Moved(tenant_of(connection.execute(sa.select(TENANTS).where(TENANTS.c.number == holding.tenant)).one()))


def was_at(connection: Connection, tenant: int, resource: Resource) -> bool:
    """Tell whether a data source was ever a tenant's that it isn't now.

    By itself, or as part of an environment that was moved: then it was in there before that move (``cut``).
    """
    homes, holders = schema.FORMER_HOMES, schema.FORMER_HOLDERS
    alone = sa.select(homes.c.tenant).where(homes.c.tenant == tenant, homes.c.resource == resource.number)
    within = sa.select(holders.c.tenant).where(
        holders.c.tenant == tenant, holders.c.holding == resource.holding, holders.c.cut > resource.entered
    )
    return connection.execute(sa.union_all(alone, within).limit(1)).first() is not None


def owner_of(connection: Connection, holding: int) -> Tenant:
    """Return the tenant of a holding, locked."""
    number = connection.execute(sa.select(HOLDINGS.c.tenant).where(HOLDINGS.c.number == holding)).scalar_one()
    return locked_numbers(connection, [number])[number]
