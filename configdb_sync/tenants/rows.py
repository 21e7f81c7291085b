"""Rows of the registry as values: how they are read, locked (tenants first, by number), counted and audited.

A status (S1-S3) is stored with each row; that of a tenant or an environment follows from its data sources.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from configdb_sync.clock import Clock, new_run_id
from configdb_sync.store import tenant_schema
from configdb_sync.store.database import Database
from configdb_sync.tenants.status import Status, StatusCounts
from configdb_sync.web.refusals import refuse, shown
from configdb_sync.web.requests import tag_of_parts

TENANTS, HOLDINGS, RESOURCES = tenant_schema.TENANTS, tenant_schema.HOLDINGS, tenant_schema.RESOURCES
LIVE = sa.or_(HOLDINGS.c.home, HOLDINGS.c.size > 0)
"""The condition for holdings whose path names anything."""


@dataclass(frozen=True)
class ChangeInfo:
    """Who makes a change, from where, in which request, and when (microseconds since 1970, UTC)."""

    actor: str
    origin: str
    request: str
    time: int


def microseconds(clock: Clock) -> int:
    """Return the time of a clock in microseconds since 1970, UTC."""
    now = clock.now()
    return int(now.timestamp()) * 1_000_000 + now.microsecond


def change_now(clock: Clock, actor: str, origin: str) -> ChangeInfo:
    """Return the information on a change that is made now."""
    return ChangeInfo(actor, origin, new_run_id(), microseconds(clock))


@dataclass(frozen=True)
class StatusRow:
    """What rows of tenants, environments and data sources have in common."""

    number: int
    status: Status | None
    details: str | None
    version: int
    tag: int
    created: int
    updated: int


@dataclass(frozen=True)
class Tenant(StatusRow):
    """A tenant. ``deleted``: when it was marked for deletion, None if it isn't."""

    id: str
    metadata: dict[str, str]
    updatable: bool
    counts: StatusCounts
    deleted: int | None
    purge_after: int | None

    @property
    def etag(self) -> str:
        """The entity tag of its representation."""
        return tag_of_parts("tenant", self.id, self.created, self.version)

    @property
    def project(self) -> str:
        """The project whose users may read it (T12)."""
        return self.metadata.get("project_id", self.id)


@dataclass(frozen=True)
class Holding(StatusRow):
    """What one tenant has in one environment; ``home``: new data sources go there."""

    tenant: int
    environment: int
    home: bool
    counts: StatusCounts

    @property
    def live(self) -> bool:
        """Whether its path names anything."""
        return self.home or self.counts.size > 0

    def etag(self, tenant: str) -> str:
        """Return the entity tag of its representation."""
        return tag_of_parts("environment", tenant, self.number, self.created, self.version)


@dataclass(frozen=True)
class Resource(StatusRow):
    """A data source. ``definition`` is its ID in ConfigDB, ``run`` the run that is processing it."""

    holding: int
    environment: int
    name: str
    definition: int | None
    entered: int
    run: str | None

    def etag(self, tenant: str) -> str:
        """Return the entity tag of its representation."""
        return tag_of_parts("data source", tenant, self.number, self.created, self.version)


def _status(stored: str | None) -> Status | None:
    return None if stored is None else Status(stored)


# Rows are read by position, in the order of the tables' columns: every request reads some, and access by name costs
# several times as much.


def tenant_of(row: Sequence[Any]) -> Tenant:
    """Return a row of ``tenants`` as a value."""
    number, id_, metadata, updatable, size, active, build, error, status, details, *times, deleted, purge_after = row
    version, tag, created, updated = times
    return Tenant(
        number,
        _status(status),
        details,
        version,
        tag,
        created,
        updated,
        id_,
        {} if metadata == "{}" else json.loads(metadata),
        bool(updatable),
        StatusCounts(size, active, build, error),
        deleted,
        purge_after,
    )


def holding_of(row: Sequence[Any]) -> Holding:
    """Return a row of ``tenant_holdings`` as a value."""
    number, tenant, environment, home, size, active, build, error, status, details, *times = row
    version, tag, created, updated = times
    state = (number, _status(status), details, version, tag, created, updated)
    return Holding(*state, tenant, environment, bool(home), StatusCounts(size, active, build, error))


def resource_of(row: Sequence[Any]) -> Resource:
    """Return a row of ``tenant_resources`` as a value."""
    number, holding, environment, name, definition, entered, run, status, details, *times = row
    version, tag, created, updated = times
    state = (number, _status(status), details, version, tag, created, updated)
    return Resource(*state, holding, environment, name, definition, entered, run)


def find_tenant(connection: Connection, tenant: str) -> Tenant | None:
    """Return a tenant, marked for deletion or not; None if there is none."""
    row = connection.execute(_TENANT, {"tenant": tenant}).first()
    return None if row is None else tenant_of(row)


_TENANT = sa.select(TENANTS).where(TENANTS.c.id == sa.bindparam("tenant"))


def require_tenant(found: Tenant | None, tenant: str) -> Tenant:
    """Return a tenant that exists and isn't marked for deletion. Raises ``RefusalError`` 404, 410."""
    if found is None:
        raise refuse(404, f"there is no tenant {shown(tenant)}")
    if found.deleted is not None:
        raise refuse(410, f"tenant {shown(tenant)} is marked for deletion; it can be recovered for some time")
    return found


def find_holding(connection: Connection, tenant: int, environment: int) -> Holding | None:
    """Return what a tenant has in an environment, live or not."""
    row = connection.execute(_HOLDING, {"tenant": tenant, "environment": environment}).first()
    return None if row is None else holding_of(row)


_HOLDING = sa.select(HOLDINGS).where(
    HOLDINGS.c.tenant == sa.bindparam("tenant"), HOLDINGS.c.environment == sa.bindparam("environment")
)


def holdings_of(connection: Connection, tenant: int) -> list[Holding]:
    """Return what a tenant has, by environment, without empty holdings."""
    statement = sa.select(HOLDINGS).where(HOLDINGS.c.tenant == tenant, LIVE).order_by(HOLDINGS.c.environment)
    return [holding_of(row) for row in connection.execute(statement)]


def find_resource(connection: Connection, environment: int, name: str) -> Resource | None:
    """Return a data source by its name, which is unique in an environment, whoever owns it."""
    row = connection.execute(_RESOURCE, {"environment": environment, "name": name}).first()
    return None if row is None else resource_of(row)


_RESOURCE = sa.select(RESOURCES).where(
    RESOURCES.c.environment == sa.bindparam("environment"), RESOURCES.c.name == sa.bindparam("name")
)


ALIGN, PURGE = "align", "purge"
"""Kinds of work in the outbox."""


@dataclass(frozen=True)
class Work:
    """A transaction of the registry: its connection, and the change that it makes."""

    database: Database
    connection: Connection
    change: ChangeInfo

    @property
    def time(self) -> int:
        """When the change is made."""
        return self.change.time

    def lock(self, tenants: Iterable[str]) -> dict[str, Tenant]:
        """Return tenants by ID, locked until the transaction ends; what they own changes only under this lock."""
        return {row.id: row for row in self._locked(TENANTS.c.id.in_(list(tenants)))}

    def lock_numbers(self, numbers: Iterable[int]) -> dict[int, Tenant]:
        """Return tenants by number, locked."""
        return {row.number: row for row in self._locked(TENANTS.c.number.in_(list(numbers)))}

    def _locked(self, chosen: sa.ColumnElement[bool]) -> list[Tenant]:
        statement = sa.select(TENANTS).where(chosen).order_by(TENANTS.c.number).with_for_update()
        return [tenant_of(row) for row in self.connection.execute(statement)]

    def holding(self, tenant: Tenant, environment: int) -> Holding:
        """Return what a tenant has in an environment; an empty holding is made if there is none."""
        found = find_holding(self.connection, tenant.number, environment)
        if found is None:
            values = {"tenant": tenant.number, "environment": environment, "created": self.time, "updated": self.time}
            self.connection.execute(self.database.insert(HOLDINGS).values(values))
            found = find_holding(self.connection, tenant.number, environment)
            assert found is not None
        return found

    def count(self, whole: Tenant | Holding, change: StatusCounts, **more: object) -> None:
        """Add to the counters of a locked tenant or one of its holdings; ``whole`` must be as stored.

        ``more``: other columns to set.
        """
        table = TENANTS if isinstance(whole, Tenant) else HOLDINGS
        counts = whole.counts + change
        values: dict[str, object] = {
            **vars(counts),
            "status": counts.status,
            "status_details": counts.details,
            "version": table.c.version + 1,
            "tag": table.c.tag + 1,
            "updated": self.time,
            **more,
        }
        self.connection.execute(sa.update(table).where(table.c.number == whole.number).values(values))

    def audit(self, tenant: str, path: str, action: str, **details: Any) -> None:
        """Add an entry to the audit trail (T15); ``path`` is the path below the tenant."""
        self.connection.execute(
            sa.insert(tenant_schema.AUDIT).values(
                **vars(self.change),
                tenant=tenant,
                path=path,
                action=action,
                details=json.dumps(details, sort_keys=True),
            )
        )

    def enqueue(self, environment: int, kind: str = ALIGN, body: Any = None) -> None:
        """Add work on an environment in ConfigDB to the outbox; it follows this transaction."""
        self.connection.execute(
            sa.insert(tenant_schema.OUTBOX).values(
                kind=kind, environment=environment, body=json.dumps(body), noted=self.time, tries=0
            )
        )
