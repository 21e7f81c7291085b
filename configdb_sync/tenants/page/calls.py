"""The API's calls that the pages are made of: nodes by data sources, runs, documents side by side and their history."""

from __future__ import annotations

from configdb_sync.tenants import etags
from configdb_sync.tenants.answers import Answer, json_answer
from configdb_sync.tenants.context import Context
from configdb_sync.tenants.page import asking
from configdb_sync.tenants.page.asking import Seen
from configdb_sync.tenants.pages import unchanged
from configdb_sync.tenants.paths import Kind
from configdb_sync.tenants.requests import Request
from configdb_sync.tenants.resource_calls import located, show_place


def list_all_environments(context: Context, request: Request) -> Answer:
    """GET, HEAD /environments: every environment, with its newest run; an operator's."""
    return _answer(request, asking.environments(context, request.parameters("limit", "marker")))


def show_matrix(context: Context, request: Request) -> Answer:
    """GET, HEAD .../environments/<env>/matrix: its nodes by data sources: 200, 203, 304, 404."""
    query = request.parameters(*asking.MATRIX_QUERY)
    return _answer(request, asking.matrix(context, _scope(context, request), request.route.number, query))


def list_runs(context: Context, request: Request) -> Answer:
    """GET, HEAD .../environments/<env>/runs: newest first."""
    query = request.parameters(*asking.RUNS_QUERY)
    return _answer(request, asking.runs(context, _scope(context, request), request.route.number, query))


def show_run(context: Context, request: Request) -> Answer:
    """GET, HEAD .../environments/<env>/runs/<run>."""
    request.parameters()
    scope = _scope(context, request)
    return _answer(request, asking.run(context, scope, request.route.number, request.route.run))


def show_data_source(context: Context, request: Request) -> Answer:
    """GET, HEAD of an environment or data source; with ``show=layers`` or ``show=history`` its documents, masked."""
    if request.kind is not Kind.PLACE or "show=" not in (request.query or ""):
        return show_place(context, request)
    asking.chronicle_of(context)
    query = request.parameters(*asking.DOCUMENT_QUERY)
    live = located(context, request, request.place)
    if live.resource is None:
        return show_place(context, request)
    return _answer(request, asking.document(context, request.place, live.resource, query))


def _scope(context: Context, request: Request) -> str | None:
    """Return the tenant whose environment the URL names. Raises ``RefusalError`` 301, 404, 410 if it isn't there."""
    if request.route.place is None:
        return None
    located(context, request, request.place)
    return request.place.tenant


def _answer(request: Request, seen: Seen) -> Answer:
    answer = json_answer(seen.view, 200 if seen.fresh else 203)
    etag = etags.of_body(answer.body)
    headers = (("ETag", f'"{etag}"'), ("Cache-Control", "no-cache"))
    same = unchanged(request, etag, headers)
    if same is not None:
        return same
    if request.method == "HEAD":
        return Answer(204, headers=headers)
    return Answer(answer.status, answer.body, headers)
