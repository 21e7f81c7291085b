"""The calls of the API on tenants, environments and data sources, their documents and their moves (T2-T11, T15).

Documents are read from ConfigDB by the definition ID that the registry has for the path: a tenant's users see the
values of their own tenant only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from configdb_sync.configdb import api_paths, changes
from configdb_sync.errors import (
    ConflictError,
    MissingError,
    PreconditionError,
    ProductError,
    RefusedError,
    SettingsError,
    UnavailableError,
)
from configdb_sync.jsonvalues import document_digest
from configdb_sync.names import LevelPath
from configdb_sync.tenants import paths, queries, representations
from configdb_sync.tenants.paths import ResourcePath
from configdb_sync.tenants.queries import Located, Moved
from configdb_sync.tenants.representations import read_body, tenant_answer
from configdb_sync.tenants.requests import Context, TenantRequest, read_json, refuse_body, wants_xml
from configdb_sync.tenants.rows import ChangeInfo, Resource, Tenant, microseconds
from configdb_sync.web.refusals import RefusalError, refuse
from configdb_sync.web.requests import tag_of_body, tag_of_parts
from configdb_sync.web.responses import ApiResponse, HeaderLines, json_response


def limit_of(context: Context, parameters: Mapping[str, str]) -> int:
    """Return the number of items that a page may have. Raises ``RefusalError`` 400."""
    text = parameters.get("limit")
    if text is None:
        return context.limits.page
    if not (text.isascii() and text.isdigit()) or len(text) > 1000 or int(text) == 0:
        raise refuse(400, "limit must be a number from 1")
    return min(int(text), context.limits.longest)


def number_of(parameters: Mapping[str, str]) -> int | None:
    """Return the marker of a list that is ordered by numbers. Raises ``RefusalError`` 400."""
    text = parameters.get("marker")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise refuse(400, "marker must be a number")
    return int(text)


def place_of(parameters: Mapping[str, str]) -> tuple[int, str] | None:
    """Return the marker ``<environment>/<data source>``. Raises ``RefusalError`` 400."""
    text = parameters.get("marker")
    if text is None:
        return None
    number, slash, name = text.partition("/")
    if not (slash and number.isascii() and number.isdigit()) or len(number) > 18:
        raise refuse(400, "marker must be an environment's number, a slash and a data source")
    return int(number), name


def fields_of(parameters: Mapping[str, str]) -> frozenset[str] | None:
    """Return the requested fields, None for all."""
    text = parameters.get("fields")
    return None if text is None else frozenset(one for one in text.split(",") if one)


def unchanged(request: TenantRequest, etag: str, headers: HeaderLines) -> ApiResponse | None:
    """Return 304 if If-None-Match requires it, else None. Raises ``RefusalError`` 412 by If-Match, 400."""
    if not request.conditional:
        return None
    conditions = request.conditions()
    if not conditions.matches(etag):
        raise refuse(412, "it isn't what If-Match names")
    return None if conditions.none_matches(etag) else ApiResponse(304, headers=headers)


def read_answer(
    request: TenantRequest, etag: str, headers: HeaderLines, full: Callable[[], ApiResponse]
) -> ApiResponse:
    """Answer GET and HEAD: 304 by If-None-Match, 204 to HEAD, else ``full``. Raises ``RefusalError`` 412, 400."""
    answer = unchanged(request, etag, headers)
    if answer is not None:
        return answer
    return ApiResponse(204, headers=headers) if request.method == "HEAD" else full()


def change_of(request: TenantRequest) -> ChangeInfo:
    """Return who makes a change by a request, from where and when."""
    origin = str(request.environ.get("REMOTE_ADDR") or "")
    return ChangeInfo(request.caller.name, origin, request.identity, microseconds(request.clock))


def show_tenant(context: Context, request: TenantRequest) -> ApiResponse:
    """GET, HEAD /v1.0/<tenantId>: 200 (HEAD 204), 203 if ConfigDB is unavailable, 304 (T2, T3)."""
    parameters = request.parameters("fields", "limit")
    fields, limit = fields_of(parameters), limit_of(context, parameters)
    fresh = not _shows_status(context, fields) or context.refresh(request.place)
    name = request.place.tenant
    found = tenant_answer(context.registry.tenant_rows(name, limit), name, limit)

    def full() -> ApiResponse:
        status = 200 if fresh else 203
        if fields is None:
            return ApiResponse(status, found.body, found.headers)
        view = representations.tenant_view(found.tenant, found.page, limit)
        return json_response(representations.chosen(view, fields), status, found.headers)

    return read_answer(request, found.etag, found.headers, full)


def _shows_status(context: Context, fields: frozenset[str] | None) -> bool:
    return context.drivers is not None and (fields is None or bool(fields & representations.STATUS_FIELDS))


def put_tenant(context: Context, request: TenantRequest) -> ApiResponse:
    """PUT /v1.0/<tenantId>: 201 created, 202 modified (T4)."""
    request.parameters()
    conditions = request.conditions()
    value = read_json(request.environ, context.limits.body)
    body = None if value is ... else read_body(value, request.place.tenant)
    tenant, made = context.registry.put(change_of(request), request.place.tenant, body, conditions)
    headers = representations.state_headers(tenant.id, tenant, tenant.etag, tenant.counts.size)
    limit = context.limits.page
    held = context.registry.read(lambda one: queries.environments(one, tenant.number, None, limit))
    location = (("Location", request.place.url),) if made else ()
    return json_response(representations.tenant_view(tenant, held, limit), 201 if made else 202, headers + location)


def delete_tenant(context: Context, request: TenantRequest) -> ApiResponse:
    """DELETE /v1.0/<tenantId>: 204 at once (T5)."""
    request.parameters()
    conditions = request.conditions()
    refuse_body(request.environ)
    context.registry.mark(change_of(request), request.place.tenant, context.limits.retention, conditions)
    context.wake_worker()
    return ApiResponse(204)


def recover_tenant(context: Context, request: TenantRequest) -> ApiResponse:
    """POST /v1.0/<tenantId>/action/recover: 204 (T6)."""
    request.parameters()
    refuse_body(request.environ)
    context.registry.recover(change_of(request), request.place.tenant)
    return ApiResponse(204)


def located(context: Context, request: TenantRequest, place: ResourcePath) -> Located:
    """Return what a path names. Raises ``RefusalError`` 301 if it was moved (public endpoint: 404), 404, 410."""
    request.conditions()  # a malformed one is refused even if there is a redirect
    _, found = context.registry.locate(place)
    if isinstance(found, Moved):
        if not request.caller.admin:
            raise refuse(404, "there is nothing at this URL")
        url = place.under(found.owner.id).url + ("" if request.query is None else f"?{request.query}")
        raise refuse(301, "it has been moved", ("Location", url))
    return found


def show_place(context: Context, request: TenantRequest) -> ApiResponse:
    """GET, HEAD of an environment or a data source of a tenant: 200 (HEAD 204), 203, 301, 304."""
    parameters = request.parameters("fields", "limit", "level")
    fields, limit, levels = fields_of(parameters), limit_of(context, parameters), levels_of(parameters)
    place, fresh = request.place, True
    found = located(context, request, place)
    if levels is not None and context.client is not None:
        return _show_effective(context, request, found, levels)
    if _shows_status(context, fields):
        fresh = context.refresh(place)
        found = located(context, request, place)
    holding, resource = found.holding, found.resource
    row, size = (holding, holding.counts.size) if resource is None else (resource, None)
    etag = row.etag(place.tenant)
    headers = representations.state_headers(place.tenant, row, etag, size)

    def full() -> ApiResponse:
        if resource is not None:
            view = representations.resource_item(place.tenant, resource)
        else:
            page = context.registry.read(lambda one: queries.resources(one, holding.number, None, limit))
            view = representations.environment_view(place.tenant, holding, page, limit)
        return json_response(representations.chosen(view, fields), 200 if fresh else 203, headers)

    return read_answer(request, etag, headers, full)


def list_environments(context: Context, request: TenantRequest, tenant: Tenant) -> ApiResponse:
    """GET /v1.0/<tenantId>/environments."""
    parameters = request.parameters("limit", "marker")
    limit, marker = limit_of(context, parameters), number_of(parameters)
    page = context.registry.read(lambda one: queries.environments(one, tenant.number, marker, limit))
    return json_response(representations.environments_view(tenant.id, page, limit))


def list_resources(context: Context, request: TenantRequest, tenant: Tenant) -> ApiResponse:
    """GET /v1.0/<tenantId>/resources, and .../environments/<env>/resources."""
    parameters, place = request.parameters("limit", "marker"), request.place
    limit = limit_of(context, parameters)
    if place.environment is None:
        after = place_of(parameters)
        page = context.registry.read(lambda one: queries.all_resources(one, tenant.number, after, limit))
    else:
        holding = located(context, request, place).holding
        name = parameters.get("marker")
        page = context.registry.read(lambda one: queries.resources(one, holding.number, name, limit))
    return json_response(representations.resources_view(f"{place.url}/resources", tenant.id, page, limit))


def list_tenants(context: Context, request: TenantRequest) -> ApiResponse:
    """GET /v1.0: tenants by ID; with ``recoverable=true`` those marked for deletion."""
    return json_response(tenants_view(context, request.parameters("limit", "marker", "recoverable")))


def tenants_view(context: Context, parameters: Mapping[str, str]) -> dict[str, Any]:
    """Return a page of tenants, as the query's parameters ask for them. Raises ``RefusalError`` 400."""
    limit, marker = limit_of(context, parameters), parameters.get("marker")
    given = parameters.get("recoverable", "false")
    if given not in {"true", "false"}:
        raise refuse(400, "recoverable must be true or false")
    recoverable = given == "true"
    page = context.registry.read(lambda one: queries.tenants(one, marker, limit, recoverable=recoverable))
    return representations.tenants_view(page, limit, recoverable=recoverable)


def show_audit(context: Context, request: TenantRequest) -> ApiResponse:
    """GET /audit, and /v1.0/<tenantId>/audit (also of a tenant that no longer exists): newest first."""
    return json_response(audit_view(context, request.parameters("limit", "marker"), request.route.place))


def audit_view(context: Context, parameters: Mapping[str, str], place: ResourcePath | None) -> dict[str, Any]:
    """Return a page of the audit trail, of one tenant or of all. Raises ``RefusalError`` 400."""
    limit, marker = limit_of(context, parameters), number_of(parameters)
    tenant = None if place is None else place.tenant
    page = context.registry.read(lambda one: queries.audit(one, tenant, marker, limit))
    return representations.audit_view("/audit" if place is None else f"{place.url}/audit", page, limit)


def levels_of(parameters: Mapping[str, str]) -> LevelPath | None:
    """Return the hierarchy levels of ``level=nodes=46,...`` (empty: the root), None without it. Raises 400."""
    text = parameters.get("level")
    if text is None:
        return None
    try:
        levels = changes.parse_levels([text] if text else [])
        # A level that no URL of ConfigDB can contain is the request's fault, not ConfigDB's.
        api_paths.level_path(levels)
        return levels
    except SettingsError as error:
        raise refuse(400, error.what) from None


def _show_effective(context: Context, request: TenantRequest, found: Located, levels: LevelPath) -> ApiResponse:
    """Answer with a data source's effective data at a level; 203 without them if ConfigDB is unavailable (T2)."""
    resource, number = _defined(found)
    place = request.place
    view: dict[str, Any] = representations.resource_item(place.tenant, resource)
    view["level"] = dict(levels)
    try:
        assert context.client is not None
        effective = context.client().effective(resource.environment, levels, number)
    except UnavailableError:
        # The last known state. Documents aren't stored here, so that an outdated one is never shown.
        headers = representations.state_headers(place.tenant, resource, resource.etag(place.tenant))
        return json_response(view, 203, headers)
    except ProductError as error:
        raise _refused(error) from error
    etag = tag_of_parts(resource.etag(place.tenant), *levels, document_digest(effective))
    headers = representations.state_headers(place.tenant, resource, etag)
    return read_answer(request, etag, headers, lambda: json_response({**view, "effective": effective}, 200, headers))


def put_overrides(context: Context, request: TenantRequest) -> ApiResponse:
    """PUT .../resources/<data source>?level=: replace the overrides at a level by the body; 204.

    ``If-Match`` takes the ETag of the GET at that level. Raises ``RefusalError``.
    """
    levels = levels_of(request.parameters("level"))
    if levels is None:
        raise refuse(400, "the query must name the level: ?level=nodes=<id>, or ?level= for the root")
    if request.place.data_source is None or context.client is None:
        raise refuse(405, "only a data source can be overridden", ("Allow", "GET, HEAD"))
    body = read_json(request.environ, context.limits.body)
    if not isinstance(body, dict):
        raise refuse(400, "the body must be a JSON object: the overrides")
    conditions = request.conditions()
    _, found = context.registry.locate(request.place)
    if not isinstance(found, Located):
        raise refuse(301, "it has been moved", ("Location", request.place.under(found.owner.id).url))
    resource, number = _defined(found)
    client = context.client()
    try:
        tag = None
        if conditions.match is not None or conditions.none_match is not None:
            effective = client.effective(resource.environment, levels, number)
            conditions.check(tag_of_parts(resource.etag(request.place.tenant), *levels, document_digest(effective)))
            _, tag = client.tagged(resource.environment, levels, number, "overrides")
        client.put_overrides(resource.environment, levels, number, body, if_match=tag)
    except RefusalError:
        raise
    except ProductError as error:
        raise _refused(error) from error
    details = {"level": dict(levels), "keys": sorted(body)[:50]}
    context.registry.write(
        change_of(request),
        lambda work: work.audit(request.place.tenant, request.place.path, "override", **details),
    )
    return ApiResponse(204)


def _defined(found: Located) -> tuple[Resource, int]:
    """Return a data source and its definition ID. Raises ``RefusalError`` 400, 404."""
    if found.resource is None:
        raise refuse(400, "level is of data sources alone")
    if found.resource.definition is None:
        raise refuse(404, "ConfigDB has no such data source yet")
    return found.resource, found.resource.definition


def _refused(error: ProductError) -> RefusalError:
    """Return the answer to an error of ConfigDB, whose own text may name what isn't the tenant's."""
    if isinstance(error, MissingError):
        return refuse(404, "ConfigDB has no such level or data source")
    if isinstance(error, PreconditionError):
        return refuse(412, "it has changed meanwhile")
    if isinstance(error, RefusedError):
        return refuse(400, "ConfigDB doesn't take that at this level")
    if isinstance(error, ConflictError):
        return refuse(409, "others change it; try again")
    return refuse(503, "ConfigDB can't be asked now", ("Retry-After", "5"))


_STORED = ("Cache-Control", "no-store, no-transform")


def _destination(request: TenantRequest) -> str:
    """Return the query's ``dest``. Raises ``RefusalError`` 400 (T9)."""
    found = request.parameters("dest").get("dest")
    if not found:
        raise refuse(400, "the query must name the destination: ?dest=<tenantId>")
    return paths.tenant_id(found)


def show_move(context: Context, request: TenantRequest) -> ApiResponse:
    """GET .../action/move?dest=: 200 with the stored state, as JSON or XML by Accept (T10)."""
    target = _destination(request)
    request.conditions()  # a malformed one is refused even if there is a redirect
    action = context.registry.move_action(request.place, target)
    xml = wants_xml(request.environ)
    body, kind = (action.xml(), "application/xml; charset=UTF-8") if xml else (action.json(), "application/json")
    etag = tag_of_body(body)
    headers = (("ETag", f'"{etag}"'), _STORED, ("Vary", "Accept"))
    return unchanged(request, etag, headers) or ApiResponse(200, body, headers, kind)


def move(context: Context, request: TenantRequest) -> ApiResponse:
    """POST .../action/move?dest=: 303 to the new path; 301 to the action there if it was already moved (T7, T8)."""
    target = _destination(request)
    conditions = request.conditions()
    refuse_body(request.environ)
    if context.worker is not None:
        context.worker.check_movable()
    place = context.registry.move(change_of(request), request.place, target, conditions)
    context.wake_worker()
    return ApiResponse(303, headers=(("Location", place.url), _STORED))
