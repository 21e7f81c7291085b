"""What is asked for, answered as JSON values: by the API as they are, by the pages as HTML.

``query`` holds the parameters of the request; what can't be is a ``TenantRefusal`` 400, what isn't there 404, and 503
where ConfigDB can't be asked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.model import OVERRIDES, VALUES
from configdb_sync.errors import MissingError, ProductError, SettingsError
from configdb_sync.names import LevelPath
from configdb_sync.store.runs import PastRun
from configdb_sync.sync.layers import Leaf, Mark, leaves, read_levels
from configdb_sync.tenants import views as registry_views
from configdb_sync.tenants.context import Context
from configdb_sync.tenants.document_calls import levels_of
from configdb_sync.tenants.page import gathering, views
from configdb_sync.tenants.page.chronicle import Chronicle
from configdb_sync.tenants.page.own_runs import OwnRuns
from configdb_sync.tenants.pages import limit_of, number_of
from configdb_sync.tenants.paths import Place
from configdb_sync.tenants.refusals import TenantRefusal, refuse
from configdb_sync.tenants.rows import Resource

MATRIX_QUERY = ("node", "status", "limit", "marker")
RUNS_QUERY = ("limit", "marker")
DOCUMENT_QUERY = ("level", "show", "kind", "key", "limit", "marker")
SHOWS = ("layers", "history")
STATUSES = ("ACTIVE", "BUILD", "ERROR", "null")
_VERSIONS = 10


@dataclass(frozen=True)
class Seen:
    """What is to be shown; ``fresh``: the status drivers could be asked; ``stamp`` changes when the nodes in it may."""

    view: dict[str, Any]
    fresh: bool = True
    stamp: tuple[object, ...] = ()


def chronicle_of(context: Context) -> Chronicle:
    """Return what runs are told from. Raises ``TenantRefusal`` 404 where nothing is to be told."""
    if context.chronicle is None:
        raise refuse(404, "there is nothing at this URL")
    return context.chronicle


def environments(context: Context, query: Mapping[str, str], scope: str | None = None) -> Seen:
    """Return a page of environments with their newest runs."""
    chronicle = chronicle_of(context)
    limit, marker = limit_of(context, query), number_of(query)
    page = context.registry.read(lambda one: gathering.environments(one, scope, marker, limit))
    failed: dict[str, int] = {}
    if scope is None:
        page = gathering.with_runs(chronicle, page)
        failed = chronicle.past.failed_nodes([one.newest.identity for one in page.items if one.newest is not None])
    else:
        items = []
        for one in page.items:
            newest, more = _newest_own(_own_runs(context, one.environment, scope))
            items.append(replace(one, newest=newest))
            failed |= more
        page = replace(page, items=items)
    view = views.environments_view(page, limit)
    view["environments"] = [views.standing_item(one, failed, scope) for one in page.items]
    return Seen(view)


def matrix(context: Context, scope: str | None, environment: int, query: Mapping[str, str]) -> Seen:
    """Return an environment's nodes by data sources, as many as a page may have unless fewer are asked for."""
    chronicle = chronicle_of(context)
    status = query.get("status", "")
    if status and status not in STATUSES:
        raise refuse(400, f"status must be one of {', '.join(STATUSES)}")
    limit = limit_of(context, query) if "limit" in query else context.limits.longest
    fresh = _refreshed(context, scope, environment)
    owned = context.registry.read(lambda one: gathering.sources(one, environment, scope))
    found = gathering.stand(chronicle, owned, environment, scope)
    if scope is None and not found.sources and found.matrix.newest is None:
        _there(context, environment)
    addresses = chronicle.addresses(environment, context.client, found.stamp)
    asked = (addresses.levels, limit, *(query.get(name, "") for name in ("node", "status", "marker")))

    def page() -> tuple[list[dict[str, Any]], str | None]:
        rows = gathering.chosen_rows(found.matrix, query.get("node", ""), status)
        names = [row.node for row in rows]
        start = names.index(query["marker"]) + 1 if query.get("marker") in names else 0
        chosen = rows[start : start + limit]
        return views.node_items(chosen, addresses), chosen[-1].node if start + limit < len(rows) else None

    stamp = (found.stamp, tuple(owned))
    nodes, marker = chronicle.kept(("nodes", environment, scope, asked), stamp, page)
    if scope is None:
        newest = found.matrix.newest
        failed = chronicle.past.failed_nodes([] if newest is None else [newest.identity])
    else:
        newest, failed = _newest_own(OwnRuns(chronicle.past, chronicle.database, environment, owned))
        found = replace(found, matrix=replace(found.matrix, newest=newest))
    view = views.matrix_view(found, nodes, marker=marker, failed=failed, scope=scope, query=query)
    return Seen(view, fresh, (*stamp, asked))


def _refreshed(context: Context, scope: str | None, environment: int) -> bool:
    if not context.pull.asks:
        return True
    tenants = [scope] if scope is not None else _owners(context, environment)
    fresh = [context.pull.refresh(Place(tenant, environment)) for tenant in tenants]
    return all(fresh)


def _owners(context: Context, environment: int) -> list[str]:
    page = context.registry.read(lambda one: gathering.environments(one, None, None, 1, only=environment))
    return [tenant for standing in page.items for tenant, _ in standing.holdings]


def _there(context: Context, environment: int) -> None:
    if not _owners(context, environment):
        raise refuse(404, f"there is no environment {environment}")


def runs(context: Context, scope: str | None, environment: int, query: Mapping[str, str]) -> Seen:
    """Return a page of an environment's runs, newest first."""
    chronicle = chronicle_of(context)
    limit = limit_of(context, query)
    before = number_of(query)
    own = None if scope is None else _own_runs(context, environment, scope)
    found = chronicle.past.newest(environment, limit + 1, before) if own is None else own.newest(limit + 1, before)
    if not found and scope is None:
        _there(context, environment)
    more, found = len(found) > limit, found[:limit]
    marker = str(found[-1].number) if more else None
    failed = chronicle.past.failed_nodes([one.identity for one in found]) if own is None else own.failed_nodes(found)
    return Seen(views.runs_view(environment, found, marker, limit, failed=failed, scope=scope))


def run(context: Context, scope: str | None, environment: int, identity: str) -> Seen:
    """Return one run of an environment."""
    past = chronicle_of(context).past
    found = _run(context, environment, identity)
    if scope is not None:
        own = _own_runs(context, environment, scope)
        mine = own.find(found)
        if mine is None:
            raise _no_run(environment)
        return Seen(views.run_view(*mine, None, own.failed_nodes([found]), scope))
    nodes, failed = past.nodes_of(found.identity), past.failed_nodes([found.identity])
    return Seen(views.run_view(found, nodes, past.report_of(found.identity), failed, scope))


def _own_runs(context: Context, environment: int, scope: str) -> OwnRuns:
    chronicle = chronicle_of(context)
    owned = context.registry.read(lambda one: gathering.sources(one, environment, scope))
    return OwnRuns(chronicle.past, chronicle.database, environment, owned)


def _newest_own(own: OwnRuns) -> tuple[PastRun | None, dict[str, int]]:
    newest = own.newest(1)
    return (newest[0] if newest else None), own.failed_nodes(newest)


def _no_run(environment: int) -> TenantRefusal:
    return refuse(404, f"environment {environment} has no such run")


def _run(context: Context, environment: int, identity: str) -> PastRun:
    missing = _no_run(environment)
    if not identity.startswith("req-") or len(identity) != len("req-") + 36:
        raise missing
    try:
        found = chronicle_of(context).past.find(identity)
    except SettingsError:
        raise missing from None
    if found.environment != environment:
        raise missing
    return found


def document(context: Context, place: Place, resource: Resource, query: Mapping[str, str]) -> Seen:
    """Return what ``show`` asks for of a data source at a place: its leaves on all sides, or its versions."""
    shown = query.get("show")
    if shown not in SHOWS:
        raise refuse(400, f"show must be one of {', '.join(SHOWS)}")
    levels = levels_of(query)
    if levels is None:
        raise refuse(400, "the query must name the level: ?level=nodes=<id>, or ?level= for the root")
    if resource.definition is None or context.client is None:
        raise refuse(404, "ConfigDB has no such data source yet")
    item = registry_views.resource_item(place.tenant, resource)
    asked = _Asked(context, context.client(), resource, resource.definition, levels, item, query)
    try:
        return Seen(_layers(asked) if shown == "layers" else _history(asked))
    except MissingError as error:
        raise refuse(404, "ConfigDB has no such level or data source") from error
    except ProductError as error:
        if hasattr(error, "status"):
            raise
        raise refuse(503, "ConfigDB can't be asked now", ("Retry-After", "5")) from error


@dataclass(frozen=True)
class _Asked:
    context: Context
    client: ConfigDBClient
    resource: Resource
    definition: int
    levels: LevelPath
    item: Mapping[str, Any]
    query: Mapping[str, str]


def _layers(asked: _Asked) -> dict[str, Any]:
    context, query = asked.context, asked.query
    limit = limit_of(context, query) if "limit" in query else context.limits.longest
    found = leaves(*read_levels(asked.client, asked.resource.environment, asked.levels, asked.definition))
    counts = {mark.value: sum(leaf.mark is mark for leaf in found) for mark in Mark}
    if "key" in query:
        part = query["key"].casefold()
        found = [leaf for leaf in found if part in ".".join(leaf.path).casefold()]
    start = _after(found, query.get("marker"))
    chosen = found[start : start + limit]
    return views.layers_view(
        asked.item,
        asked.levels,
        chosen,
        marker=_key(chosen[-1]) if start + limit < len(found) else None,
        limit=limit,
        counts=counts,
        query=query,
        masker=chronicle_of(context).masker,
    )


def _key(leaf: Leaf) -> str:
    return json.dumps(list(leaf.path), separators=(",", ":"))


def _after(found: list[Leaf], marker: str | None) -> int:
    """Return the index of the first leaf after the one that the marker names, 0 if that isn't there."""
    if marker is None:
        return 0
    return next((place + 1 for place, leaf in enumerate(found) if _key(leaf) == marker), 0)


def _history(asked: _Asked) -> dict[str, Any]:
    context, query = asked.context, asked.query
    kind = query.get("kind", OVERRIDES)
    if kind not in {VALUES, OVERRIDES}:
        raise refuse(400, f"kind must be {VALUES} or {OVERRIDES}")
    limit = limit_of(context, query) if "limit" in query else _VERSIONS
    place = gathering.document_of(asked.resource.environment, asked.levels, asked.resource, asked.definition)
    found, marker = gathering.steps(
        chronicle_of(context), asked.client, place, kind, before=number_of(query), limit=limit
    )
    return views.history_view(
        asked.item,
        asked.levels,
        kind,
        found,
        marker=None if marker is None else str(marker),
        limit=limit,
        query=query,
    )
