"""The move action (T7-T11): look at what a move would touch, and move."""

from __future__ import annotations

from configdb_sync.tenants import names
from configdb_sync.tenants.answers import Answer
from configdb_sync.tenants.context import Context
from configdb_sync.tenants.etags import of_body
from configdb_sync.tenants.pages import unchanged
from configdb_sync.tenants.requests import Request, refuse_body, wants_xml
from configdb_sync.tenants.tenant_calls import change_of
from configdb_sync.web.refusals import refuse

_STORED = ("Cache-Control", "no-store, no-transform")


def destination(request: Request) -> str:
    """Return the query's ``dest``. Raises ``RefusalError`` 400 (T9)."""
    found = request.parameters("dest").get("dest")
    if not found:
        raise refuse(400, "the query must name the destination: ?dest=<tenantId>")
    return names.tenant_id(found)


def show_move(context: Context, request: Request) -> Answer:
    """GET .../action/move?dest=: 200 with the stored state, as JSON or XML by Accept (T10)."""
    target = destination(request)
    request.conditions()  # a malformed one is told even where there is a redirect
    action = context.registry.move_action(request.place, target)
    xml = wants_xml(request.environ)
    body, kind = (action.xml(), "application/xml; charset=UTF-8") if xml else (action.json(), "application/json")
    etag = of_body(body)
    headers = (("ETag", f'"{etag}"'), _STORED, ("Vary", "Accept"))
    return unchanged(request, etag, headers) or Answer(200, body, headers, kind)


def move(context: Context, request: Request) -> Answer:
    """POST .../action/move?dest=: 303 to the new home; 301 to the action there if it was moved already (T7, T8)."""
    target = destination(request)
    conditions = request.conditions()
    refuse_body(request.environ)
    context.follower.check_movable()
    place = context.registry.move(change_of(request), request.place, target, conditions)
    context.follower.wake()
    return Answer(303, headers=(("Location", place.url), _STORED))
