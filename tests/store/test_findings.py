"""U29: findings are kept with their history, the same one as the same, on both databases."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from configdb_sync.store.database import Database
from configdb_sync.store.findings import SKIPPED, Finding, FindingKind, Findings, WatchRound
from tests.support.clocks import ManualClock

DRIFT = Finding(5, FindingKind.DRIFT, "debug", node="3", data_source="globals", count=2)
OTHER = replace(DRIFT, node="10", count=5)
FAILED = Finding(5, FindingKind.RUN_FAILED, "the last run ended with DIED")


@pytest.fixture
def findings(own_database: Database, clock: ManualClock) -> Findings:
    return Findings(own_database, clock)


def test_the_same_is_the_same_until_it_is_settled_and_anew_after(findings: Findings, clock: ManualClock) -> None:
    first = clock.now()
    findings.keep(5, [DRIFT, OTHER], lambda _: True)
    clock.sleep(60)
    findings.keep(5, [replace(DRIFT, text="debug and more", count=3)], lambda one: one.node != "10")
    kept, other = findings.open(5)
    assert (kept.finding.text, kept.finding.count, kept.first_seen) == ("debug and more", 3, first)
    assert kept.last_seen == first + timedelta(seconds=60)
    assert other.finding == OTHER, "it couldn't be looked at"
    findings.keep(5, [], lambda _: True)
    assert findings.open() == []
    assert [one.settled for one in findings.settled_since(first, 5)] == [clock.now()] * 2
    clock.sleep(60)
    findings.keep(5, [DRIFT], lambda _: True)
    (again,) = findings.open()
    assert (again.first_seen, again.settled) == (clock.now(), None)


def test_environments_do_not_settle_each_others(findings: Findings) -> None:
    findings.keep(5, [DRIFT], lambda _: True)
    findings.keep(6, [replace(DRIFT, environment=6), replace(OTHER, environment=6)], lambda _: True)
    assert findings.counts() == {5: {FindingKind.DRIFT: (1, 2)}, 6: {FindingKind.DRIFT: (2, 7)}}
    findings.forget(6)
    assert [one.finding for one in findings.open()] == [DRIFT]


def test_a_run_settles_what_it_has_put_in_step(findings: Findings) -> None:
    findings.keep(5, [DRIFT, OTHER, FAILED], lambda _: True)
    findings.settle(5, {FindingKind.DRIFT}, {"3"})
    assert [one.finding for one in findings.open()] == [FAILED, OTHER]
    findings.settle(5, {FindingKind.DRIFT, FindingKind.RUN_FAILED}, {""})
    assert [one.finding for one in findings.open()] == [OTHER]


def test_one_notification_of_several_is_read_when_all_are_settled(findings: Findings) -> None:
    findings.keep(5, [DRIFT, OTHER], lambda _: True)
    findings.notified([DRIFT, OTHER], 7)
    assert [one.notification for one in findings.open()] == [7, 7]
    findings.keep(5, [DRIFT], lambda _: True)
    assert findings.notified_and_settled(5) == []
    findings.keep(5, [], lambda _: True)
    assert findings.notified_and_settled(5) == [7]
    assert findings.notified_and_settled(6) == []
    findings.was_read(7)
    assert findings.notified_and_settled(5) == []


def test_what_is_settled_is_forgotten_after_a_month(findings: Findings, clock: ManualClock) -> None:
    began = clock.now()
    findings.keep(5, [DRIFT, OTHER], lambda _: True)
    findings.notified([OTHER], 7)
    findings.keep(5, [], lambda _: True)
    clock.sleep(31 * 86400)
    findings.keep(5, [], lambda _: True)
    assert [one.finding for one in findings.settled_since(began)] == [OTHER], "its notification is still to be read"


def test_the_counts_of_the_last_complete_round_stay(findings: Findings, clock: ManualClock) -> None:
    now = clock.now()
    whole = WatchRound(5, now, now, "OK", complete=now, nodes=3, overrides=2, expiring=1)
    findings.keep_round(WatchRound(6, now, now, "CONFIGDB", "away"))
    findings.keep_round(whole)
    assert findings.rounds() == {5: whole, 6: WatchRound(6, now, now, "CONFIGDB", "away")}
    clock.sleep(60)
    later = WatchRound(5, clock.now(), clock.now(), SKIPPED, "a run is at work")
    findings.keep_round(later)
    assert findings.rounds()[5] == replace(later, complete=now, nodes=3, overrides=2, expiring=1)
