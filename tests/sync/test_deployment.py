"""U14, U2: which failures stop a deployment, and what is said to it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from configdb_sync import errors
from configdb_sync.exits import Exit
from configdb_sync.store.approvals import UnsafeChange
from configdb_sync.sync.deployment import (
    DEFAULT_POLICY,
    DeploymentResult,
    FailureKind,
    deployment_result,
    deployment_result_of_error,
    error_lines,
    stage_lines,
)
from configdb_sync.sync.plan import EnvironmentChange, NodePlan
from configdb_sync.sync.report import NodeReport, Report
from configdb_sync.sync.run_options import Stage

BROKEN = errors.DocumentError("broken")
AWAY = errors.UnavailableError("away")
REFUSED = errors.AccessError("refused")
WARNS = DeploymentResult(Exit.OK, warning=True)
STATUSES = {"1": "ready", "2": "deploying", "3": "error"}


def report(
    *nodes: tuple[str, errors.ProductError | None], stopped: errors.ProductError | None = None, left: str = ""
) -> Report:
    done = [NodeReport(NodePlan(name), problems=() if problem is None else (problem,)) for name, problem in nodes]
    nothing = EnvironmentChange(False, "", ())
    began = datetime(2026, 1, 1, tzinfo=UTC)
    return Report("req-1", 5, began, 2.0, nothing, tuple(done), stopped, tuple(left), "main")


def test_nodes_being_deployed_count_and_ready_ones_warn() -> None:
    ready, deploying, failed = (report((name, BROKEN), ("4", None)) for name in "123")
    assert deployment_result(ready, Stage.MAIN, DEFAULT_POLICY, STATUSES) == WARNS
    assert deployment_result(deploying, Stage.MAIN, DEFAULT_POLICY, STATUSES) == DeploymentResult(Exit.PARTIAL)
    assert deployment_result(failed, Stage.MAIN, DEFAULT_POLICY, STATUSES) == DeploymentResult(Exit.PARTIAL)
    assert deployment_result(ready, Stage.MAIN, frozenset({FailureKind.READY}), STATUSES) == DeploymentResult(
        Exit.PARTIAL
    )
    assert deployment_result(deploying, Stage.MAIN, frozenset({FailureKind.READY}), STATUSES) == WARNS


def test_without_nailgun_every_node_counts_and_so_does_one_that_it_does_not_know() -> None:
    ready = report(("1", BROKEN), ("4", None))
    assert deployment_result(ready, Stage.PRE, DEFAULT_POLICY, None) == DeploymentResult(Exit.PARTIAL)
    assert deployment_result(report(("9", BROKEN)), Stage.PRE, DEFAULT_POLICY, STATUSES) == DeploymentResult(
        Exit.PARTIAL
    )


@pytest.mark.parametrize(("error", "code"), [(AWAY, Exit.CONFIGDB), (REFUSED, Exit.ACCESS)])
def test_configdb_away_is_a_class_of_its_own(error: errors.ProductError, code: Exit) -> None:
    found = report(("1", error), stopped=error, left="2")
    assert deployment_result(found, Stage.PRE, DEFAULT_POLICY, STATUSES) == DeploymentResult(code)
    assert deployment_result(found, Stage.PRE, frozenset({FailureKind.DEPLOYING, FailureKind.READY}), STATUSES) == WARNS
    assert deployment_result_of_error(error, code, Stage.PRE, DEFAULT_POLICY) == DeploymentResult(code)
    assert deployment_result_of_error(error, code, Stage.PRE, frozenset({FailureKind.DEPLOYING})) == WARNS


def test_nodes_that_got_no_turn_count_unless_configdb_is_why() -> None:
    late = report(("1", None), stopped=errors.OutOfTimeError("late"), left="2")
    assert deployment_result(late, Stage.MAIN, DEFAULT_POLICY, STATUSES) == DeploymentResult(Exit.OUT_OF_TIME)
    ready = report(("2", None), stopped=errors.OutOfTimeError("late"), left="1")
    assert deployment_result(ready, Stage.MAIN, DEFAULT_POLICY, STATUSES) == WARNS
    nothing = report(stopped=errors.OutOfTimeError("late"))
    assert deployment_result(nothing, Stage.MAIN, DEFAULT_POLICY, STATUSES) == DeploymentResult(Exit.OUT_OF_TIME)


def test_post_never_fails_the_deployment_unless_set_so() -> None:
    for found in (report(("2", BROKEN)), report(stopped=AWAY)):
        assert deployment_result(found, Stage.POST, DEFAULT_POLICY, None) == WARNS
        assert deployment_result(found, Stage.POST, DEFAULT_POLICY | {FailureKind.POST}, None).exit is found.exit
    wrong = errors.SettingsError("wrong", "way out")
    assert deployment_result_of_error(wrong, Exit.USAGE, Stage.POST, DEFAULT_POLICY) == WARNS
    assert deployment_result_of_error(wrong, Exit.USAGE, Stage.MAIN, DEFAULT_POLICY) == DeploymentResult(Exit.USAGE)
    assert deployment_result_of_error(wrong, Exit.USAGE, Stage.MAIN, frozenset()) == WARNS


def test_a_run_without_failures_is_ok() -> None:
    assert deployment_result(report(("1", None)), Stage.POST, DEFAULT_POLICY, None) == DeploymentResult(Exit.OK)


def test_the_last_line_says_what_to_do_and_every_line_is_short_and_plain() -> None:
    hostile = errors.DocumentError("a\n\x1b[31mok: all in step\u2028" + "x" * 1000)
    found = report(*((str(number), hostile) for number in range(2, 40)))
    lines = list(stage_lines(found, DeploymentResult(Exit.PARTIAL)))
    assert len(lines) < 20
    assert all(line.isprintable() and len(line) < 700 for line in lines)
    assert lines[-1].startswith("failed: nodes 2, 3")
    assert "configdb-sync runs req-1" in lines[-1]
    assert list(stage_lines(found, WARNS))[-1].startswith("warning: ")
    assert list(stage_lines(report(("1", None)), DeploymentResult(Exit.OK)))[-1] == "ok: all in step, nothing to do"
    assert next(error_lines(hostile, WARNS)).startswith("warning: a\\u000a")


def test_what_was_withheld_is_said_with_the_command_that_lets_it_through() -> None:
    change = UnsafeChange("1", "astute", "astute.yaml", ("a",), 1, "x", "y")
    unsafe = NodeReport(NodePlan("1", unsafe=(change,)), problems=(errors.UnsafeError("would remove"),))
    found = Report("req-1", 5, datetime(2026, 1, 1, tzinfo=UTC), 2.0, EnvironmentChange(False, "", ()), (unsafe,))
    last = list(stage_lines(found, deployment_result(found, Stage.MAIN, DEFAULT_POLICY, None)))[-1]
    assert last.startswith("failed: ")
    assert f"configdb-sync approve {found.unsafe_digest}" in last
