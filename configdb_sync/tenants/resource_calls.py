"""The calls on environments and data sources of a tenant, and the lists (T2, T7, T15)."""

from __future__ import annotations

from configdb_sync.tenants import listing, views
from configdb_sync.tenants.answers import Answer, json_answer
from configdb_sync.tenants.context import Context
from configdb_sync.tenants.document_calls import levels_of, show_effective
from configdb_sync.tenants.locating import Live, Moved
from configdb_sync.tenants.pages import fields_of, limit_of, number_of, place_of, unchanged
from configdb_sync.tenants.paths import Place
from configdb_sync.tenants.requests import Request
from configdb_sync.tenants.rows import Tenant
from configdb_sync.web.refusals import refuse


def located(context: Context, request: Request, place: Place) -> Live:
    """Return what is live at a place. Raises ``RefusalError`` 301 where it has moved on (public: 404), 404, 410."""
    request.conditions()  # a malformed one is told even where there is a redirect
    _, found = context.registry.locate(place)
    if isinstance(found, Moved):
        if not request.caller.admin:
            raise refuse(404, "there is nothing at this URL")
        url = place.under(found.owner.id).url + ("" if request.query is None else f"?{request.query}")
        raise refuse(301, "it has been moved", ("Location", url))
    return found


def show_place(context: Context, request: Request) -> Answer:
    """GET, HEAD of an environment or a data source of a tenant: 200 (HEAD 204), 203, 301, 304."""
    parameters = request.parameters("fields", "limit", "level")
    fields, limit, levels = fields_of(parameters), limit_of(context, parameters), levels_of(parameters)
    place, fresh = request.place, True
    live = located(context, request, place)
    if levels is not None and context.client is not None:
        return show_effective(context, request, live, levels)
    if context.pull.asks and (fields is None or fields & views.STATUS_FIELDS):
        fresh = context.pull.refresh(place)
        live = located(context, request, place)
    holding, resource = live.holding, live.resource
    if resource is not None:
        etag = resource.etag(place.tenant)
        headers = views.state_headers(place.tenant, resource, etag)
    else:
        etag = holding.etag(place.tenant)
        headers = views.state_headers(place.tenant, holding, etag, holding.counts.size)
    answer = unchanged(request, etag, headers)
    if answer is not None:
        return answer
    if request.method == "HEAD":
        return Answer(204, headers=headers)
    if resource is not None:
        view = views.resource_item(place.tenant, resource)
    else:
        page = context.registry.read(lambda one: listing.resources(one, holding.number, None, limit))
        view = views.environment_view(place.tenant, holding, page, limit)
    return json_answer(views.chosen(view, fields), 200 if fresh else 203, headers)


def list_environments(context: Context, request: Request, tenant: Tenant) -> Answer:
    """GET /v1.0/<tenantId>/environments."""
    parameters = request.parameters("limit", "marker")
    limit, marker = limit_of(context, parameters), number_of(parameters)
    page = context.registry.read(lambda one: listing.environments(one, tenant.number, marker, limit))
    return json_answer(views.environments_view(tenant.id, page, limit))


def list_resources(context: Context, request: Request, tenant: Tenant) -> Answer:
    """GET /v1.0/<tenantId>/resources, and .../environments/<env>/resources."""
    parameters, place = request.parameters("limit", "marker"), request.place
    limit = limit_of(context, parameters)
    if place.environment is None:
        after = place_of(parameters)
        page = context.registry.read(lambda one: listing.all_resources(one, tenant.number, after, limit))
    else:
        holding = located(context, request, place).holding
        name = parameters.get("marker")
        page = context.registry.read(lambda one: listing.resources(one, holding.number, name, limit))
    return json_answer(views.resources_view(f"{place.url}/resources", tenant.id, page, limit))


def list_tenants(context: Context, request: Request) -> Answer:
    """GET /v1.0: tenants by ID; with ``recoverable=true`` those marked for deletion."""
    parameters = request.parameters("limit", "marker", "recoverable")
    limit, marker = limit_of(context, parameters), parameters.get("marker")
    told = parameters.get("recoverable", "false")
    if told not in {"true", "false"}:
        raise refuse(400, "recoverable must be true or false")
    recoverable = told == "true"
    page = context.registry.read(lambda one: listing.tenants(one, marker, limit, recoverable=recoverable))
    return json_answer(views.tenants_view(page, limit, recoverable=recoverable))


def show_audit(context: Context, request: Request) -> Answer:
    """GET /audit, and /v1.0/<tenantId>/audit (also of a tenant that is no more): newest first."""
    parameters = request.parameters("limit", "marker")
    limit, marker = limit_of(context, parameters), number_of(parameters)
    tenant = None if request.route.place is None else request.place.tenant
    page = context.registry.read(lambda one: listing.audit(one, tenant, marker, limit))
    base = "/audit" if tenant is None else f"{request.place.url}/audit"
    return json_answer(views.audit_view(base, page, limit))
