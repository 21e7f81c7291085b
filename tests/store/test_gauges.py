"""U29: what Prometheus reads of environments, from the product's own database."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
import sqlalchemy as sa
from prometheus_client.parser import text_string_to_metric_families

from configdb_sync.exits import Exit
from configdb_sync.store.database import Database
from configdb_sync.store.findings import SKIPPED, Finding, FindingKind, Findings, WatchRound
from configdb_sync.store.gauges import GAUGES, gauges_text
from configdb_sync.store.runs import About, Journal, Problem, RunNode
from configdb_sync.store.tenant_schema import HOLDINGS, TENANTS
from tests.support.clocks import ManualClock


def values(database: Database, clock: ManualClock) -> dict[str, float]:
    """All samples with a value above 0, by their names and labels but those of the environment."""
    found = {}
    for family in text_string_to_metric_families(gauges_text(database, clock).decode()):
        assert family.name.removeprefix("configdb_sync_") in GAUGES
        for sample in family.samples:
            labels = sample.labels
            kind = f" {labels['kind']}" if "kind" in labels else ""
            found[f"{labels['environment']}{labels['tenant']} {sample.name.removeprefix('configdb_sync_')}{kind}"] = (
                sample.value
            )
    return {name: value for name, value in found.items() if value or " findings " not in name}


@pytest.fixture
def findings(own_database: Database, clock: ManualClock) -> Findings:
    return Findings(own_database, clock)


def run(database: Database, clock: ManualClock, identity: str, outcome: str) -> None:
    journal = Journal(database, About(identity, 5, "nodes", "ann", "elsewhere", 1), clock)
    journal.begin()
    journal.node_done(RunNode("3", "failed", 0, 0, 1), [Problem(None, "no answer")])
    journal.stopped(outcome, Exit.PARTIAL, {})


def test_an_environment_with_runs_and_no_round(own_database: Database, clock: ManualClock) -> None:
    assert values(own_database, clock) == {}
    run(own_database, clock, "req-1", "PARTIAL")
    assert values(own_database, clock) == {
        "5 last_run_timestamp_seconds": clock.now().timestamp(),
        "5 last_run_success": 0,
        "5 last_run_nodes_failed": 1,
    }


def test_counts_of_the_round_and_of_what_is_so(findings: Findings, own_database: Database, clock: ManualClock) -> None:
    now = clock.now()
    drift = Finding(5, FindingKind.DRIFT, "x", node="3", data_source="globals", count=4)
    found = [
        *(drift, replace(drift, node="4", count=1)),
        Finding(5, FindingKind.OVERRIDE_WITHOUT_EFFECT, "x", key="a"),
        Finding(5, FindingKind.OVERRIDE_ENDED, "x", key="b"),
        Finding(5, FindingKind.NODE_FAILED, "x", node="9", count=7),
    ]
    findings.keep(5, found, lambda _: True)
    findings.keep_round(WatchRound(5, now, now, "DRIFT", complete=now, nodes=12, overrides=8, expiring=2))
    expected = {
        "5 watch_timestamp_seconds": now.timestamp(),
        "5 watch_complete_timestamp_seconds": now.timestamp(),
        "5 watch_success": 1,
        "5 nodes": 12,
        "5 nodes_failed": 1,
        "5 keys_drifted": 5,
        "5 overrides": 8,
        "5 overrides_expiring": 2,
        "5 overrides_ended": 1,
        "5 overrides_without_effect": 1,
        "5 findings drift": 2,
        "5 findings override-without-effect": 1,
        "5 findings override-ended": 1,
        "5 findings node-failed": 1,
    }
    assert values(own_database, clock) == expected
    clock.sleep(60)
    findings.settle(5, {FindingKind.DRIFT}, {"3", "4"})
    findings.keep_round(WatchRound(5, now, clock.now(), "CONFIGDB", "away"))
    after = values(own_database, clock)
    assert (after["5 keys_drifted"], after["5 watch_success"]) == (0, 0), "at once, before the next round"
    assert after["5 watch_complete_timestamp_seconds"] == now.timestamp()
    findings.keep_round(WatchRound(5, now, clock.now() + timedelta(1), SKIPPED, "a run is at work"))
    assert values(own_database, clock)["5 watch_success"] == 1


def test_the_environments_home_is_its_tenant(findings: Findings, own_database: Database, clock: ManualClock) -> None:
    findings.keep_round(WatchRound(5, clock.now(), clock.now(), "CONFIGDB", "away"))
    with own_database.transaction() as one:
        row = {"created": 1, "updated": 1}
        one.execute(sa.insert(TENANTS).values(id='ac"me', **row))
        number = one.execute(sa.select(TENANTS.c.number)).scalar_one()
        one.execute(sa.insert(HOLDINGS).values(tenant=number, environment=5, home=True, **row))
    assert values(own_database, clock)['5ac"me watch_success'] == 0
