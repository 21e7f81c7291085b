"""A run as a task of Fuel's deployment: which failures stop the deployment (U2, U14), and what its log says (F3, F5).

The log is open to all: a few plain lines, no values, the last one says what to do. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from configdb_sync.errors import AccessError, ConfigDBError, ProductError, UnavailableError
from configdb_sync.exits import Exit
from configdb_sync.names import one_line
from configdb_sync.sync.render.wording import count, shortened
from configdb_sync.sync.report import Report
from configdb_sync.sync.run_options import Stage

READY = "ready"
"""Nailgun's status of a node that is deployed."""


class FailureKind(Enum):
    """Classes of failures that may stop a deployment, as ``failure_policy`` names them."""

    DEPLOYING = "deploying"
    READY = "ready"
    CONFIGDB = "configdb"
    POST = "post"


Policy = frozenset[FailureKind]
DEFAULT_POLICY: Policy = frozenset({FailureKind.DEPLOYING, FailureKind.CONFIGDB})


class NodeStatuses(Protocol):
    """Knows how far the deployment of each node is."""

    @property
    def statuses(self) -> Mapping[str, str] | None:
        """Nailgun's status by node identity; None without Nailgun: every node then counts as being deployed."""


@dataclass(frozen=True)
class WithoutNailgun:
    """Knows nothing."""

    statuses: Mapping[str, str] | None = None


@dataclass(frozen=True)
class DeploymentResult:
    """What a run says to the deployment: the exit code, and whether failures are left that don't count."""

    exit: Exit
    warning: bool = False


def deployment_result(
    report: Report, stage: Stage, policy: Policy, statuses: Mapping[str, str] | None
) -> DeploymentResult:
    """Return what a run says to the deployment."""
    if report.exit is Exit.OK:
        return DeploymentResult(Exit.OK)
    failed = {node.plan.node for node in report.nodes if not all(map(_is_away, node.problems))}
    if report.stopped is not None and not _is_away(report.stopped):
        # Out of time, the lock lost, the plan no longer true: it failed for the nodes that it kept from their turn.
        failed.update(report.not_attempted)
        if not failed and not report.nodes:
            return _verdict(report.exit, stage, policy, counts=bool(policy))
    counts = FailureKind.CONFIGDB in policy and any(map(_is_away, report.problems))
    counts = counts or _nodes_count(failed, policy, statuses)
    return _verdict(report.exit, stage, policy, counts=counts)


def deployment_result_of_error(error: ProductError, code: Exit, stage: Stage, policy: Policy) -> DeploymentResult:
    """Return what a run says that an error ended before any node was worked on."""
    counts = FailureKind.CONFIGDB in policy if isinstance(error, ConfigDBError) else bool(policy)
    return _verdict(code, stage, policy, counts=counts)


def _verdict(code: Exit, stage: Stage, policy: Policy, *, counts: bool) -> DeploymentResult:
    if counts and (stage is not Stage.POST or FailureKind.POST in policy):
        return DeploymentResult(code)
    return DeploymentResult(Exit.OK, warning=True)


def _is_away(problem: ProductError) -> bool:
    return isinstance(problem, (AccessError, UnavailableError))


def _nodes_count(failed: Collection[str], policy: Policy, statuses: Mapping[str, str] | None) -> bool:
    kinds = {FailureKind.READY if (statuses or {}).get(node) == READY else FailureKind.DEPLOYING for node in failed}
    return bool(kinds & policy)


SHOWN_PROBLEMS = 10
LONGEST = 300


def stage_lines(report: Report, result: DeploymentResult) -> Iterator[str]:
    """Yield the lines about a run."""
    yield (
        f"configdb-sync {report.stage}: environment {report.environment}, run {report.run}:"
        f" {count(len(report.nodes), 'node')}, {count(report.uploads, 'document')} uploaded,"
        f" {count(report.writes, 'file')} written in {report.seconds:.0f} s"
    )
    for problem in report.problems[:SHOWN_PROBLEMS]:
        yield one_line(str(problem), LONGEST)
    if len(report.problems) > SHOWN_PROBLEMS:
        yield f"... and {len(report.problems) - SHOWN_PROBLEMS} more: configdb-sync runs {report.run}"
    if report.not_attempted:
        yield f"not worked on: {one_line(shortened(report.not_attempted), LONGEST)}"
    yield f"{_word(result)}: {_what_to_do(report)}"


def error_lines(error: ProductError, result: DeploymentResult) -> Iterator[str]:
    """Yield the lines about an error that ended a run before any node was worked on."""
    yield f"{_word(result)}: {one_line(str(error), LONGEST)}"


def _word(result: DeploymentResult) -> str:
    if result.warning:
        return "warning"
    return "ok" if result.exit is Exit.OK else "failed"


def _what_to_do(report: Report) -> str:
    if report.exit is Exit.OK:
        return "all in step, nothing to do"
    if report.unsafe_digest:
        return (
            f"changes were withheld as unsafe: look at `configdb-sync plan --env {report.environment}`, allow exactly"
            f" these with `configdb-sync approve {report.unsafe_digest}`, and deploy again"
        )
    failed = one_line(shortened(node.plan.node for node in report.nodes if node.problems), LONGEST)
    way = {
        Exit.ACCESS: "ConfigDB refused the credentials: correct them in the plugin's settings, and deploy again",
        Exit.CONFIGDB: "ConfigDB can't be reached or answers incorrectly: check that it runs, and deploy again",
        Exit.BUSY: "another run is active: wait until it ends, and deploy again",
        Exit.OUT_OF_TIME: "the time limit was reached: the next attempt continues with the remaining nodes",
        Exit.CHANGED: "something changed after the plan was made: look at `configdb-sync plan` again",
    }.get(report.exit, f"nodes {failed} have problems: fix what the lines above name, and deploy again")
    return f"{way} (full report: configdb-sync runs {report.run})"
