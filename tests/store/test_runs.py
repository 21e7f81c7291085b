"""U14, U17, S8: what is remembered of runs, and what it tells later."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from configdb_sync import errors
from configdb_sync.errors import SettingsError
from configdb_sync.exits import Exit
from configdb_sync.store.database import Database
from configdb_sync.store.lease import Lease
from configdb_sync.store.records import Record, Records
from configdb_sync.store.runs import AT_WORK, DIED, About, Journal, LocalProcesses, PastRuns, Problem
from configdb_sync.store.states import SyncState, source_states
from configdb_sync.sync.plan import EnvironmentChange, NodePlan
from configdb_sync.sync.render.forms import stored_forms
from configdb_sync.sync.report import NodeReport, Report
from tests.support.clocks import ManualClock

ABOUT = About("req-1", 5, "directory:/x", "ann", "one", 7)
THERE = ("1", "2", "3")


def node(name: str, *problems: errors.ProductError) -> NodeReport:
    return NodeReport(NodePlan(name), ("astute",), (), problems)


def report(*nodes: NodeReport, run: str = "req-1") -> Report:
    began = datetime(2026, 1, 1, tzinfo=UTC)
    return Report(run, 5, began, 1.0, EnvironmentChange(False, "", ()), nodes)


Begin = Callable[..., Journal]


@pytest.fixture
def begin(own_database: Database, clock: ManualClock) -> Begin:
    def new(run: str, **more: Any) -> Journal:
        clock.sleep(10)
        whole = more.pop("whole", True)
        journal = Journal(own_database, replace(ABOUT, identity=run, **more), clock, whole=whole)
        journal.begin()
        return journal

    return new


@pytest.fixture
def past(own_database: Database, clock: ManualClock) -> PastRuns:
    return PastRuns(own_database, clock, LocalProcesses("one", lambda pid: pid == 7))


def done(journal: Journal, report: NodeReport) -> None:
    journal.node_done(report.done, [Problem(one.data_source, one.what) for one in report.problems])


def finish(journal: Journal, run: str, *nodes: NodeReport, keep: int = 50) -> None:
    for one in nodes:
        done(journal, one)
    found = report(*nodes, run=run)
    journal.finish(found.exit, found.totals, stored_forms(found), THERE, keep)


def test_a_run_is_remembered_with_its_report(begin: Begin, past: PastRuns) -> None:
    finish(begin("req-1", stage="main"), "req-1", node("1"), node("2", errors.DocumentError("broken")))
    run = past.find("last")
    assert (run.author, run.host, run.pid, run.stage, run.kind) == ("ann", "one", 7, "main", "sync")
    assert (run.outcome, run.exit, run.nodes, run.uploads, run.problems) == ("PARTIAL", 3, 2, 2, 1)
    assert run.finished is not None
    assert run.digest == report(node("1"), node("2")).plan_digest
    assert [(one.node, one.outcome) for one in past.nodes_of("req-1")] == [("1", "done"), ("2", "failed")]
    shown = past.report_of("req-1")
    assert shown is not None
    assert shown["json"]["nodes"][1]["problems"][0]["what"] == "broken"
    assert shown["text"][-1].startswith("Run req-1:")
    assert shown["markdown"][0] == "## Run `req-1` on environment 5"


def test_a_run_is_at_work_as_long_as_its_lease_and_its_process_are_there(
    begin: Begin, past: PastRuns, own_database: Database, clock: ManualClock
) -> None:
    begin("req-1")
    assert past.find("req-1").outcome == DIED
    Lease(own_database, "environment 5", "req-1", "one", clock).take(0)
    # PostgreSQL's own clock is far ahead of the test's.
    if not own_database.postgresql:
        assert past.find("req-1").outcome == AT_WORK
        clock.sleep(100)
    else:
        assert past.find("req-1").outcome == AT_WORK
        own_database.write(lambda connection: connection.exec_driver_sql("UPDATE leases SET until = 0"))
    assert past.find("req-1").outcome == DIED
    assert past.at_work(5) is None


def test_the_next_run_writes_down_that_an_open_one_died(begin: Begin, past: PastRuns) -> None:
    begin("req-1", pid=8)
    begin("req-other", environment=6)
    finish(begin("req-2"), "req-2")
    assert {run.identity: run.outcome for run in past.newest()} == {"req-1": DIED, "req-other": DIED, "req-2": "OK"}
    assert [run.identity for run in past.newest(5)] == ["req-2", "req-1"]


def test_nodes_longest_not_done_come_first(begin: Begin) -> None:
    finish(begin("req-1"), "req-1", *map(node, THERE))
    assert begin("req-2").order(THERE) == ["1", "2", "3"]
    finish(begin("req-3"), "req-3", node("1"), node("2", errors.NodeError("silent")))
    assert begin("req-4").order([*THERE, "4"]) == ["4", "2", "3", "1"]
    assert begin("req-5", place="directory:/y").order(THERE) == ["1", "2", "3"]


def test_nodes_done_are_known_though_the_run_is_killed(begin: Begin, clock: ManualClock) -> None:
    journal = begin("req-1")
    done(journal, node("1"))
    clock.sleep(2)
    done(journal, node("2"))
    assert begin("req-2").order(THERE) == ["3", "1", "2"]


def test_older_runs_are_dropped_with_all_that_hangs_on_them(
    begin: Begin, past: PastRuns, own_database: Database
) -> None:
    begin("req-other", environment=6)
    for number in range(6):
        finish(begin(f"req-{number}"), f"req-{number}", node("1"), keep=3)
    assert [run.identity for run in past.newest(5)] == ["req-5", "req-4", "req-3"]
    assert past.find("req-other").environment == 6

    def rows(table: str) -> int:
        query = f"SELECT count(*) FROM {table}"
        return int(own_database.read(lambda connection: connection.exec_driver_sql(query).scalar_one()))

    assert rows("run_nodes") == rows("run_reports") == 3


def test_a_clock_that_was_put_back_drops_no_run_that_has_just_ended(
    begin: Begin, past: PastRuns, clock: ManualClock
) -> None:
    """F5: what this run did must be known to the next one, whatever the clock says."""
    for number in range(3):
        finish(begin(f"req-{number}"), f"req-{number}", keep=3)
    clock.sleep(-86400)
    finish(begin("req-back"), "req-back", node("1"), keep=3)
    assert [run.identity for run in past.newest(5)] == ["req-back", "req-2", "req-1"]
    assert past.find("last").identity == past.newest_of([5])[5].identity == "req-back"
    assert [run.identity for run in past.newest(5, before=past.find("req-2").number)] == ["req-1"]
    assert begin("req-next").order(THERE) == ["2", "3", "1"]
    assert past.find("last").identity == "req-next"
    finish(begin("req-one"), "req-one", keep=1)
    assert [run.identity for run in past.newest(5)] == ["req-one"]


def test_a_run_is_found_by_the_beginning_of_its_identity(begin: Begin, past: PastRuns) -> None:
    for run in ("req-aab", "req-aac", "req-b_"):
        finish(begin(run), run)
    assert past.find("aab").identity == "req-aab"
    assert past.find("req-b").identity == "req-b_"
    assert past.find("last").identity == "req-b_"
    for name, reason in (("aa", "several"), ("%", "no run"), ("req-x", "no run")):
        with pytest.raises(SettingsError, match=reason):
            past.find(name)


def test_data_sources_stand_as_runs_found_them(
    begin: Begin, past: PastRuns, own_database: Database, clock: ManualClock
) -> None:
    """S8: BUILD while a run is at work, ERROR with what went wrong, ACTIVE when all agrees; no BUILD for ever."""
    for name in THERE:
        record = Record("v", ("f",))
        Records(own_database, ABOUT.place, 5, "req-1").store(name, {"astute": record, "globals": record})

    def states() -> dict[str, tuple[SyncState, str]]:
        return {name: (one.state, one.details) for name, one in source_states(own_database, past, 5).items()}

    lease = Lease(own_database, "environment 5", "req-1", "one", clock)
    lease.take(0)
    journal = begin("req-1")
    building = (SyncState.BUILD, "run req-1 is at work")
    assert states() == {"astute": building, "globals": building}
    lease.release()
    assert states()["astute"] == (SyncState.ERROR, "run req-1 died")
    broken = errors.DocumentError("broken", data_source="astute")
    finish(journal, "req-1", node("1"), node("2", broken), node("3"))
    assert states() == {"astute": (SyncState.ERROR, "node 2: broken"), "globals": (SyncState.ACTIVE, "")}
    # A run on other nodes changes nothing of what is wrong with node 2, one on node 2 does.
    finish(begin("req-2", whole=False), "req-2", node("1"))
    assert states()["astute"] == (SyncState.ERROR, "node 2: broken")
    finish(begin("req-3", whole=False), "req-3", node("2"), node("3", errors.NodeError("silent")))
    assert {state for state, _ in states().values()} == {SyncState.ERROR}
    finish(begin("req-4"), "req-4", *map(node, THERE))
    assert {state for state, _ in states().values()} == {SyncState.ACTIVE}


def test_what_was_wrong_with_a_node_that_is_gone_is_forgotten(
    begin: Begin, past: PastRuns, own_database: Database
) -> None:
    gone = node("9", errors.DocumentError("broken", data_source="astute"))
    finish(begin("req-1", whole=False), "req-1", gone)
    assert source_states(own_database, past, 5)["astute"].state is SyncState.ERROR
    finish(begin("req-2"), "req-2", node("1"))
    assert source_states(own_database, past, 5) == {}


def test_the_end_of_a_run_without_nodes_is_kept(begin: Begin, past: PastRuns) -> None:
    stopped = replace(report(), stopped=errors.SettingsError("wrong", "way out"))
    begin("req-1").stopped("USAGE", Exit.USAGE, stored_forms(stopped))
    run = past.find("req-1")
    assert (run.outcome, run.exit, run.nodes) == ("USAGE", 2, None)
    shown = past.report_of("req-1")
    assert shown is not None
    assert "wrong" in shown["text"][-1]
