"""A data source's documents in ConfigDB through its tenant's path: read, and on the admin endpoint overridden.

They are asked for by the definition id that the registry holds for what is live at the path: a tenant's user sees its
own values and nobody else's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from configdb_sync.configdb import changes, paths
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
from configdb_sync.tenants import auditing, views
from configdb_sync.tenants.answers import Answer, json_answer
from configdb_sync.tenants.context import Context
from configdb_sync.tenants.etags import of_parts
from configdb_sync.tenants.locating import Live
from configdb_sync.tenants.pages import unchanged
from configdb_sync.tenants.requests import Request, read_json
from configdb_sync.tenants.rows import Resource
from configdb_sync.tenants.tenant_calls import change_of
from configdb_sync.web.refusals import RefusalError, refuse


def levels_of(parameters: Mapping[str, str]) -> LevelPath | None:
    """Return the hierarchy levels of ``level=nodes=46,...`` (empty: the root), None without it. Raises 400."""
    text = parameters.get("level")
    if text is None:
        return None
    try:
        levels = changes.parse_levels([text] if text else [])
        # What can stand in no address of ConfigDB is the request's fault, not ConfigDB's.
        paths.level_path(levels)
        return levels
    except SettingsError as error:
        raise refuse(400, error.what) from None


def show_effective(context: Context, request: Request, live: Live, levels: LevelPath) -> Answer:
    """Answer a data source with its effective data at a level; 203 without it where ConfigDB is away (T2)."""
    resource = _resource(live)
    place, number = request.place, _definition(resource)
    view: dict[str, Any] = views.resource_item(place.tenant, resource)
    view["level"] = dict(levels)
    try:
        assert context.client is not None
        effective = context.client().effective(resource.environment, levels, number)
    except UnavailableError:
        # The last known state; a document isn't kept here, so that none is ever shown that isn't so any more.
        return json_answer(view, 203, views.state_headers(place.tenant, resource, resource.etag(place.tenant)))
    except ProductError as error:
        raise _refused(error) from error
    etag = of_parts(resource.etag(place.tenant), *levels, document_digest(effective))
    headers = views.state_headers(place.tenant, resource, etag)
    answer = unchanged(request, etag, headers)
    if answer is not None:
        return answer
    if request.method == "HEAD":
        return Answer(204, headers=headers)
    return json_answer({**view, "effective": effective}, 200, headers)


def put_overrides(context: Context, request: Request) -> Answer:
    """PUT .../resources/<data source>?level=: the overrides at a level become the body's object; 204.

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
    _, live = context.registry.locate(request.place)
    if not isinstance(live, Live):
        raise refuse(301, "it has been moved", ("Location", request.place.under(live.owner.id).url))
    resource = _resource(live)
    client, number = context.client(), _definition(resource)
    try:
        tag = None
        if conditions.match is not None or conditions.none_match is not None:
            effective = client.effective(resource.environment, levels, number)
            conditions.check(of_parts(resource.etag(request.place.tenant), *levels, document_digest(effective)))
            _, tag = client.tagged(resource.environment, levels, number, "overrides")
        client.put_overrides(resource.environment, levels, number, body, if_match=tag)
    except RefusalError:
        raise
    except ProductError as error:
        raise _refused(error) from error
    told = {"level": dict(levels), "keys": sorted(body)[:50]}
    context.registry.write(
        change_of(request),
        lambda work: auditing.note(work, request.place.tenant, request.place.path, "override", **told),
    )
    return Answer(204)


def _resource(live: Live) -> Resource:
    if live.resource is None:
        raise refuse(400, "level is of data sources alone")
    return live.resource


def _definition(resource: Resource) -> int:
    if resource.definition is None:
        raise refuse(404, "ConfigDB has no such data source yet")
    return resource.definition


def _refused(error: ProductError) -> RefusalError:
    """Return what to answer where ConfigDB refused; its own words may name other things than the tenant's."""
    if isinstance(error, MissingError):
        return refuse(404, "ConfigDB has no such level or data source")
    if isinstance(error, PreconditionError):
        return refuse(412, "it has changed meanwhile")
    if isinstance(error, RefusedError):
        return refuse(400, "ConfigDB doesn't take that at this level")
    if isinstance(error, ConflictError):
        return refuse(409, "others change it; try again")
    return refuse(503, "ConfigDB can't be asked now", ("Retry-After", "5"))
