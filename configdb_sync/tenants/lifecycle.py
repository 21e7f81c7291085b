"""A tenant's life (T4-T6): made, changed, marked for deletion, recovered, purged. Each is one transaction's work."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from configdb_sync.store import schema
from configdb_sync.tenants import auditing, etags
from configdb_sync.tenants.metadata import TenantBody
from configdb_sync.tenants.rows import Tenant, Work, locked, tenant_of, there
from configdb_sync.web.refusals import refuse, shown
from configdb_sync.web.requests import Tags

TENANTS = schema.TENANTS
PURGE = "purge"


@dataclass(frozen=True)
class Conditions:
    """If-Match and If-None-Match of a request; None where it has no such header."""

    match: Tags | None = None
    none_match: Tags | None = None

    def check(self, *current: str) -> None:
        """Raise ``RefusalError`` 412 unless a change of what has these tags (none: it isn't there) may be made."""
        if not (etags.matches(self.match, *current) and etags.none_matches(self.none_match, *current)):
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

    ``body`` None: the request had none. Raises ``RefusalError``: 400 for another status than the stored one, 409 for
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
    auditing.note(work, tenant, "", "modify", before=found.metadata, after=body.metadata)
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
    auditing.note(work, tenant, "", "create", metadata={} if body is None else body.metadata)
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

    Raises ``RefusalError`` 404, 410, 412.
    """
    found = there(locked(work.connection, [tenant]).get(tenant), tenant)
    conditions.check(found.etag)
    # A clock that is behind must not shorten the time to recover: what was noted before tells that it is later.
    newest = work.connection.execute(sa.select(sa.func.max(schema.AUDIT.c.time))).scalar() or 0
    until = max(work.time, newest) + retention
    work.connection.execute(
        sa.update(TENANTS).where(TENANTS.c.number == found.number).values(deleted=work.time, purge_after=until)
    )
    auditing.note(work, tenant, "", "delete", data_sources=found.counts.size)


def recover(work: Work, tenant: str) -> None:
    """Take the mark away; everything is as before (T6). Raises ``RefusalError`` 404, 409."""
    found = locked(work.connection, [tenant]).get(tenant)
    if found is None:
        raise refuse(404, f"there is no tenant {shown(tenant)}")
    if found.deleted is None:
        raise refuse(409, f"tenant {shown(tenant)} isn't marked for deletion: there is nothing to recover")
    work.connection.execute(
        sa.update(TENANTS).where(TENANTS.c.number == found.number).values(deleted=None, purge_after=None)
    )
    auditing.note(work, tenant, "", "recover")


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
        auditing.post(work, PURGE, environment, {"tenant": tenant, "definitions": definitions})
    homes = schema.FORMER_HOMES
    lost = sa.select(schema.RESOURCES.c.number).where(schema.RESOURCES.c.holding.in_(held))
    gone_homes = sa.or_(homes.c.tenant == found.number, homes.c.resource.in_(lost))
    work.connection.execute(sa.delete(homes).where(gone_homes))
    work.connection.execute(sa.delete(TENANTS).where(TENANTS.c.number == found.number))
    auditing.note(work, tenant, "", "purge", data_sources=found.counts.size)
    return True
