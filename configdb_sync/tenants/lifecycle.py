"""The life of a tenant (T4-T6): created, changed, marked for deletion, recovered, purged.

Each function does the work of one transaction.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from configdb_sync.store import tenant_schema
from configdb_sync.tenants.representations import TenantBody
from configdb_sync.tenants.rows import PURGE, Tenant, Work, require_tenant, tenant_of
from configdb_sync.tenants.status import word_of
from configdb_sync.web.refusals import refuse, shown
from configdb_sync.web.requests import Preconditions

TENANTS, RESOURCES = tenant_schema.TENANTS, tenant_schema.RESOURCES


NO_CONDITIONS = Preconditions()


def put(
    work: Work,
    tenant: str,
    body: TenantBody | None,
    conditions: Preconditions = NO_CONDITIONS,
    *,
    updatable: bool = True,
) -> tuple[Tenant, bool]:
    """Create a tenant, or change its metadata; return it and whether it was created (T4).

    ``body`` None: the request had none. Raises ``RefusalError``: 400 for a status other than the stored one, 409 for
    what can't be changed, 412.
    """
    made = _insert(work, tenant, body, conditions, updatable=updatable)
    if made is not None:
        return made, True
    found = work.lock([tenant]).get(tenant)
    if found is None:
        raise refuse(409, f"tenant {shown(tenant)} was purged this moment; try again", ("Retry-After", "1"))
    if found.deleted is not None:
        raise refuse(409, f"tenant {shown(tenant)} is marked for deletion; recover it, or wait until it is purged")
    conditions.check(found.etag)
    if body is None:
        raise refuse(409, f"there is a tenant {shown(tenant)} already; a body would modify it")
    if not found.updatable:
        raise refuse(409, f"tenant {shown(tenant)} can't be modified")
    _refuse_status(body.status, word_of(found.status), found.details)
    if body.metadata == found.metadata:
        return found, False
    work.connection.execute(
        sa.update(TENANTS)
        .where(TENANTS.c.number == found.number)
        .values(
            metadata=json.dumps(body.metadata), version=TENANTS.c.version + 1, tag=TENANTS.c.tag + 1, updated=work.time
        )
    )
    work.audit(tenant, "", "modify", before=found.metadata, after=body.metadata)
    return work.lock([tenant])[tenant], False


def _insert(
    work: Work, tenant: str, body: TenantBody | None, conditions: Preconditions, *, updatable: bool
) -> Tenant | None:
    """Create the tenant and return it; None if it exists."""
    if work.connection.execute(sa.select(TENANTS.c.number).where(TENANTS.c.id == tenant)).first() is not None:
        return None
    conditions.check()
    if body is not None:
        _refuse_status(body.status, None, None)
    metadata = {} if body is None else body.metadata
    values = {"id": tenant, "metadata": json.dumps(metadata), "updatable": updatable}
    values |= {"created": work.time, "updated": work.time}
    statement = work.database.insert(TENANTS).values(values).on_conflict_do_nothing().returning(TENANTS)
    row = work.connection.execute(statement).first()
    if row is None:
        return None
    work.audit(tenant, "", "create", metadata=metadata)
    return tenant_of(row)


def _refuse_status(given: dict[str, Any], status: str | None, details: str | None) -> None:
    stored = {"status": status, "status_details": details}
    for name, value in given.items():
        if value != stored[name]:
            raise refuse(400, f"{name} is read-only; leave it out, or give it as it is")


def mark(work: Work, tenant: str, retention: int, conditions: Preconditions = NO_CONDITIONS) -> None:
    """Mark a tenant for deletion; it can be recovered for ``retention`` microseconds (T5).

    Raises ``RefusalError`` 404, 410, 412.
    """
    found = require_tenant(work.lock([tenant]).get(tenant), tenant)
    conditions.check(found.etag)
    # A clock that is behind must not shorten the time to recover: the audit trail shows that it is later.
    newest = work.connection.execute(sa.select(sa.func.max(tenant_schema.AUDIT.c.time))).scalar() or 0
    until = max(work.time, newest) + retention
    work.connection.execute(
        sa.update(TENANTS).where(TENANTS.c.number == found.number).values(deleted=work.time, purge_after=until)
    )
    work.audit(tenant, "", "delete", data_sources=found.counts.size)


def recover(work: Work, tenant: str) -> None:
    """Remove the mark; everything is as before (T6). Raises ``RefusalError`` 404, 409."""
    found = work.lock([tenant]).get(tenant)
    if found is None:
        raise refuse(404, f"there is no tenant {shown(tenant)}")
    if found.deleted is None:
        raise refuse(409, f"tenant {shown(tenant)} isn't marked for deletion: there is nothing to recover")
    work.connection.execute(
        sa.update(TENANTS).where(TENANTS.c.number == found.number).values(deleted=None, purge_after=None)
    )
    work.audit(tenant, "", "recover")


def due(connection: Connection, time: int) -> dict[str, int]:
    """Return tenants that can't be recovered any more, with how long they could (microseconds)."""
    query = sa.select(TENANTS.c.id, TENANTS.c.purge_after - TENANTS.c.deleted).where(TENANTS.c.purge_after <= time)
    rows = connection.execute(query.order_by(TENANTS.c.purge_after).limit(100))
    return {row[0]: row[1] for row in rows}


def purge(work: Work, tenant: str) -> bool:
    """Delete a marked tenant whose time is over, with all it owns; ConfigDB follows by definition IDs (T5).

    Returns whether there was such a tenant: it may have been recovered since.
    """
    found = work.lock([tenant]).get(tenant)
    if found is None or found.purge_after is None or found.purge_after > work.time:
        return False
    held = sa.select(tenant_schema.HOLDINGS.c.number).where(tenant_schema.HOLDINGS.c.tenant == found.number)
    rows = work.connection.execute(
        sa.select(RESOURCES.c.environment, RESOURCES.c.name, RESOURCES.c.definition)
        .where(RESOURCES.c.holding.in_(held))
        .order_by(RESOURCES.c.environment, RESOURCES.c.definition)
    )
    gone: dict[int, list[list[Any]]] = defaultdict(list)
    for environment, name, definition in rows:
        if definition is not None:
            gone[environment].append([definition, name])
    for environment, definitions in gone.items():
        work.enqueue(environment, PURGE, {"tenant": tenant, "definitions": definitions})
    homes = tenant_schema.FORMER_HOMES
    lost = sa.select(RESOURCES.c.number).where(RESOURCES.c.holding.in_(held))
    gone_homes = sa.or_(homes.c.tenant == found.number, homes.c.resource.in_(lost))
    work.connection.execute(sa.delete(homes).where(gone_homes))
    work.connection.execute(sa.delete(TENANTS).where(TENANTS.c.number == found.number))
    work.audit(tenant, "", "purge", data_sources=found.counts.size)
    return True
