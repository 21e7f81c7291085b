"""Representations (T2, S1): what GET shows of tenants, environments, data sources and entries. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from wsgiref.handlers import format_date_time

from configdb_sync.tenants.answers import Headers
from configdb_sync.tenants.listing import Entry, Page
from configdb_sync.tenants.paths import VERSION, Place
from configdb_sync.tenants.rows import Holding, Resource, State, Tenant
from configdb_sync.web.requests import encoded

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # all times here are UTC; a zone would be cut off again
STATUS_FIELDS = frozenset({"status", "status_details"})


def moment(time: int) -> str:
    """Return microseconds since 1970 as ISO 8601 in UTC."""
    return (_EPOCH + timedelta(microseconds=time)).isoformat(timespec="microseconds") + "Z"


def _state(state: State) -> dict[str, Any]:
    return {
        "status": None if state.status is None else state.status.shown,
        "status_details": state.details,
        "created_at": moment(state.created),
        "updated_at": moment(state.updated),
    }


def tenant_item(tenant: Tenant) -> dict[str, Any]:
    """Return a tenant as a list shows it."""
    found = {
        "id": tenant.id,
        "metadata": tenant.metadata,
        "updatable": tenant.updatable,
        "resource_count": tenant.counts.size,
        **_state(tenant),
        "links": {"self": Place(tenant.id).url},
    }
    if tenant.deleted is not None and tenant.purge_after is not None:
        found |= {"deleted_at": moment(tenant.deleted), "recoverable_until": moment(tenant.purge_after)}
    return found


def tenant_view(tenant: Tenant, page: Page[Holding], limit: int) -> dict[str, Any]:
    """Return a tenant's representation, with a page of its environments."""
    return {**tenant_item(tenant), **environments_view(tenant.id, page, limit)}


def environments_view(tenant: str, page: Page[Holding], limit: int) -> dict[str, Any]:
    """Return a page of a tenant's top-level resources."""
    return {
        "resources": [environment_item(tenant, holding) for holding in page.items],
        "resources_next": page.marker and _next(f"{Place(tenant).url}/environments", page.marker, limit),
    }


def environment_item(tenant: str, holding: Holding) -> dict[str, Any]:
    """Return an environment of a tenant as a list shows it."""
    place = Place(tenant, holding.environment)
    return {
        "id": place.path,
        "environment": holding.environment,
        "home": holding.home,
        "resource_count": holding.counts.size,
        **_state(holding),
        "links": {"self": place.url},
    }


def environment_view(tenant: str, holding: Holding, page: Page[Resource], limit: int) -> dict[str, Any]:
    """Return the representation of what a tenant has in an environment, with a page of its data sources."""
    base = f"{Place(tenant, holding.environment).url}/resources"
    return {
        **environment_item(tenant, holding),
        "tenant": tenant,
        "resources": [resource_item(tenant, resource) for resource in page.items],
        "resources_next": _next(base, page.marker, limit),
    }


def resource_item(tenant: str, resource: Resource) -> dict[str, Any]:
    """Return a data source."""
    place = Place(tenant, resource.environment, resource.name)
    return {
        "id": place.path,
        "tenant": tenant,
        "environment": resource.environment,
        "name": resource.name,
        **_state(resource),
        "links": {"self": place.url},
    }


def resources_view(base: str, tenant: str, page: Page[Resource], limit: int) -> dict[str, Any]:
    """Return a page of data sources."""
    return {
        "resources": [resource_item(tenant, resource) for resource in page.items],
        "resources_next": _next(base, page.marker, limit),
    }


def tenants_view(page: Page[Tenant], limit: int, *, recoverable: bool) -> dict[str, Any]:
    """Return a page of tenants."""
    base = f"/{VERSION}?recoverable=true" if recoverable else f"/{VERSION}"
    return {
        "tenants": [tenant_item(tenant) for tenant in page.items],
        "tenants_next": _next(base, page.marker, limit),
    }


def audit_view(base: str, page: Page[Entry], limit: int) -> dict[str, Any]:
    """Return a page of the audit trail."""
    return {
        "entries": [entry_item(entry) for entry in page.items],
        "entries_next": _next(base, page.marker, limit),
    }


def entry_item(entry: Entry) -> dict[str, Any]:
    """Return an entry of the audit trail: who, when, from where, what."""
    return {
        "number": entry.number,
        "time": moment(entry.time),
        "tenant": entry.tenant,
        "path": entry.path,
        "action": entry.action,
        "actor": entry.actor,
        "origin": entry.origin,
        "request_id": entry.request,
        "details": entry.details,
    }


def _next(base: str, marker: str | None, limit: int) -> str | None:
    if marker is None:
        return None
    return f"{base}{'&' if '?' in base else '?'}limit={limit}&marker={encoded(marker)}"


def state_headers(tenant: str, state: State, etag: str, count: int | None = None) -> Headers:
    """Return the metadata headers that GET and HEAD have alike (T3)."""
    headers = [
        ("ETag", f'"{etag}"'),
        ("Last-Modified", format_date_time(state.updated // 1_000_000)),
        ("X-Tenant-Id", encoded(tenant)),
        ("X-Resource-Status", "null" if state.status is None else state.status.shown),
        ("Cache-Control", "no-cache"),
    ]
    if count is not None:
        headers.append(("X-Resource-Count", str(count)))
    return tuple(headers)


def chosen(view: Mapping[str, Any], fields: frozenset[str] | None) -> Mapping[str, Any]:
    """Return the fields asked for; all without a word."""
    return view if fields is None else {name: value for name, value in view.items() if name in fields}
