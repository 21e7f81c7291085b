"""Rows of the registry as values, how they are read, and how they are locked: tenants first, by number."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from configdb_sync.store import schema
from configdb_sync.store.database import Database
from configdb_sync.tenants import etags
from configdb_sync.tenants.status import Counts, Status
from configdb_sync.web.refusals import refuse, shown

TENANTS, HOLDINGS, RESOURCES = schema.TENANTS, schema.HOLDINGS, schema.RESOURCES


@dataclass(frozen=True)
class Change:
    """Who changes something, from where, in which request, and when (microseconds since 1970, UTC)."""

    actor: str
    origin: str
    request: str
    time: int


@dataclass(frozen=True)
class Work:
    """One transaction of the registry: its connection, and the change that it makes."""

    database: Database
    connection: Connection
    change: Change

    @property
    def time(self) -> int:
        """When the change is made."""
        return self.change.time


@dataclass(frozen=True)
class State:
    """What tenants, environments and data sources have alike."""

    number: int
    status: Status | None
    details: str | None
    version: int
    tag: int
    created: int
    updated: int


@dataclass(frozen=True)
class Tenant(State):
    """A tenant. ``deleted``: when it was marked for deletion, None if it isn't."""

    id: str
    metadata: dict[str, str]
    updatable: bool
    counts: Counts
    deleted: int | None
    purge_after: int | None

    @property
    def etag(self) -> str:
        """The tag of its representation."""
        return etags.of_parts("tenant", self.id, self.created, self.version)

    @property
    def project(self) -> str:
        """The project whose users may read it (T12)."""
        return self.metadata.get("project_id", self.id)


@dataclass(frozen=True)
class Holding(State):
    """What one tenant has in one environment; ``home``: new data sources go there."""

    tenant: int
    environment: int
    home: bool
    counts: Counts

    @property
    def live(self) -> bool:
        """Whether there is anything at its path."""
        return self.home or self.counts.size > 0

    def etag(self, tenant: str) -> str:
        """Return the tag of its representation."""
        return etags.of_parts("environment", tenant, self.number, self.created, self.version)


@dataclass(frozen=True)
class Resource(State):
    """A data source. ``definition`` is its id in ConfigDB, ``run`` the run at work on it."""

    holding: int
    environment: int
    name: str
    definition: int | None
    entered: int
    run: str | None

    def etag(self, tenant: str) -> str:
        """Return the tag of its representation."""
        return etags.of_parts("data source", tenant, self.number, self.created, self.version)


def _status(stored: str | None) -> Status | None:
    return None if stored is None else Status(stored)


# Rows are read by place, in the order of the tables' columns: every request reads some, and names cost several times
# as much.


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
        Counts(size, active, build, error),
        deleted,
        purge_after,
    )


def holding_of(row: Sequence[Any]) -> Holding:
    """Return a row of ``tenant_holdings`` as a value."""
    number, tenant, environment, home, size, active, build, error, status, details, *times = row
    version, tag, created, updated = times
    state = (number, _status(status), details, version, tag, created, updated)
    return Holding(*state, tenant, environment, bool(home), Counts(size, active, build, error))


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


def there(found: Tenant | None, tenant: str) -> Tenant:
    """Return a tenant that is there and not marked for deletion. Raises ``RefusalError`` 404, 410."""
    if found is None:
        raise refuse(404, f"there is no tenant {shown(tenant)}")
    if found.deleted is not None:
        raise refuse(410, f"tenant {shown(tenant)} is marked for deletion; it can be recovered for some time")
    return found


def locked(connection: Connection, tenants: Iterable[str]) -> dict[str, Tenant]:
    """Return tenants by ID, locked until the transaction ends; what belongs to them changes under this lock alone."""
    statement = sa.select(TENANTS).where(TENANTS.c.id.in_(list(tenants))).order_by(TENANTS.c.number).with_for_update()
    return {row.id: tenant_of(row) for row in connection.execute(statement)}


def locked_numbers(connection: Connection, numbers: Iterable[int]) -> dict[int, Tenant]:
    """Return tenants by number, locked."""
    chosen = TENANTS.c.number.in_(list(numbers))
    statement = sa.select(TENANTS).where(chosen).order_by(TENANTS.c.number).with_for_update()
    return {row.number: tenant_of(row) for row in connection.execute(statement)}


def find_holding(connection: Connection, tenant: int, environment: int) -> Holding | None:
    """Return what a tenant has in an environment, live or not."""
    row = connection.execute(_HOLDING, {"tenant": tenant, "environment": environment}).first()
    return None if row is None else holding_of(row)


_HOLDING = sa.select(HOLDINGS).where(
    HOLDINGS.c.tenant == sa.bindparam("tenant"), HOLDINGS.c.environment == sa.bindparam("environment")
)


def holdings_of(connection: Connection, tenant: int) -> list[Holding]:
    """Return all that a tenant has, by environment; empty ones that nothing is at left out."""
    live = sa.or_(HOLDINGS.c.home, HOLDINGS.c.size > 0)
    statement = sa.select(HOLDINGS).where(HOLDINGS.c.tenant == tenant, live).order_by(HOLDINGS.c.environment)
    return [holding_of(row) for row in connection.execute(statement)]


def find_resource(connection: Connection, environment: int, name: str) -> Resource | None:
    """Return a data source by its name, which is given once in an environment, whoever owns it."""
    row = connection.execute(_RESOURCE, {"environment": environment, "name": name}).first()
    return None if row is None else resource_of(row)


_RESOURCE = sa.select(RESOURCES).where(
    RESOURCES.c.environment == sa.bindparam("environment"), RESOURCES.c.name == sa.bindparam("name")
)
