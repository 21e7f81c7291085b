"""The calls on a tenant as a whole (T2-T6)."""

from __future__ import annotations

from configdb_sync.tenants import listing, views
from configdb_sync.tenants.answers import Answer, json_answer
from configdb_sync.tenants.context import Context
from configdb_sync.tenants.metadata import read_body
from configdb_sync.tenants.pages import fields_of, limit_of, unchanged
from configdb_sync.tenants.requests import Request, read_json, refuse_body
from configdb_sync.tenants.rows import Change
from configdb_sync.tenants.showing import shown


def change_of(request: Request) -> Change:
    """Return who changes something by a request, from where, when."""
    origin = str(request.environ.get("REMOTE_ADDR") or "")
    return Change(request.caller.name, origin, request.identity, request.time)


def show_tenant(context: Context, request: Request) -> Answer:
    """GET, HEAD /v1.0/<tenantId>: 200 (HEAD 204), 203 where ConfigDB couldn't be asked, 304 (T2, T3)."""
    parameters = request.parameters("fields", "limit")
    fields, limit = fields_of(parameters), limit_of(context, parameters)
    fresh = True
    if context.pull.asks and (fields is None or fields & views.STATUS_FIELDS):
        fresh = context.pull.refresh(request.place)
    name = request.place.tenant
    found = shown(context.registry.tenant_rows(name, limit), name, limit)
    answer = unchanged(request, found.etag, found.headers)
    if answer is not None:
        return answer
    if request.method == "HEAD":
        return Answer(204, headers=found.headers)
    status = 200 if fresh else 203
    if fields is None:
        return Answer(status, found.body, found.headers)
    view = views.tenant_view(found.tenant, found.page, limit)
    return json_answer(views.chosen(view, fields), status, found.headers)


def put_tenant(context: Context, request: Request) -> Answer:
    """PUT /v1.0/<tenantId>: 201 made, 202 modified (T4)."""
    request.parameters()
    conditions = request.conditions()
    value = read_json(request.environ, context.limits.body)
    body = None if value is ... else read_body(value, request.place.tenant)
    tenant, made = context.registry.put(change_of(request), request.place.tenant, body, conditions)
    headers = views.state_headers(tenant.id, tenant, tenant.etag, tenant.counts.size)
    limit = context.limits.page
    held = context.registry.read(lambda one: listing.environments(one, tenant.number, None, limit))
    location = (("Location", request.place.url),) if made else ()
    return json_answer(views.tenant_view(tenant, held, limit), 201 if made else 202, headers + location)


def delete_tenant(context: Context, request: Request) -> Answer:
    """DELETE /v1.0/<tenantId>: 204 at once (T5)."""
    request.parameters()
    conditions = request.conditions()
    refuse_body(request.environ)
    context.registry.mark(change_of(request), request.place.tenant, context.limits.retention, conditions)
    context.follower.wake()
    return Answer(204)


def recover_tenant(context: Context, request: Request) -> Answer:
    """POST /v1.0/<tenantId>/action/recover: 204 (T6)."""
    request.parameters()
    refuse_body(request.environ)
    context.registry.recover(change_of(request), request.place.tenant)
    return Answer(204)
