"""Where Fuel's deployment calls a run, and which of its failures stop the deployment (U2, U14). Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from configdb_sync.errors import AccessError, ConfigDBError, ProductError, UnavailableError
from configdb_sync.exits import Exit
from configdb_sync.sync.report import Report

READY = "ready"
"""Nailgun's status of a node that is deployed."""


class Stage(Enum):
    """The plugin's three tasks: before the deployment, in it, after it."""

    PRE = "pre"
    MAIN = "main"
    POST = "post"


class Failures(Enum):
    """Classes of failures that may stop a deployment, as ``failure_policy`` names them."""

    DEPLOYING = "deploying"
    READY = "ready"
    CONFIGDB = "configdb"
    POST = "post"


Policy = frozenset[Failures]
DEFAULT_POLICY: Policy = frozenset({Failures.DEPLOYING, Failures.CONFIGDB})


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
class Verdict:
    """What a run says to the deployment: the exit code, and whether failures are left that don't count."""

    exit: Exit
    warning: bool = False


def verdict(report: Report, stage: Stage, policy: Policy, statuses: Mapping[str, str] | None) -> Verdict:
    """Return what a run says to the deployment."""
    if report.exit is Exit.OK:
        return Verdict(Exit.OK)
    failed = {node.plan.node for node in report.nodes if not all(map(_is_away, node.problems))}
    if report.stopped is not None and not _is_away(report.stopped):
        # Out of time, the lock lost, the plan no longer true: it failed for the nodes that it kept from their turn.
        failed.update(report.not_attempted)
        if not failed and not report.nodes:
            return _verdict(report.exit, stage, policy, counts=bool(policy))
    counts = Failures.CONFIGDB in policy and any(map(_is_away, report.problems))
    counts = counts or _nodes_count(failed, policy, statuses)
    return _verdict(report.exit, stage, policy, counts=counts)


def verdict_of_error(error: ProductError, code: Exit, stage: Stage, policy: Policy) -> Verdict:
    """Return what a run says that an error ended before any node was worked on."""
    counts = Failures.CONFIGDB in policy if isinstance(error, ConfigDBError) else bool(policy)
    return _verdict(code, stage, policy, counts=counts)


def _verdict(code: Exit, stage: Stage, policy: Policy, *, counts: bool) -> Verdict:
    if counts and (stage is not Stage.POST or Failures.POST in policy):
        return Verdict(code)
    return Verdict(Exit.OK, warning=True)


def _is_away(problem: ProductError) -> bool:
    return isinstance(problem, (AccessError, UnavailableError))


def _nodes_count(failed: Collection[str], policy: Policy, statuses: Mapping[str, str] | None) -> bool:
    kinds = {Failures.READY if (statuses or {}).get(node) == READY else Failures.DEPLOYING for node in failed}
    return bool(kinds & policy)
