"""Moves (T7, T8, T11) in the registry: one data source, one environment, or all; whole or not at all."""

from __future__ import annotations

from dataclasses import replace

import sqlalchemy as sa
from sqlalchemy import Connection

from configdb_sync.store import schema
from configdb_sync.tenants import auditing
from configdb_sync.tenants.counting import count
from configdb_sync.tenants.paths import Place
from configdb_sync.tenants.rows import Holding, Resource, Tenant, Work, find_holding, holdings_of, locked, there
from configdb_sync.tenants.status import Counts, counted
from configdb_sync.web.refusals import refuse, shown

ALIGN = "align"
RESOURCES, HOLDINGS = schema.RESOURCES, schema.HOLDINGS


def refuse_build(counts: Counts, place: Place) -> None:
    """Raise ``RefusalError`` 409 if anything is being built: then nothing is moved."""
    if counts.build:
        what = shown(place.path) if place.path else f"tenant {shown(place.tenant)}"
        raise refuse(409, f"a run is at work on {what} (status BUILD): it can't be moved until that is over")


def move_resource(
    work: Work,
    source: tuple[Tenant, Holding, Resource],
    destination: Tenant,
) -> None:
    """Move one data source; both tenants are locked and the resource was read under that lock."""
    tenant, holding, resource = source
    counts = counted(resource.status)
    target = _holding(work, destination, resource.environment)
    _remember(work, tenant.number, holding.number, RESOURCES.c.number == resource.number)
    work.connection.execute(
        sa.update(RESOURCES)
        .where(RESOURCES.c.number == resource.number)
        .values(
            holding=target.number,
            entered=target.version + 1,
            version=RESOURCES.c.version + 1,
            updated=work.time,
        )
    )
    count(work, holding, -counts)
    count(work, target, counts)
    count(work, tenant, -counts)
    count(work, destination, counts)
    auditing.post(work, ALIGN, resource.environment)


def move_holdings(
    work: Work,
    tenant: Tenant,
    holdings: list[Holding],
    destination: Tenant,
) -> None:
    """Move environments; both tenants are locked and the holdings were read under that lock."""
    total = Counts()
    for holding in holdings:
        total += holding.counts
        target = find_holding(work.connection, destination.number, holding.environment)
        if target is None:
            _give(work, tenant, holding, destination)
        else:
            _merge(work, tenant, holding, target)
        auditing.post(work, ALIGN, holding.environment)
    if holdings:
        count(work, tenant, -total)
        count(work, destination, total)


def _give(work: Work, tenant: Tenant, holding: Holding, destination: Tenant) -> None:
    """Hand a holding over as it is, where the destination has none in the environment."""
    version = holding.version + 1
    _forget_pointers(work, holding.environment, tenant.number, destination.number)
    holders = schema.FORMER_HOLDERS
    back = sa.and_(holders.c.tenant == destination.number, holders.c.holding == holding.number)
    work.connection.execute(sa.delete(holders).where(back))
    _hold(work, tenant.number, holding.number, cut=version, moved=work.time)
    work.connection.execute(
        sa.update(HOLDINGS)
        .where(HOLDINGS.c.number == holding.number)
        .values(tenant=destination.number, version=version, tag=HOLDINGS.c.tag + 1, updated=work.time)
    )


def _merge(work: Work, tenant: Tenant, holding: Holding, target: Holding) -> None:
    """Put all of a holding into the one that the destination has in the same environment."""
    holders = schema.FORMER_HOLDERS
    _forget_pointers(work, holding.environment, tenant.number, target.tenant)
    _remember(work, tenant.number, holding.number, sa.true())
    work.connection.execute(
        sa.update(RESOURCES)
        .where(RESOURCES.c.holding == holding.number)
        .values(holding=target.number, entered=target.version + 1, version=RESOURCES.c.version + 1, updated=work.time)
    )
    earlier = work.connection.execute(
        sa.select(holders.c.tenant, holders.c.moved).where(holders.c.holding == holding.number)
    ).all()
    work.connection.execute(sa.delete(holders).where(holders.c.holding == holding.number))
    for former, moved in [*earlier, (tenant.number, work.time)]:
        if former != target.tenant and moved:
            # Cut 0: the environment's path leads there; its data sources have their own entries.
            _hold(work, former, target.number, cut=0, moved=moved)
    count(work, holding, -holding.counts, home=False)
    count(work, target, holding.counts, home=target.home or holding.home)


def _remember(work: Work, tenant: int, holding: int, which: sa.ColumnElement[bool]) -> None:
    """Note that data sources of a holding were this tenant's, and those' who had the holding before it."""
    homes, holders = schema.FORMER_HOMES, schema.FORMER_HOLDERS
    own = sa.select(sa.literal(tenant, sa.BigInteger), RESOURCES.c.number).where(RESOURCES.c.holding == holding, which)
    earlier = (
        sa.select(holders.c.tenant, RESOURCES.c.number)
        .join(RESOURCES, RESOURCES.c.holding == holders.c.holding)
        .where(holders.c.holding == holding, holders.c.cut > RESOURCES.c.entered, which)
    )
    for rows in (own, earlier):
        statement = work.database.insert(homes).from_select(["tenant", "resource"], rows)
        work.connection.execute(statement.on_conflict_do_nothing())


def _forget_pointers(work: Work, environment: int, *tenants: int) -> None:
    """Let nothing lead from these tenants' paths of an environment any more: they have it, or move it anew."""
    holders = schema.FORMER_HOLDERS
    here = holders.c.holding.in_(sa.select(HOLDINGS.c.number).where(HOLDINGS.c.environment == environment))
    work.connection.execute(sa.update(holders).where(holders.c.tenant.in_(tenants), here).values(moved=0))


def _hold(work: Work, tenant: int, holding: int, *, cut: int, moved: int) -> None:
    holders = schema.FORMER_HOLDERS
    statement = work.database.insert(holders).values(tenant=tenant, holding=holding, cut=cut, moved=moved)
    work.connection.execute(
        statement.on_conflict_do_update(
            index_elements=["tenant", "holding"],
            set_={
                "cut": sa.case((holders.c.cut > cut, holders.c.cut), else_=cut),
                "moved": sa.case((holders.c.moved > moved, holders.c.moved), else_=moved),
            },
        )
    )


def _holding(work: Work, tenant: Tenant, environment: int, *, home: bool = False) -> Holding:
    found = find_holding(work.connection, tenant.number, environment)
    if found is None:
        values = {"tenant": tenant.number, "environment": environment, "home": home}
        times = {"created": work.time, "updated": work.time}
        work.connection.execute(work.database.insert(HOLDINGS).values(**values, **times))
        found = find_holding(work.connection, tenant.number, environment)
        assert found is not None
    return found


holding_for = _holding


def both(connection: Connection, place: Place, destination: str) -> tuple[Tenant, Tenant | None]:
    """Return the two tenants of a move, locked. Raises ``RefusalError`` 404, 410 for the source."""
    found = locked(connection, [place.tenant, destination])
    return there(found.get(place.tenant), place.tenant), found.get(destination)


def carry_out(
    work: Work,
    place: Place,
    source: tuple[Tenant, Holding | None, Resource | None],
    destination: Tenant,
) -> None:
    """Move what is at a place: a data source, an environment, or all that a tenant has. Raises 409 for BUILD."""
    tenant, holding, resource = source
    if holding is not None and resource is not None:
        counts = counted(resource.status)
        refuse_build(counts, place)
        move_resource(work, (tenant, holding, resource), destination)
    else:
        counts = tenant.counts if holding is None else holding.counts
        refuse_build(counts, place)
        held = holdings_of(work.connection, tenant.number) if holding is None else [holding]
        move_holdings(work, tenant, held, destination)
    details = {"from": tenant.id, "to": destination.id, "data_sources": counts.size}
    auditing.note(work, tenant.id, place.path, "move", **details)
    auditing.note(work, destination.id, replace(place, tenant=destination.id).path, "arrive", **details)
