"""Who owns what in an environment: its home tenant, its data sources and their status (S1, S8, U6).

The functions that take a ``Work`` do the work of one transaction.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

import sqlalchemy as sa
from sqlalchemy import Connection

from configdb_sync.store import tenant_schema
from configdb_sync.tenants import lifecycle, paths
from configdb_sync.tenants.paths import ResourcePath
from configdb_sync.tenants.representations import TenantBody
from configdb_sync.tenants.rows import Tenant, Work, holding_of, resource_of, tenant_of
from configdb_sync.tenants.status import Status, StatusCounts, counted, cut

TENANTS, HOLDINGS, RESOURCES = tenant_schema.TENANTS, tenant_schema.HOLDINGS, tenant_schema.RESOURCES
Report = tuple[Status | None, str | None]


def home_of(connection: Connection, environment: int) -> Tenant | None:
    """Return an environment's home tenant, even if marked for deletion; None if it has none."""
    row = connection.execute(
        sa.select(TENANTS)
        .join(HOLDINGS, HOLDINGS.c.tenant == TENANTS.c.number)
        .where(HOLDINGS.c.environment == environment, HOLDINGS.c.home)
    ).first()
    return None if row is None else tenant_of(row)


def settle_home(work: Work, environment: int, tenant: str) -> Tenant:
    """Return an environment's home tenant; if it has none, set this one, which is created if necessary."""
    home = home_of(work.connection, environment)
    if home is not None:
        return home
    found = work.lock([tenant]).get(tenant)
    if found is None:
        found, _ = lifecycle.put(work, tenant, TenantBody({}, {}))
    holding = work.holding(found, environment)
    work.count(holding, StatusCounts(), home=True)
    work.count(found, StatusCounts())
    work.audit(tenant, ResourcePath(tenant, environment).path, "home")
    work.enqueue(environment)
    return work.lock([tenant])[tenant]


def is_registered(connection: Connection, environment: int, sources: Mapping[str, int | None]) -> bool:
    """Tell whether ``register`` would change nothing: there is a home, and all data sources are known by these IDs."""
    if home_of(connection, environment) is None:
        return False
    known = dict(owned(connection, environment, sources))
    return all(name in known and definition in (None, known[name]) for name, definition in sources.items())


def register(work: Work, tenant: str, environment: int, sources: Mapping[str, int | None]) -> list[str]:
    """Give a tenant the data sources that nobody owns yet, with their definition IDs; return those given.

    The IDs of those that are already owned, by any tenant, are updated. Raises ``RefusalError`` 400 for an impossible
    name.
    """
    for name in sources:
        paths.data_source(name)
    found = work.lock([tenant])[tenant]
    known = dict(owned(work.connection, environment, sources))
    for name, definition in sources.items():
        if name in known and definition is not None and known[name] != definition:
            here = sa.and_(RESOURCES.c.environment == environment, RESOURCES.c.name == name)
            work.connection.execute(sa.update(RESOURCES).where(here).values(definition=definition))
    new = {name: definition for name, definition in sources.items() if name not in known}
    if not new:
        return []
    holding = work.holding(found, environment)
    times = {"created": work.time, "updated": work.time}
    rows = [
        {"holding": holding.number, "environment": environment, "name": name, "definition": definition}
        | {"entered": holding.version + 1, **times}
        for name, definition in new.items()
    ]
    statement = work.database.insert(RESOURCES).on_conflict_do_nothing(index_elements=["environment", "name"])
    before = _size(work.connection, holding.number)
    work.connection.execute(statement, rows)
    added = StatusCounts(_size(work.connection, holding.number) - before)
    if added.size:
        work.count(holding, added)
        work.count(found, added)
        work.audit(tenant, ResourcePath(tenant, environment).path, "own", data_sources=sorted(new)[:50])
    return sorted(new)


def owned(
    connection: Connection, environment: int, wanted: Iterable[str] | None = None
) -> list[tuple[str, int | None]]:
    """Return the names and definition IDs of an environment's owned data sources: all, or those wanted."""
    statement = sa.select(RESOURCES.c.name, RESOURCES.c.definition).where(RESOURCES.c.environment == environment)
    if wanted is not None:
        statement = statement.where(RESOURCES.c.name.in_(list(wanted)))
    return [(row.name, row.definition) for row in connection.execute(statement)]


def _size(connection: Connection, holding: int) -> int:
    statement = sa.select(sa.func.count()).select_from(RESOURCES).where(RESOURCES.c.holding == holding)
    return int(connection.execute(statement).scalar_one())


def set_status(
    work: Work,
    environment: int,
    reports: Mapping[str, Report],
    run: str | None = None,
    only: Mapping[str, int] | None = None,
) -> int:
    """Store the status of data sources and update the counters; return how many changed, and write only these (S7).

    ``run``: the run that is processing them. ``only``: change just the data sources that still have these versions.
    Data sources that nobody owns are skipped.
    """
    here = sa.and_(RESOURCES.c.environment == environment, RESOURCES.c.name.in_(list(reports)))
    owners = sa.select(HOLDINGS.c.tenant).join(RESOURCES, RESOURCES.c.holding == HOLDINGS.c.number).where(here)
    tenants: dict[int, Tenant] = {}
    # A data source that was moved before the lock was acquired has another owner now.
    while not (now := set(work.connection.scalars(owners))) <= set(tenants):
        tenants = work.lock_numbers(now | set(tenants))
    deltas: dict[int, StatusCounts] = defaultdict(StatusCounts)
    changes: list[dict[str, object]] = []
    runs: list[dict[str, object]] = []
    for row in work.connection.execute(sa.select(RESOURCES).where(here)).all():
        resource = resource_of(row)
        if only is not None and only.get(resource.name) != resource.version:
            continue
        status, details = reports[resource.name][0], cut(reports[resource.name][1])
        if (status, details) == (resource.status, resource.details):
            if run != resource.run:
                runs.append({"this": resource.number, "new_run": run})
            continue
        values = {"new_status": status, "new_details": details, "new_run": run, "time": work.time}
        changes.append({"this": resource.number, **values, "shown": int(status != resource.status)})
        if status != resource.status:
            deltas[resource.holding] += -counted(resource.status) + counted(status)
    for statement, rows in ((_STATUS, changes), (_RUN, runs)):
        if rows:
            work.connection.execute(statement, rows)
    _roll_up(work, deltas, tenants)
    return len(changes)


_THIS = RESOURCES.c.number == sa.bindparam("this")
_RUN = sa.update(RESOURCES).where(_THIS).values(run=sa.bindparam("new_run"))
_STATUS = (
    sa.update(RESOURCES)
    .where(_THIS)
    .values(
        status=sa.bindparam("new_status"),
        status_details=sa.bindparam("new_details"),
        run=sa.bindparam("new_run"),
        version=RESOURCES.c.version + 1,
        tag=RESOURCES.c.tag + sa.bindparam("shown"),
        updated=sa.bindparam("time"),
    )
)


def _roll_up(work: Work, deltas: Mapping[int, StatusCounts], tenants: Mapping[int, Tenant]) -> None:
    totals: dict[int, StatusCounts] = defaultdict(StatusCounts)
    for number, delta in deltas.items():
        holding = holding_of(work.connection.execute(sa.select(HOLDINGS).where(HOLDINGS.c.number == number)).one())
        work.count(holding, delta)
        totals[holding.tenant] += delta
    for tenant, delta in totals.items():
        work.count(tenants[tenant], delta)


def adopt(work: Work, tenant: str, environment: int, sources: Mapping[str, int | None]) -> list[str]:
    """As ``register``; the tenant is made if it isn't there, and ConfigDB follows."""
    if tenant not in work.lock([tenant]):
        lifecycle.put(work, tenant, TenantBody({}, {}))
    given = register(work, tenant, environment, sources)
    if given:
        work.audit(tenant, ResourcePath(tenant, environment).path, "adopt", data_sources=given[:50])
        work.enqueue(environment)
    return given
