"""What the status page answers, as JSON values: the API sends them as they are, the pages show them as HTML.

Methods take the request's query parameters. They raise ``RefusalError``: 400 for impossible parameters, 404 for what
doesn't exist, 503 while ConfigDB is unavailable.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from configdb_sync.addresses import Addresses
from configdb_sync.clock import Clock, SystemClock
from configdb_sync.configdb import changes
from configdb_sync.configdb.model import OVERRIDES, VALUES
from configdb_sync.configdb.model import DocumentAddress as Document
from configdb_sync.errors import MissingError, NodeError, ProductError, SettingsError
from configdb_sync.hiera.lookup import HieraLookupError, Merge, parse_key
from configdb_sync.names import levels_of as levels_at
from configdb_sync.names import place_of
from configdb_sync.overrides.notes import parse_duration
from configdb_sync.queries import explanation
from configdb_sync.queries.node_settings import read_settings
from configdb_sync.queries.override_list import ListedOverride
from configdb_sync.status_page import environment_lists, queries, representations
from configdb_sync.status_page.queries import EnvironmentRuns, History, SourceOwner
from configdb_sync.store.findings import Findings
from configdb_sync.store.records import names_seen
from configdb_sync.store.runs import PastRun
from configdb_sync.store.states import NodeRow, SyncState, stamp_of
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
OVERRIDES_QUERY = ("text", "only", "expiring", "limit", "marker")
LOOKUP_QUERY = ("node", "key", "merge")
FINDINGS_QUERY = ("text", "limit", "marker")
DOCUMENT_QUERY = ("level", "show", "kind", "key", "limit", "marker")
SHOWS = ("layers", "history")
MERGES = tuple(one.value for one in Merge)
ONLY = (environment_lists.INEFFECTIVE, environment_lists.ENDING)
STATUSES = ("ACTIVE", "BUILD", "ERROR", "null")
_VERSIONS = 10
_SETTLED = timedelta(days=7)
_MARKS_S = 10
"""How long the marks of nodes are kept before ConfigDB is asked for its overrides again."""
_QUERIES = {
    RouteKind.MATRIX: MATRIX_QUERY,
    RouteKind.RUNS: RUNS_QUERY,
    RouteKind.OVERRIDES: OVERRIDES_QUERY,
    RouteKind.FINDINGS: FINDINGS_QUERY,
    RouteKind.LOOKUP: LOOKUP_QUERY,
    RouteKind.RUN: (),
}


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
    clock: Clock = field(default_factory=SystemClock)

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
        query, scope = request.parameters(*_QUERIES[request.route.kind]), None
        if request.route.place is not None:
            located(self.context, request, request.place)
            scope = request.place.tenant
        if request.route.kind is RouteKind.LOOKUP:
            return _answer(request, self.lookup(environment, query))
        if request.route.kind is RouteKind.RUN:
            return _answer(request, self.run(scope, environment, request.route.run))
        seen = {
            RouteKind.MATRIX: self.matrix,
            RouteKind.RUNS: self.runs,
            RouteKind.OVERRIDES: self.overrides,
            RouteKind.FINDINGS: self.findings,
        }[request.route.kind](scope, environment, query)
        return _answer(request, seen)

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
        found = replace(page, items=items)
        findings = {
            number: sum(count for count, _ in kinds.values()) for number, kinds in self._findings.counts().items()
        }
        return StatusView(representations.environments_view(found, limit, failed, findings=findings, scope=scope))

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
        marks = self._marks(environment, scope, owned, found.matrix.rows, addresses)

        def page() -> tuple[list[dict[str, Any]], str | None]:
            rows = queries.chosen_rows(found.matrix, query.get("node", ""), status)
            rows = tuple(sorted(rows, key=lambda row: _rank(row, marks)))
            start = _place_after([row.node for row in rows], query.get("marker"))
            chosen = page_of(rows[start:], limit, lambda row: row.node)
            return representations.node_items(chosen.items, addresses, marks), chosen.marker

        stamp = (found.stamp, tuple(owned), tuple(marks.items()))
        nodes, marker = history.cache(("nodes", environment, scope, asked), stamp, page)
        if scope is None:
            newest = found.matrix.newest
            failed = history.past.failed_nodes([] if newest is None else [newest.identity])
        else:
            newest, failed = self._newest(EnvironmentRuns(history.past, history.database, environment, owned))
        counts = history.cache(
            ("counts", environment, scope), stamp[:2], lambda: representations.document_counts(found.matrix.rows)
        )
        view = representations.matrix_view(
            found, newest, nodes, counts=counts, marker=marker, failed=failed, scope=scope, query=query
        )
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
        names = names_seen(self.history.database, environment)
        failed = visible.failed_nodes([found])
        return StatusView(representations.run_view(*own, report, failed=failed, names=names, scope=scope))

    def overrides(self, scope: str | None, environment: int, query: Mapping[str, str]) -> StatusView:
        """Return a page of an environment's overrides with value, reason, author, end and effect (U25, U27)."""
        only = query.get("only", "")
        if only and only not in ONLY:
            raise refuse(400, f"only must be one of {', '.join(ONLY)}")
        before = None
        if query.get("expiring"):
            try:
                before = self.clock.now() + parse_duration(query["expiring"], "expiring")
            except SettingsError as error:
                raise refuse(400, str(error)) from error
        limit = limit_of(self.context, query)
        owners = self.owners(environment, scope)
        if scope is None and not owners:
            self._check_environment(environment)
        found: Sequence[ListedOverride] = ()
        if self.context.client is not None:
            with _asking_configdb(), contextlib.suppress(MissingError):
                found = environment_lists.overrides_there(self.history, self.context.client(), environment)
        findings = self._findings.open(environment)
        items = environment_lists.override_items(found, findings, owners, own=scope is not None)
        items = environment_lists.chosen_overrides(items, query.get("text", ""), only, before)
        start = _place_after([environment_lists.override_marker(one) for one in items], query.get("marker"))
        page = page_of(items[start:], limit, environment_lists.override_marker)
        return StatusView(
            representations.overrides_view(environment, len(items), page, limit, query=query, scope=scope)
        )

    def findings(
        self, scope: str | None, environment: int, query: Mapping[str, str], since: datetime | None = None
    ) -> StatusView:
        """Return a page of what the watch found in an environment, and what was settled since then, by default in the
        last seven days (U29)."""
        limit = limit_of(self.context, query)
        owners = self.owners(environment, scope)
        last_round = self._findings.rounds().get(environment)
        if scope is None and not owners and last_round is None:
            self._check_environment(environment)
        owned = None if scope is None else owners
        changed = self._findings.changes(environment)
        items = environment_lists.finding_items(self._findings.open(environment), owned, changed)
        text = query.get("text", "").casefold()
        items = [one for one in items if any(text in str(value).casefold() for value in one.values())]
        start = _place_after([environment_lists.finding_marker(one) for one in items], query.get("marker"))
        page = page_of(items[start:], limit, environment_lists.finding_marker)
        lately = self._findings.settled_since(since or self.clock.now() - _SETTLED, environment)
        settled = environment_lists.finding_items(lately, owned, changed)
        view = representations.findings_view(
            environment, len(items), page, limit, settled=settled, last_round=last_round, query=query, scope=scope
        )
        return StatusView(view)

    def lookup(self, environment: int, query: Mapping[str, str]) -> StatusView:
        """Return what Puppet on a node reads for a key, and which documents have it (U24), for an operator."""
        node, text, merge = query.get("node", ""), query.get("key", ""), query.get("merge", Merge.FIRST.value)
        if not node or not text:
            raise refuse(400, "the query must name a node and a key: ?node=<id or FQDN>&key=nova.debug")
        if merge not in MERGES:
            raise refuse(400, f"merge must be one of {', '.join(MERGES)}")
        if self.context.client is None:
            raise refuse(404, f"there is no environment {environment}")
        client, history = self.context.client(), self.history
        with _asking_configdb():
            try:
                key = parse_key(text)
                found = changes.existing(client, environment)
                stamp = stamp_of(history.database, history.past, environment)
                addresses = history.addresses(environment, self.context.client, stamp)
                levels = addresses.named(
                    ((addresses.node_level, node),), lambda: names_seen(history.database, environment)
                )
                ((_, settings),) = read_settings(
                    client, found, {levels[-1][1]: levels}, history.arrangement, parallel=1
                )
                if isinstance(settings, NodeError):
                    raise refuse(404, f"node {node}: {settings.what}")
                said = explanation.explain(client, found, settings, key, Merge(merge))
            except (HieraLookupError, SettingsError) as error:
                raise refuse(400, str(error)) from None
            except MissingError:
                raise refuse(404, f"ConfigDB has no settings of node {node} of environment {environment}") from None
        view = explanation.to_json(said, key, history.masker)
        del view["version"]
        return StatusView({"environment": environment, "merge": merge, **view})

    @property
    def _findings(self) -> Findings:
        return Findings(self.history.database, self.clock)

    def _marks(
        self,
        environment: int,
        scope: str | None,
        owned: Collection[str],
        rows: Iterable[NodeRow],
        addresses: Addresses,
    ) -> dict[str, tuple[str, ...]]:
        """Return which nodes drift, by the watch's last round, and which have overrides of their own, by ConfigDB."""
        drifted = {
            one.finding.node
            for one in self._findings.open(environment)
            if one.finding.kind in environment_lists.DRIFTED and (scope is None or one.finding.data_source in owned)
        }
        places: frozenset[str] = frozenset()
        if self.context.client is not None:
            client = self.context.client

            def overridden() -> frozenset[str]:
                with contextlib.suppress(ProductError):
                    found = client().overrides_of(environment)
                    own = [one for one in found if scope is None or one.data_source in owned]
                    return frozenset(place_of(levels_at(one.place)[-1:]) for one in own)
                return frozenset()

            moment = int(self.clock.monotonic() / _MARKS_S)
            places = self.history.cache(("overridden", environment, scope), (moment, tuple(owned)), overridden)
        marks = {}
        for row in rows:
            levels = addresses.of_node(row.node, row.fqdn) if places else None
            own = levels is not None and place_of(levels[-1:]) in places
            found = (*(["drifted"] if row.node in drifted else []), *(["overridden"] if own else []))
            if found:
                marks[row.node] = found
        return marks

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
        with _asking_configdb():
            try:
                return StatusView((self._layers if shown == "layers" else self._versions)(document, item, query))
            except MissingError as error:
                raise refuse(404, "ConfigDB has no such level or data source") from error

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
        page = page_of(found[_place_after(list(map(_key, found)), query.get("marker")) :], limit, _key)
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


@contextlib.contextmanager
def _asking_configdb() -> Iterator[None]:
    try:
        yield
    except ProductError as error:
        if hasattr(error, "status"):
            raise
        raise refuse(503, "ConfigDB can't be asked now", ("Retry-After", "5")) from error


def _rank(row: NodeRow, marks: Mapping[str, Collection[str]]) -> int:
    """Return where a node comes in the matrix: those with errors first, then drifted and overridden ones."""
    if row.failed or row.problems or SyncState.ERROR in row.states:
        return 0
    found = marks.get(row.node, ())
    return 1 if "drifted" in found else 2 if found else 3


def _answer(request: TenantRequest, seen: StatusView) -> ApiResponse:
    answer = json_response(seen.view, 200 if seen.fresh else 203)
    etag = tag_of_body(answer.data)
    headers = (("ETag", f'"{etag}"'), ("Cache-Control", "no-cache"))
    return read_answer(request, etag, headers, lambda: ApiResponse(answer.status_code, answer.data, headers))


def _key(leaf: Leaf) -> str:
    return json.dumps(list(leaf.path), separators=(",", ":"))


def _place_after(markers: Sequence[str], marker: str | None) -> int:
    """Return the index of the first item after the one that the marker names; 0 if there is no such item."""
    return markers.index(marker) + 1 if marker in markers else 0
