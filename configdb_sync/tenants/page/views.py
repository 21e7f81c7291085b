"""What is gathered, as JSON: the API's representations of environments, nodes, runs and documents. Pure.

``scope`` as in ``gathering``: who runs what, where, and how much it moved is an operator's to know.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

from configdb_sync.addresses import Addresses
from configdb_sync.masking import Masker
from configdb_sync.names import LevelPath
from configdb_sync.store.runs import PastNode, PastRun
from configdb_sync.store.states import NodeRow, State
from configdb_sync.sync.layers import Leaf, leaf_json
from configdb_sync.tenants import views
from configdb_sync.tenants.listing import Page
from configdb_sync.tenants.page.gathering import Source, Stand, Standing, Step
from configdb_sync.tenants.paths import Place
from configdb_sync.tenants.status import Status
from configdb_sync.tenants.targets import encoded


def base_of(scope: str | None, environment: int) -> str:
    """Return the URL below which an environment's resources are: a tenant's, or an operator's."""
    return f"/environments/{environment}" if scope is None else Place(scope, environment).url


def _shown(status: Status | None) -> str | None:
    return None if status is None else status.shown


def environments_view(page: Page[Standing], limit: int) -> dict[str, Any]:
    """Return a page of all environments."""
    return {
        "environments": [standing_item(one, {}) for one in page.items],
        "environments_next": _next("/environments", page.marker, limit),
    }


def standing_item(one: Standing, failed: Mapping[str, int], scope: str | None = None) -> dict[str, Any]:
    """Return an environment as the list of all shows it."""
    base = base_of(scope, one.environment)
    return {
        "environment": one.environment,
        "status": _shown(one.counts.status),
        "status_details": one.counts.details,
        "resource_count": one.counts.size,
        "tenants": [
            {
                "tenant": tenant,
                "home": holding.home,
                "resource_count": holding.counts.size,
                "status": _shown(holding.status),
                "links": {"self": Place(tenant, one.environment).url},
            }
            for tenant, holding in one.holdings
        ],
        "last_run": None if one.newest is None else run_item(one.newest, failed, scope),
        "links": {"matrix": f"{base}/matrix", "runs": f"{base}/runs"},
    }


def run_item(run: PastRun, failed: Mapping[str, int], scope: str | None) -> dict[str, Any]:
    """Return a run as a list shows it; ``failed``: how many nodes failed, by run."""
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
        "links": {"self": f"{base_of(scope, run.environment)}/runs/{run.identity}"},
    }
    if scope is None:
        found |= {
            "author": run.author,
            "host": run.host,
            "place": run.place,
            "exit": run.exit,
            "uploads": run.uploads,
            "writes": run.writes,
            "problems": run.problems,
            "bytes": run.bytes,
            "digest": run.digest,
        }
    return found


def runs_view(
    environment: int,
    runs: Sequence[PastRun],
    marker: str | None,
    limit: int,
    *,
    failed: Mapping[str, int],
    scope: str | None,
) -> dict[str, Any]:
    """Return a page of runs, newest first."""
    base = f"{base_of(scope, environment)}/runs"
    return {"runs": [run_item(run, failed, scope) for run in runs], "runs_next": _next(base, marker, limit)}


def run_view(
    run: PastRun,
    nodes: Sequence[PastNode],
    report: Mapping[str, Any] | None,
    failed: Mapping[str, int],
    scope: str | None,
) -> dict[str, Any]:
    """Return a run: what it did with each node and, for an operator, what went wrong and what it was kept from."""
    found = run_item(run, failed, scope)
    if scope is not None:
        return found | {"done": [{"node": node.node, "outcome": node.outcome} for node in nodes]}
    told = {} if report is None else report["json"]
    problems = [problem for node in told.get("nodes", ()) for problem in node["problems"]]
    unsafe = [{"node": node["node"], **one} for node in told.get("nodes", ()) for one in node.get("unsafe", ())]
    return found | {
        "done": [vars(node) for node in nodes],
        "stopped": told.get("stopped"),
        "trouble": problems,
        "withheld": unsafe,
        "withheld_digest": told.get("unsafe_digest"),
        "not_attempted": told.get("not_attempted", []),
    }


def source_item(source: Source) -> dict[str, Any]:
    """Return a data source as the matrix names it."""
    resource = source.resource
    links = {}
    if source.tenant is not None and resource is not None:
        links["self"] = Place(source.tenant, resource.environment, source.name).url
    return {
        "name": source.name,
        "tenant": source.tenant,
        "status": _shown(source.status),
        "status_details": None if resource is None else resource.details,
        "links": links,
    }


def matrix_view(
    found: Stand,
    nodes: list[dict[str, Any]],
    *,
    marker: str | None,
    failed: Mapping[str, int],
    scope: str | None,
    query: Mapping[str, str],
) -> dict[str, Any]:
    """Return an environment's nodes by data sources; ``nodes``: those of this page, ``query``: what chose them."""
    environment = found.matrix.environment
    newest = found.matrix.newest
    return {
        "environment": environment,
        "node_count": len(found.matrix.rows),
        "last_run": None if newest is None else run_item(newest, failed, scope),
        "data_sources": [source_item(source) for source in found.sources],
        "nodes": nodes,
        "nodes_next": _next(f"{base_of(scope, environment)}/matrix", marker, None, query),
    }


def node_items(rows: Sequence[NodeRow], addresses: Addresses) -> list[dict[str, Any]]:
    """Return nodes as the matrix shows them."""
    words = _Words()
    return [
        {
            "node": row.node,
            "fqdn": row.fqdn,
            "level": level_item(addresses.of_node(row.node, row.fqdn)),
            "statuses": words(row.states),
            "run": row.run,
            "run_started_at": _moment(row.time),
            "run_failed": row.failed,
            "problems": [{"data_source": one.data_source, "what": one.what} for one in row.problems],
        }
        for row in rows
    ]


class _Words:
    """The API's words for the states of a row; most rows look alike."""

    def __init__(self) -> None:
        self._made: dict[tuple[State | None, ...], list[str | None]] = {}

    def __call__(self, states: tuple[State | None, ...]) -> list[str | None]:
        if states not in self._made:
            self._made[states] = [None if state is None else state.value for state in states]
        return self._made[states]


def level_item(levels: LevelPath | None) -> dict[str, str] | None:
    """Return a level path, outermost level first."""
    return None if levels is None else dict(levels)


def layers_view(
    item: Mapping[str, Any],
    levels: LevelPath,
    chosen: Sequence[Leaf],
    *,
    marker: str | None,
    limit: int,
    counts: Mapping[str, int],
    query: Mapping[str, str],
    masker: Masker,
) -> dict[str, Any]:
    """Return a page of a data source's leaves at a place, secrets masked; ``item``: its representation."""
    self = item["links"]["self"]
    return {
        **item,
        "level": dict(levels),
        "counts": dict(counts),
        "leaves": [leaf_json(leaf, masker) for leaf in chosen],
        "leaves_next": _next(self, marker, limit, query),
    }


def history_view(
    item: Mapping[str, Any],
    levels: LevelPath,
    kind: str,
    found: Iterable[Step],
    *,
    marker: str | None,
    limit: int,
    query: Mapping[str, str],
) -> dict[str, Any]:
    """Return a page of a document's versions, newest first, each with what it changed, secrets masked."""
    versions = [
        {
            "version": step.version.number,
            "time": step.version.time,
            "author": step.version.author,
            "run": step.version.run,
            "comment": step.version.comment,
            "changes": None
            if step.changes is None
            else [{"key": list(one.path), "before": one.before, "after": one.after} for one in step.changes],
            "more_changes": step.more,
        }
        for step in found
    ]
    return {
        **item,
        "level": dict(levels),
        "kind": kind,
        "versions": versions,
        "versions_next": _next(item["links"]["self"], marker, limit, query),
    }


@lru_cache(maxsize=1024)
def _moment(time: datetime | None) -> str | None:
    return None if time is None else views.moment(int(time.timestamp() * 1_000_000))


def _next(base: str, marker: str | None, limit: int | None, query: Mapping[str, str] | None = None) -> str | None:
    if marker is None:
        return None
    asked = {name: value for name, value in (query or {}).items() if name not in {"limit", "marker"}}
    if limit is not None:
        asked["limit"] = str(limit)
    asked["marker"] = marker
    return f"{base}?{'&'.join(f'{name}={encoded(value)}' for name, value in asked.items())}"
