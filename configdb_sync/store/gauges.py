"""What the product's own database says of environments, as Prometheus reads it (U29).

Both services and the watch's text file show the same. It is about no request, so ``tenant`` is the environment's home,
empty for an environment without one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import sqlalchemy as sa

from configdb_sync.clock import Clock
from configdb_sync.exits import Exit
from configdb_sync.store.database import Database
from configdb_sync.store.findings import SKIPPED, FindingKind, Findings, WatchRound
from configdb_sync.store.runs import AT_WORK, PastRuns
from configdb_sync.store.tenant_schema import HOLDINGS, TENANTS

if TYPE_CHECKING:
    from prometheus_client.core import GaugeMetricFamily

KIND = "text/plain; version=0.0.4; charset=utf-8"
"""The media type of the text."""
GAUGES = {
    "last_run_timestamp_seconds": "When the last run that has ended began",
    "last_run_success": "Whether the last run that has ended did all that it had to",
    "last_run_nodes_failed": "Nodes that failed in the last run that has ended",
    "watch_timestamp_seconds": "When the last round of the watch ended",
    "watch_complete_timestamp_seconds": "When the last round of the watch with a plan ended",
    "watch_success": "Whether the last round of the watch could look at the environment, or left it to a run",
    "findings": "Open findings of the watch",
    "nodes": "Nodes in the last plan",
    "nodes_failed": "Nodes that could not be worked on",
    "keys_drifted": "Keys that differ between nodes and ConfigDB",
    "overrides": "Overrides",
    "overrides_without_effect": "Overrides that no node reads",
    "overrides_ended": "Overrides whose end has come and that are still there",
    "overrides_expiring": "Overrides that end soon",
}
"""Every gauge, without the prefix ``configdb_sync_``, and what it says. ``findings`` has the label ``kind`` too."""


def gauges_text(database: Database, clock: Clock) -> bytes:
    """Return all gauges as text. Raises ``StateError`` if the database can't be used."""
    # Late: the library looks at the environment when it is loaded, and few commands need it.
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.core import GaugeMetricFamily

    families: dict[str, GaugeMetricFamily] = {}
    for name, text in GAUGES.items():
        labels = ["environment", "tenant", *(["kind"] if name == "findings" else [])]
        families[name] = GaugeMetricFamily(f"configdb_sync_{name}", text, labels=labels)
    for name, labels, value in _values(database, clock):
        families[name].add_metric(labels, value)

    class Collected:
        def collect(self) -> Iterator[GaugeMetricFamily]:
            yield from families.values()

    registry = CollectorRegistry()
    registry.register(Collected())
    return generate_latest(registry)


def _values(database: Database, clock: Clock) -> Iterator[tuple[str, list[str], float]]:
    findings, runs, homes = Findings(database, clock), PastRuns(database, clock), _homes(database)
    rounds, counts = findings.rounds(), findings.counts()
    for environment in sorted({*runs.environments(), *rounds}):
        labels = [str(environment), homes.get(environment, "")]
        last = next((run for run in runs.newest(environment, 2) if run.outcome != AT_WORK), None)
        if last is not None:
            yield "last_run_timestamp_seconds", labels, last.started.timestamp()
            yield "last_run_success", labels, float(last.outcome == Exit.OK.name)
            yield "last_run_nodes_failed", labels, runs.failed_nodes([last.identity]).get(last.identity, 0)
        if environment in rounds:
            found = counts.get(environment, {})
            for name, value in _of_round(rounds[environment], found):
                yield name, labels, value
            for kind in FindingKind:
                yield "findings", [*labels, kind.value], found.get(kind, (0, 0))[0]


def _of_round(done: WatchRound, found: dict[FindingKind, tuple[int, int]]) -> Iterator[tuple[str, float]]:
    yield "watch_timestamp_seconds", done.finished.timestamp()
    yield "watch_success", float(done.outcome == SKIPPED or done.complete == done.finished)
    if done.complete is None:
        return
    yield "watch_complete_timestamp_seconds", done.complete.timestamp()
    for name in ("nodes", "overrides"):
        yield name, getattr(done, name) or 0
    yield "overrides_expiring", done.expiring or 0
    yield "keys_drifted", found.get(FindingKind.DRIFT, (0, 0))[1]
    yield "nodes_failed", found.get(FindingKind.NODE_FAILED, (0, 0))[0]
    yield "overrides_without_effect", found.get(FindingKind.OVERRIDE_WITHOUT_EFFECT, (0, 0))[0]
    yield "overrides_ended", found.get(FindingKind.OVERRIDE_ENDED, (0, 0))[0]


def _homes(database: Database) -> dict[int, str]:
    query = (
        sa.select(HOLDINGS.c.environment, TENANTS.c.id)
        .join(TENANTS, TENANTS.c.number == HOLDINGS.c.tenant)
        .where(HOLDINGS.c.home)
    )
    return {row[0]: row[1] for row in database.read(lambda connection: connection.execute(query).all())}
