"""What the status page answers, as JSON values: the API sends them as they are, the pages show them as HTML.

Methods take the request's query parameters. They raise ``RefusalError``: 400 for impossible parameters, 404 for what
doesn't exist, 503 while ConfigDB is unavailable.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from configdb_sync.configdb.model import OVERRIDES, VALUES
from configdb_sync.configdb.model import DocumentAddress as Document
from configdb_sync.errors import MissingError, ProductError, SettingsError
from configdb_sync.status_page import queries, representations
from configdb_sync.status_page.queries import EnvironmentRuns, History, SourceOwner
from configdb_sync.store.runs import PastRun
from configdb_sync.sync.effective_leaves import Leaf, Mark, leaves, read_levels
from configdb_sync.tenants import representations as registry_views
from configdb_sync.tenants.api_calls import levels_of, limit_of, located, number_of, read_answer
from configdb_sync.tenants.paths import ResourcePath, RouteKind
from configdb_sync.tenants.queries import page_of
from configdb_sync.tenants.requests import Context, TenantRequest
from configdb_sync.tenants.rows import Resource
from configdb_sync.web.refusals import refuse
from configdb_sync.web.requests import tag_of_body
from configdb_sync.web.responses import ApiResponse, json_response

MATRIX_QUERY = ("node", "status", "limit", "marker")
RUNS_QUERY = ("limit", "marker")
DOCUMENT_QUERY = ("level", "show", "kind", "key", "limit", "marker")
SHOWS = ("layers", "history")
STATUSES = ("ACTIVE", "BUILD", "ERROR", "null")
_VERSIONS = 10


@dataclass(frozen=True)
class StatusView:
    """An answer as JSON values. ``fresh``: the status drivers answered; ``stamp`` changes when its nodes may have."""

    view: dict[str, Any]
    fresh: bool = True
    stamp: tuple[object, ...] = ()


@dataclass(frozen=True)
class StatusApi:
    """Environments, nodes, runs and documents, for an operator (``scope`` None) or a tenant (its ID)."""

    context: Context
    history: History

    def answer(self, request: TenantRequest) -> ApiResponse:
        """Answer a GET or HEAD of the tenant API that asks for any of them: 200, 203, 204, 304."""
        environment = request.route.environment if request.route.place is None else request.place.environment
        if request.route.kind is RouteKind.PLACE:
            query = request.parameters(*DOCUMENT_QUERY)
            live = located(self.context, request, request.place)
            assert live.resource is not None
            return _answer(request, self.document(request.place, live.resource, query))
        if environment is None:
            return _answer(request, self.environments(request.parameters("limit", "marker")))
        known = {RouteKind.MATRIX: MATRIX_QUERY, RouteKind.RUNS: RUNS_QUERY, RouteKind.RUN: ()}[request.route.kind]
        query, scope = request.parameters(*known), None
        if request.route.place is not None:
            located(self.context, request, request.place)
            scope = request.place.tenant
        if request.route.kind is RouteKind.MATRIX:
            return _answer(request, self.matrix(scope, environment, query))
        if request.route.kind is RouteKind.RUNS:
            return _answer(request, self.runs(scope, environment, query))
        return _answer(request, self.run(scope, environment, request.route.run))

    def environments(self, query: Mapping[str, str], scope: str | None = None) -> StatusView:
        """Return a page of environments with their newest runs."""
        limit, marker = limit_of(self.context, query), number_of(query)
        page = self.context.registry.read(lambda one: queries.environments(one, scope, marker, limit))
        failed: dict[str, int] = {}
        if scope is None:
            newest = self.history.past.newest_of([one.environment for one in page.items])
            failed = self.history.past.failed_nodes([run.identity for run in newest.values()])
        else:
            newest = {}
            for one in page.items:
                run, more = self._newest(self._runs(one.environment, scope))
                failed |= more
                if run is not None:
                    newest[one.environment] = run
        items = tuple(replace(one, newest=newest.get(one.environment)) for one in page.items)
        return StatusView(representations.environments_view(replace(page, items=items), limit, failed, scope))

    def matrix(self, scope: str | None, environment: int, query: Mapping[str, str]) -> StatusView:
        """Return an environment's nodes by data sources; without ``limit``, as many as one answer may have."""
        context, history = self.context, self.history
        status = query.get("status", "")
        if status and status not in STATUSES:
            raise refuse(400, f"status must be one of {', '.join(STATUSES)}")
        limit = self._limit(query, context.limits.longest)
        fresh = self._refresh_status(scope, environment)
        owned = self.owners(environment, scope)
        found = queries.node_matrix(history, owned, environment, scope)
        if scope is None and not found.sources and found.matrix.newest is None:
            self._check_environment(environment)
        addresses = history.addresses(environment, context.client, found.stamp)
        asked = (addresses.levels, limit, *(query.get(name, "") for name in ("node", "status", "marker")))

        def page() -> tuple[list[dict[str, Any]], str | None]:
            rows = queries.chosen_rows(found.matrix, query.get("node", ""), status)
            names = [row.node for row in rows]
            start = names.index(query["marker"]) + 1 if query.get("marker") in names else 0
            chosen = page_of(rows[start:], limit, lambda row: row.node)
            return representations.node_items(chosen.items, addresses), chosen.marker

        stamp = (found.stamp, tuple(owned))
        nodes, marker = history.cache(("nodes", environment, scope, asked), stamp, page)
        if scope is None:
            newest = found.matrix.newest
            failed = history.past.failed_nodes([] if newest is None else [newest.identity])
        else:
            newest, failed = self._newest(EnvironmentRuns(history.past, history.database, environment, owned))
        view = representations.matrix_view(found, newest, nodes, marker=marker, failed=failed, scope=scope, query=query)
        return StatusView(view, fresh, (*stamp, asked))

    def runs(self, scope: str | None, environment: int, query: Mapping[str, str]) -> StatusView:
        """Return a page of an environment's runs, newest first."""
        limit, before = limit_of(self.context, query), number_of(query)
        visible = self._runs(environment, scope)
        page = page_of(visible.newest(limit + 1, before), limit, lambda run: str(run.number))
        if not page.items and scope is None:
            self._check_environment(environment)
        failed = visible.failed_nodes(page.items)
        return StatusView(representations.runs_view(environment, page, limit, failed=failed, scope=scope))

    def run(self, scope: str | None, environment: int, identity: str) -> StatusView:
        """Return one run of an environment."""
        past, missing = self.history.past, refuse(404, f"environment {environment} has no such run")
        if not identity.startswith("req-") or len(identity) != len("req-") + 36:
            raise missing
        try:
            found = past.find(identity)
        except SettingsError:
            raise missing from None
        if found.environment != environment:
            raise missing
        visible = self._runs(environment, scope)
        own = visible.find(found)
        if own is None:
            raise missing
        report = past.report_of(identity) if scope is None else None
        return StatusView(representations.run_view(*own, report, visible.failed_nodes([found]), scope))

    def document(self, place: ResourcePath, resource: Resource, query: Mapping[str, str]) -> StatusView:
        """Return what ``show`` asks for of a data source at a level: its leaves side by side, or its versions."""
        shown = query.get("show")
        if shown not in SHOWS:
            raise refuse(400, f"show must be one of {', '.join(SHOWS)}")
        levels = levels_of(query)
        if levels is None:
            raise refuse(400, "the query must name the level: ?level=nodes=<id>, or ?level= for the root")
        if resource.definition is None or self.context.client is None:
            raise refuse(404, "ConfigDB has no such data source yet")
        item = {**registry_views.resource_item(place.tenant, resource), "level": dict(levels)}
        document = Document(resource.environment, levels, resource.name, resource.definition, innermost=bool(levels))
        try:
            return StatusView((self._layers if shown == "layers" else self._versions)(document, item, query))
        except MissingError as error:
            raise refuse(404, "ConfigDB has no such level or data source") from error
        except ProductError as error:
            if hasattr(error, "status"):
                raise
            raise refuse(503, "ConfigDB can't be asked now", ("Retry-After", "5")) from error

    def owners(self, environment: int, scope: str | None) -> dict[str, SourceOwner]:
        """Return an environment's owned data sources by name."""
        return self.context.registry.read(lambda one: queries.sources(one, environment, scope))

    def _limit(self, query: Mapping[str, str], default: int) -> int:
        return limit_of(self.context, query) if "limit" in query else default

    def _refresh_status(self, scope: str | None, environment: int) -> bool:
        if self.context.drivers is None:
            return True
        tenants = [scope] if scope is not None else self._tenants(environment)
        fresh = [self.context.refresh(ResourcePath(tenant, environment)) for tenant in tenants]
        return all(fresh)

    def _tenants(self, environment: int) -> list[str]:
        page = self.context.registry.read(lambda one: queries.environments(one, None, None, 1, only=environment))
        return [tenant for summary in page.items for tenant, _ in summary.holdings]

    def _check_environment(self, environment: int) -> None:
        if not self._tenants(environment):
            raise refuse(404, f"there is no environment {environment}")

    def _runs(self, environment: int, scope: str | None) -> EnvironmentRuns:
        owned = None if scope is None else self.owners(environment, scope)
        return EnvironmentRuns(self.history.past, self.history.database, environment, owned)

    @staticmethod
    def _newest(visible: EnvironmentRuns) -> tuple[PastRun | None, dict[str, int]]:
        newest = visible.newest(1)
        return (newest[0] if newest else None), visible.failed_nodes(newest)

    def _layers(self, document: Document, item: Mapping[str, Any], query: Mapping[str, str]) -> dict[str, Any]:
        assert self.context.client is not None
        limit = self._limit(query, self.context.limits.longest)
        client = self.context.client()
        found = leaves(*read_levels(client, document.env, document.levels, document.definition))
        counts = {mark.value: sum(leaf.mark is mark for leaf in found) for mark in Mark}
        if "key" in query:
            part = query["key"].casefold()
            found = [leaf for leaf in found if part in ".".join(leaf.path).casefold()]
        page = page_of(found[_after(found, query.get("marker")) :], limit, _key)
        masker = self.history.masker
        return representations.layers_view(item, page, limit, counts=counts, query=query, masker=masker)

    def _versions(self, document: Document, item: Mapping[str, Any], query: Mapping[str, str]) -> dict[str, Any]:
        assert self.context.client is not None
        kind = query.get("kind", OVERRIDES)
        if kind not in {VALUES, OVERRIDES}:
            raise refuse(400, f"kind must be {VALUES} or {OVERRIDES}")
        limit, before = self._limit(query, _VERSIONS), number_of(query)
        client = self.context.client()
        found, marker = queries.version_changes(self.history, client, document, kind, before=before, limit=limit)
        return representations.history_view(item, kind, found, marker, limit, query=query)


def _answer(request: TenantRequest, seen: StatusView) -> ApiResponse:
    answer = json_response(seen.view, 200 if seen.fresh else 203)
    etag = tag_of_body(answer.data)
    headers = (("ETag", f'"{etag}"'), ("Cache-Control", "no-cache"))
    return read_answer(request, etag, headers, lambda: ApiResponse(answer.status_code, answer.data, headers))


def _key(leaf: Leaf) -> str:
    return json.dumps(list(leaf.path), separators=(",", ":"))


def _after(found: list[Leaf], marker: str | None) -> int:
    """Return the index of the first leaf after the one that the marker names; 0 if there is no such leaf."""
    if marker is None:
        return 0
    return next((index + 1 for index, leaf in enumerate(found) if _key(leaf) == marker), 0)
