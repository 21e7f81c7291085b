"""Representations of tenants, environments, data sources and audit entries (T2, S1), and the body of a PUT (T4). Pure.

The answers for the most recently requested small tenants are cached by their rows, which are read for each request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any
from wsgiref.handlers import format_date_time

from configdb_sync.tenants.paths import VERSION, ResourcePath
from configdb_sync.tenants.queries import AuditEntry, Page, Values, metadata_of, tenant_and_environments
from configdb_sync.tenants.rows import Holding, Resource, StatusRow, Tenant, require_tenant
from configdb_sync.tenants.status import word_of
from configdb_sync.web.refusals import refuse, shown
from configdb_sync.web.requests import encoded
from configdb_sync.web.responses import HeaderLines, json_body

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # all times here are UTC; a zone would be cut off again
STATUS_FIELDS = frozenset({"status", "status_details"})


def moment(time: int) -> str:
    """Return microseconds since 1970 as ISO 8601 in UTC."""
    return (_EPOCH + timedelta(microseconds=time)).isoformat(timespec="microseconds") + "Z"


def _state(state: StatusRow) -> dict[str, Any]:
    return {
        "status": word_of(state.status),
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
        "links": {"self": ResourcePath(tenant.id).url},
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
        "resources_next": page.marker and _next(f"{ResourcePath(tenant).url}/environments", page.marker, limit),
    }


def environment_item(tenant: str, holding: Holding) -> dict[str, Any]:
    """Return an environment of a tenant as a list shows it."""
    place = ResourcePath(tenant, holding.environment)
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
    base = f"{ResourcePath(tenant, holding.environment).url}/resources"
    return {
        **environment_item(tenant, holding),
        "tenant": tenant,
        "resources": [resource_item(tenant, resource) for resource in page.items],
        "resources_next": _next(base, page.marker, limit),
    }


def resource_item(tenant: str, resource: Resource) -> dict[str, Any]:
    """Return a data source."""
    place = ResourcePath(tenant, resource.environment, resource.name)
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
    return {"tenants": [tenant_item(tenant) for tenant in page.items], "tenants_next": _next(base, page.marker, limit)}


def audit_view(base: str, page: Page[AuditEntry], limit: int) -> dict[str, Any]:
    """Return a page of the audit trail."""
    return {"entries": [entry_item(entry) for entry in page.items], "entries_next": _next(base, page.marker, limit)}


def entry_item(entry: AuditEntry) -> dict[str, Any]:
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


def state_headers(tenant: str, state: StatusRow, etag: str, count: int | None = None) -> HeaderLines:
    """Return the metadata headers of GET and HEAD (T3)."""
    headers = [
        ("ETag", f'"{etag}"'),
        ("Last-Modified", format_date_time(state.updated // 1_000_000)),
        ("X-Tenant-Id", encoded(tenant)),
        ("X-Resource-Status", word_of(state.status) or "null"),
        ("Cache-Control", "no-cache"),
    ]
    if count is not None:
        headers.append(("X-Resource-Count", str(count)))
    return tuple(headers)


def chosen(view: Mapping[str, Any], fields: frozenset[str] | None) -> Mapping[str, Any]:
    """Return the requested fields; None: all."""
    return view if fields is None else {name: value for name, value in view.items() if name in fields}


LONGEST_KEY = 255
LONGEST_VALUE = 1024
MOST = 64

IGNORED = frozenset(
    {"created_at", "updated_at", "resources", "resources_next", "resource_count", "links", "updatable", "project_id"}
)
"""Fields of a representation that a PUT may contain and that have no effect."""

_KNOWN = IGNORED | {"id", "metadata", "status", "status_details"}


@dataclass(frozen=True)
class TenantBody:
    """The body of a PUT: the metadata, and the status fields that it repeats."""

    metadata: dict[str, str]
    status: dict[str, Any]


def read_body(body: Any, tenant: str) -> TenantBody:
    """Return the content of the JSON body of a PUT. Raises ``RefusalError`` 400 that names the field."""
    fields = body.get("tenant", body) if isinstance(body, dict) else body
    if not isinstance(fields, dict) or (fields is not body and len(body) != 1):
        raise refuse(400, "the body must be an object: a tenant's representation")
    unknown = sorted(str(name) for name in fields if name not in _KNOWN)
    if unknown:
        raise refuse(400, f"a tenant has no field {shown(unknown[0])}")
    if "id" in fields and fields["id"] != tenant:
        raise refuse(400, f"the body's id is not that of the URL: {shown(fields['id'])}")
    status = {name: fields[name] for name in ("status", "status_details") if name in fields}
    return TenantBody(_metadata(fields.get("metadata", {})), status)


def _metadata(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise refuse(400, "metadata must be an object of texts")
    if len(value) > MOST:
        raise refuse(400, f"metadata has {len(value)} keys, {MOST} are allowed")
    for key, text in value.items():
        if not isinstance(text, str):
            raise refuse(400, f"metadata {shown(key)} must be a text")
        for what, each, longest in (("key", key, LONGEST_KEY), ("value", text, LONGEST_VALUE)):
            if len(each) > longest:
                raise refuse(400, f"a metadata {what} has {len(each)} characters, {longest} are allowed")
            if "\0" in each or any("\ud800" <= one <= "\udfff" for one in each):
                raise refuse(400, f"the metadata {what} {shown(each)} holds NUL or half a surrogate pair")
        if not key:
            raise refuse(400, "a metadata key is empty")
    return dict(sorted(value.items()))


_MOST_ROWS = 10
_LONGEST_METADATA = 8192


@dataclass(frozen=True)
class TenantAnswer:
    """A tenant with a page of its environments, and its whole representation: entity tag, headers, body."""

    tenant: Tenant
    page: Page[Holding]
    etag: str
    headers: HeaderLines
    body: bytes


def tenant_answer(rows: Values, tenant: str, limit: int) -> TenantAnswer:
    """Return the answer for the rows of a tenant (``queries.tenant_rows``). Raises ``RefusalError`` 404, 410."""
    if not rows:
        require_tenant(None, tenant)
    small = len(rows) <= _MOST_ROWS and len(metadata_of(rows)) <= _LONGEST_METADATA
    found = _cached(rows, limit) if small else _new_answer(rows, limit)
    require_tenant(found.tenant, tenant)
    return found


def _new_answer(rows: Values, limit: int) -> TenantAnswer:
    tenant, page = tenant_and_environments(rows, limit)
    etag = tenant.etag
    headers = state_headers(tenant.id, tenant, etag, tenant.counts.size)
    return TenantAnswer(tenant, page, etag, headers, json_body(tenant_view(tenant, page, limit)))


_cached = lru_cache(maxsize=256)(_new_answer)
