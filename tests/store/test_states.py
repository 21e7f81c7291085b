"""S2, S8: what can be said of each document of each node, by what runs recorded."""

from __future__ import annotations

from datetime import UTC, datetime

from configdb_sync.store.runs import PastRun, Problem
from configdb_sync.store.states import Matrix, MatrixRecords, SyncState, matrix

A, B, E = SyncState.ACTIVE, SyncState.BUILD, SyncState.ERROR


def run(identity: str, outcome: str = "OK") -> PastRun:
    return PastRun(
        identity=identity,
        environment=5,
        place="p",
        author="me",
        host="h",
        pid=1,
        kind="sync",
        stage=None,
        number=1,
        started=datetime(2026, 1, 1, tzinfo=UTC),
        finished=None,
        outcome=outcome,
        exit=0,
        nodes=1,
        uploads=0,
        writes=0,
        problems=0,
        bytes=0,
        digest=None,
    )


def states(found: Matrix) -> dict[str, tuple[SyncState | None, ...]]:
    return {row.node: row.states for row in found.rows}


DOCUMENTS = {"2": ("astute", "globals"), "10": ("astute",)}
NAMES = {"2": "two", "10": None}


def test_nodes_are_in_order_and_unknown_is_no_state() -> None:
    found = matrix(5, MatrixRecords(NAMES, DOCUMENTS, {}, []))
    assert (found.data_sources, states(found)) == (("astute", "globals"), {"2": (A, A), "10": (A, None)})
    assert [row.node for row in found.rows] == ["2", "10"]
    assert (found.newest, found.rows[0].run) == (None, None)


def test_a_document_that_failed_and_a_node_that_failed() -> None:
    problems = {"2": [Problem("globals", "bad")], "10": [Problem(None, "away"), Problem("new", "x")]}
    found = matrix(5, MatrixRecords(NAMES, DOCUMENTS, problems, [(run("r1"), {"2": "failed", "10": "failed"})]))
    assert found.data_sources == ("astute", "globals", "new")
    assert states(found) == {"2": (A, E, None), "10": (E, None, E)}
    assert [row.failed for row in found.rows] == [True, True]


def test_a_run_at_work_builds_what_it_isnt_done_with() -> None:
    known = MatrixRecords(NAMES, DOCUMENTS, {}, [(run("r2", "AT WORK"), {"10": "done"}), (run("r1"), {"2": "done"})])
    found = matrix(5, known)
    assert states(found) == {"2": (B, B), "10": (A, None)}
    assert [row.run for row in found.rows] == ["r1", "r2"]


def test_a_run_that_died_is_told_of_what_it_wasnt_done_with() -> None:
    found = matrix(5, MatrixRecords(NAMES, DOCUMENTS, {}, [(run("r2", "DIED"), {"10": "done"})]))
    assert states(found) == {"2": (E, E), "10": (A, None)}
    assert "died" in found.rows[0].problems[0].what
    assert found.rows[1].problems == ()


def test_only_the_data_sources_asked_for() -> None:
    found = matrix(5, MatrixRecords(NAMES, DOCUMENTS, {}, []), ["globals", "never"], more=False)
    assert states(found) == {"2": (A, None), "10": (None, None)}
