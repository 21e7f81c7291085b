"""JSON representations of environments, nodes, runs and documents. Pure.

``scope`` as in ``queries``: only operators see who runs what, where, and how much it transferred.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache, lru_cache
from typing import Any

from configdb_sync.addresses import Addresses
from configdb_sync.masking import Masker
from configdb_sync.status_page.queries import EnvironmentSummary, NodeMatrix, SourceOwner, VersionChanges
from configdb_sync.store.findings import WatchRound
from configdb_sync.store.runs import PastRun, RunNode
from configdb_sync.store.states import NodeRow, SyncState
from configdb_sync.sync.effective_leaves import Leaf, leaf_json
from configdb_sync.tenants import representations
from configdb_sync.tenants.paths import ResourcePath
from configdb_sync.tenants.queries import Page
from configdb_sync.tenants.status import word_of
from configdb_sync.web.requests import encoded


def _base(scope: str | None, environment: int) -> str:
    """Return the URL below which an environment's resources are: a tenant's, or an operator's."""
    return f"/environments/{environment}" if scope is None else ResourcePath(scope, environment).url


def environments_view(
    page: Page[EnvironmentSummary],
    limit: int,
    failed: Mapping[str, int],
    *,
    findings: Mapping[int, int],
    scope: str | None,
) -> dict[str, Any]:
    """Return a page of environments; ``failed``: how many nodes failed, by run; ``findings``: how many are open, by
    environment, for operators."""
    more = [{"findings": findings.get(one.environment, 0)} if scope is None else {} for one in page.items]
    items = [_environment_item(one, failed, scope) for one in page.items]
    return {
        "environments": [item | counted for item, counted in zip(items, more, strict=True)],
        "environments_next": _next("/environments", page.marker, limit),
    }


def _environment_item(one: EnvironmentSummary, failed: Mapping[str, int], scope: str | None) -> dict[str, Any]:
    base = _base(scope, one.environment)
    return {
        "environment": one.environment,
        "status": word_of(one.counts.status),
        "status_details": one.counts.details,
        "resource_count": one.counts.size,
        "tenants": [
            {
                "tenant": tenant,
                "home": holding.home,
                "resource_count": holding.counts.size,
                "status": word_of(holding.status),
                "links": {"self": ResourcePath(tenant, one.environment).url},
            }
            for tenant, holding in one.holdings
        ],
        "last_run": None if one.newest is None else _run_item(one.newest, failed, scope),
        "links": {name: f"{base}/{name}" for name in ("matrix", "runs", "overrides", "findings")},
    }


def _run_item(run: PastRun, failed: Mapping[str, int], scope: str | None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "run": run.identity,
        "environment": run.environment,
        "kind": run.kind,
        "stage": run.stage,
        "started_at": _moment(run.started),
        "finished_at": _moment(run.finished),
        "seconds": run.seconds,
        "outcome": run.outcome,
        "nodes": run.nodes,
        "nodes_failed": failed.get(run.identity, 0),
        "links": {"self": f"{_base(scope, run.environment)}/runs/{run.identity}"},
    }
    if scope is None:
        names = ("author", "host", "place", "exit", "uploads", "writes", "problems", "bytes", "digest")
        found |= {name: getattr(run, name) for name in names}
    return found


def runs_view(
    environment: int, page: Page[PastRun], limit: int, *, failed: Mapping[str, int], scope: str | None
) -> dict[str, Any]:
    """Return a page of runs, newest first."""
    base = f"{_base(scope, environment)}/runs"
    runs = [_run_item(run, failed, scope) for run in page.items]
    return {"runs": runs, "runs_next": _next(base, page.marker, limit)}


def run_view(
    run: PastRun,
    nodes: Sequence[RunNode],
    report: Mapping[str, Any] | None,
    *,
    failed: Mapping[str, int],
    names: Mapping[str, Sequence[str]],
    scope: str | None,
) -> dict[str, Any]:
    """Return a run: what it did with each node; operators also see its problems and what it withheld.

    ``names``: the FQDNs under which nodes were seen.
    """

    def of_node(node: RunNode) -> dict[str, Any]:
        return {"node": node.node, "fqdn": next(iter(names.get(node.node, ())), None)}

    found = _run_item(run, failed, scope)
    if scope is not None:
        return found | {"done": [of_node(node) | {"outcome": node.outcome} for node in nodes]}
    reported = {} if report is None else report["json"]
    problems = [problem for node in reported.get("nodes", ()) for problem in node["problems"]]
    unsafe = [{"node": node["node"], **one} for node in reported.get("nodes", ()) for one in node.get("unsafe", ())]
    return found | {
        "done": [of_node(node) | vars(node) for node in nodes],
        "stopped": reported.get("stopped"),
        "trouble": problems,
        "withheld": unsafe,
        "withheld_digest": reported.get("unsafe_digest"),
        "not_attempted": reported.get("not_attempted", []),
    }


def _source_item(source: SourceOwner) -> dict[str, Any]:
    resource = source.resource
    links = {}
    if source.tenant is not None and resource is not None:
        links["self"] = ResourcePath(source.tenant, resource.environment, source.name).url
    return {
        "name": source.name,
        "tenant": source.tenant,
        "status": word_of(None if resource is None else resource.status),
        "status_details": resource and resource.details,
        "links": links,
    }


def matrix_view(
    found: NodeMatrix,
    newest: PastRun | None,
    nodes: list[dict[str, Any]],
    *,
    counts: Mapping[str, int],
    marker: str | None,
    failed: Mapping[str, int],
    scope: str | None,
    query: Mapping[str, str],
) -> dict[str, Any]:
    """Return an environment's nodes by data sources; ``nodes``: those of this page, which ``query`` selected.

    ``counts``: how many documents of all nodes have which status.
    """
    environment = found.matrix.environment
    return {
        "environment": environment,
        "node_count": len(found.matrix.rows),
        "counts": dict(counts),
        "last_run": None if newest is None else _run_item(newest, failed, scope),
        "data_sources": [_source_item(source) for source in found.sources],
        "nodes": nodes,
        "nodes_next": _next(f"{_base(scope, environment)}/matrix", marker, None, query),
    }


def overrides_view(
    environment: int,
    count: int,
    page: Page[dict[str, Any]],
    limit: int,
    *,
    query: Mapping[str, str],
    scope: str | None,
) -> dict[str, Any]:
    """Return a page of an environment's overrides; ``count``: how many there are on all pages."""
    base = f"{_base(scope, environment)}/overrides"
    following = _next(base, page.marker, limit, query)
    return {"environment": environment, "count": count, "overrides": list(page.items), "overrides_next": following}


def findings_view(
    environment: int,
    count: int,
    page: Page[dict[str, Any]],
    limit: int,
    *,
    settled: list[dict[str, Any]],
    last_round: WatchRound | None,
    query: Mapping[str, str],
    scope: str | None,
) -> dict[str, Any]:
    """Return a page of what the watch found, and what was settled lately; only operators see its last round."""
    shown = None
    if last_round is not None and scope is None:
        shown = {
            "started_at": _moment(last_round.started),
            "finished_at": _moment(last_round.finished),
            "outcome": last_round.outcome,
            "text": last_round.text,
        }
    return {
        "environment": environment,
        "count": count,
        "last_round": shown,
        "findings": list(page.items),
        "findings_next": _next(f"{_base(scope, environment)}/findings", page.marker, limit, query),
        "settled": settled,
    }


def document_counts(rows: Iterable[NodeRow]) -> dict[str, int]:
    """Return how many documents have which status, in this order: ``ERROR``, ``BUILD``, ``ACTIVE``."""
    sums: Counter[str] = Counter()
    for look, number in Counter(row.states for row in rows).items():
        sums.update({state.value: number * look.count(state) for state in look if state is not None})
    return {word: sums[word] for word in ("ERROR", "BUILD", "ACTIVE")}


def node_items(
    rows: Sequence[NodeRow], addresses: Addresses, marks: Mapping[str, Sequence[str]]
) -> list[dict[str, Any]]:
    """Return nodes as the matrix shows them; ``marks``: by node, ``drifted`` and ``overridden``."""

    @cache  # most rows are alike
    def statuses(states: tuple[SyncState | None, ...]) -> list[str | None]:
        return [None if state is None else state.value for state in states]

    def level(row: NodeRow) -> dict[str, str] | None:
        levels = addresses.of_node(row.node, row.fqdn)
        return None if levels is None else dict(levels)

    return [
        {
            "node": row.node,
            "fqdn": row.fqdn,
            "level": level(row),
            "statuses": statuses(row.states),
            "run": row.run,
            "run_started_at": _moment(row.time),
            "run_failed": row.failed,
            "marks": list(marks.get(row.node, ())),
            "problems": [{"data_source": one.data_source, "what": one.what} for one in row.problems],
        }
        for row in rows
    ]


def layers_view(
    item: Mapping[str, Any],
    page: Page[Leaf],
    limit: int,
    *,
    counts: Mapping[str, int],
    query: Mapping[str, str],
    masker: Masker,
) -> dict[str, Any]:
    """Return a page of a data source's leaves at a level, secrets masked; ``item``: its representation."""
    return {
        **item,
        "counts": dict(counts),
        "leaves": [leaf_json(leaf, masker) for leaf in page.items],
        "leaves_next": _next(item["links"]["self"], page.marker, limit, query),
    }


def history_view(
    item: Mapping[str, Any],
    kind: str,
    found: Iterable[VersionChanges],
    marker: int | None,
    limit: int,
    *,
    query: Mapping[str, str],
) -> dict[str, Any]:
    """Return a page of a document's versions, newest first, each with its changes, secrets masked."""
    versions = [
        {
            "version": one.version.number,
            "time": one.version.time,
            "author": one.version.author,
            "run": one.version.run,
            "comment": one.version.comment,
            "changes": None
            if one.changes is None
            else [{"key": list(change.path), "before": change.before, "after": change.after} for change in one.changes],
            "more_changes": one.more,
        }
        for one in found
    ]
    following = _next(item["links"]["self"], None if marker is None else str(marker), limit, query)
    return {**item, "kind": kind, "versions": versions, "versions_next": following}


@lru_cache(maxsize=1024)
def _moment(time: datetime | None) -> str | None:
    return None if time is None else representations.moment(int(time.timestamp() * 1_000_000))


def _next(base: str, marker: str | None, limit: int | None, query: Mapping[str, str] | None = None) -> str | None:
    if marker is None:
        return None
    asked = {name: value for name, value in (query or {}).items() if name not in {"limit", "marker"}}
    if limit is not None:
        asked["limit"] = str(limit)
    asked["marker"] = marker
    return f"{base}?{'&'.join(f'{name}={encoded(value)}' for name, value in asked.items())}"
