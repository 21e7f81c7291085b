"""What a run has done, as a value, and the exit code that follows from it (U14).

``RunProgress`` makes a report at any moment of a run, for another thread too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from configdb_sync.clock import Clock
from configdb_sync.errors import (
    AccessError,
    BusyError,
    ConfigDBError,
    EnvironmentMismatchError,
    OutOfTimeError,
    PlanChangedError,
    ProductError,
    UnsafeError,
)
from configdb_sync.exits import Exit, exit_of
from configdb_sync.names import natural_key
from configdb_sync.store.approvals import UnsafeChange, unsafe_digest
from configdb_sync.store.runs import DONE, FAILED, RunNode
from configdb_sync.sync.decide import Write
from configdb_sync.sync.expiry import EndedOverride
from configdb_sync.sync.fingerprint import UnchangedNode
from configdb_sync.sync.folder_documents import OverrideMove
from configdb_sync.sync.plan import DocumentChange, EnvironmentChange, NodePlan, Plan


@dataclass(frozen=True)
class NodeReport:
    """What was done with one node: its plan, which of the data sources in it were sent and written, and which
    overrides were ``moved``.

    ``unchanged``: its fingerprint for the next run, if it is in step. ``bytes``: how many were sent as values, and
    written into files.
    """

    plan: NodePlan
    uploaded: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    problems: tuple[ProductError, ...] = ()
    unchanged: UnchangedNode | None = None
    bytes: int = 0
    moved: tuple[OverrideMove, ...] = ()

    @property
    def done(self) -> RunNode:
        """What the journal keeps of it."""
        outcome = FAILED if self.problems else DONE
        return RunNode(self.plan.node, outcome, len(self.uploaded), len(self.written), len(self.problems))

    @property
    def done_changes(self) -> tuple[DocumentChange, ...]:
        """The plan's changes without what wasn't done of them."""
        failed = {problem.data_source for problem in self.problems}
        found = []
        for change in self.plan.changes:
            sent, written = change.data_source in self.uploaded, change.data_source in self.written
            found.append(
                replace(
                    change,
                    digests=change.digests if sent else replace(change.digests, values=change.digests.stored),
                    write=change.write if written else Write.NONE,
                    ordered=() if change.data_source in failed else change.ordered,
                )
            )
        return tuple(found)


@dataclass(frozen=True)
class Report:
    """What a run did. ``stopped``: what ended it before all nodes were worked on.

    ``change`` is what was made of the environment, ``lacked`` what was to be made (None: the same). ``expired`` are the
    overrides that were removed since their end had come.
    """

    run: str
    environment: int
    started: datetime
    seconds: float
    change: EnvironmentChange
    nodes: tuple[NodeReport, ...]
    stopped: ProductError | None = None
    not_attempted: tuple[str, ...] = ()
    stage: str | None = None
    lacked: EnvironmentChange | None = None
    expired: tuple[EndedOverride, ...] = ()

    @property
    def uploads(self) -> int:
        """How many documents were sent."""
        return sum(len(node.uploaded) for node in self.nodes)

    @property
    def writes(self) -> int:
        """How many files were written, created or removed."""
        return sum(len(node.written) for node in self.nodes)

    @property
    def bytes(self) -> int:
        """How many bytes were sent as values, and written into files."""
        return sum(node.bytes for node in self.nodes)

    @property
    def problems(self) -> tuple[ProductError, ...]:
        """Everything that went wrong, what stopped the run first."""
        stopped = () if self.stopped is None else (self.stopped,)
        return (*stopped, *(problem for node in self.nodes for problem in node.problems))

    @property
    def totals(self) -> dict[str, int | str]:
        """What the journal counts of it."""
        return {
            "nodes": len(self.nodes),
            "uploads": self.uploads,
            "writes": self.writes,
            "problems": len(self.problems),
            "bytes": self.bytes,
            "digest": self.plan_digest,
        }

    @property
    def unsafe(self) -> tuple[UnsafeChange, ...]:
        """What the safety gate withheld."""
        return tuple(change for node in self.nodes for change in node.plan.unsafe)

    @property
    def unsafe_digest(self) -> str | None:
        """The digest that lets exactly the withheld changes through; None if none is withheld."""
        return unsafe_digest(self.unsafe) if self.unsafe else None

    @property
    def plan_digest(self) -> str:
        """The digest that a plan of the same nodes, made just before, would have had."""
        lacked = self.change if self.lacked is None else self.lacked
        nodes = tuple(node.plan for node in self.nodes)
        return Plan(self.environment, lacked, nodes, expired=self.expired).digest

    @property
    def exit(self) -> Exit:
        """The exit code of the run."""
        if self.stopped is not None and not self.nodes:
            return exit_of(self.stopped)
        return exit_of_run(self.problems, nodes_done=sum(not node.problems for node in self.nodes))


_FIRST: tuple[tuple[type[ProductError], Exit], ...] = (
    (AccessError, Exit.ACCESS),
    (ConfigDBError, Exit.CONFIGDB),
    (BusyError, Exit.BUSY),
    (PlanChangedError, Exit.CHANGED),
    (OutOfTimeError, Exit.OUT_OF_TIME),
)
"""What the operator must act on first, whatever else went wrong."""


def exit_of_run(problems: Sequence[ProductError], *, nodes_done: int) -> Exit:
    """Return the exit code for all that went wrong in a run: the class that the operator must act on first."""
    if not problems:
        return Exit.OK
    for kind, code in _FIRST:
        if any(isinstance(problem, kind) for problem in problems):
            return code
    mismatched = [problem for problem in problems if isinstance(problem, EnvironmentMismatchError)]
    if mismatched and len(mismatched) == len(problems) and not nodes_done:
        return Exit.ENVIRONMENT
    if all(isinstance(problem, UnsafeError) for problem in problems):
        return Exit.UNSAFE
    return Exit.PARTIAL


def exit_of_plan(plan: Plan, *, tell_drift: bool = False) -> Exit:
    """Return the exit code of a plan that was shown; DRIFT if it has something to do and ``tell_drift``."""
    done = sum(not node.problems for node in plan.nodes)
    found = exit_of_run(plan.problems, nodes_done=done)
    return Exit.DRIFT if found is Exit.OK and tell_drift and plan.drifts else found


class RunProgress:
    """Collects the nodes' reports of one run."""

    def __init__(self, run: str, environment: int, clock: Clock, stage: str | None = None) -> None:
        self._run = run
        self._environment = environment
        self._stage = stage
        self._clock = clock
        self._started, self._began = clock.now(), clock.monotonic()
        self._identities: tuple[str, ...] = ()
        self._made: Callable[[], EnvironmentChange] = lambda: EnvironmentChange(False, "", ())
        self._lacked = self._made
        self._attempted: set[str] = set()
        self._reports: list[NodeReport] = []
        self._stopped: ProductError | None = None
        self._expired: tuple[EndedOverride, ...] = ()
        self._lock = threading.Lock()

    def begins(
        self, identities: Sequence[str], made: Callable[[], EnvironmentChange], lacked: Callable[[], EnvironmentChange]
    ) -> None:
        """Take note of the nodes to work on; ``made``, ``lacked``: what of the environment was created, was missing."""
        self._identities, self._made, self._lacked = tuple(identities), made, lacked

    def removed(self, expired: tuple[EndedOverride, ...]) -> None:
        """Take note of the overrides that were removed since their end had come."""
        self._expired = expired

    def done(self, identity: str, report: NodeReport | None) -> None:
        """Take note of a node that was worked on, or (None) that the run turned out not to be asked for."""
        with self._lock:
            self._attempted.add(identity)
            if report is not None:
                self._reports.append(report)

    def stop(self, error: ProductError) -> None:
        """Take note of what ends the run before its end; the first such error counts."""
        with self._lock:
            self._stopped = self._stopped or error

    @property
    def stopped(self) -> ProductError | None:
        """What ended the run before its end."""
        return self._stopped

    @property
    def reports(self) -> tuple[NodeReport, ...]:
        """What was done so far."""
        with self._lock:
            return tuple(self._reports)

    def report(self) -> Report:
        """Return the report of what was done so far."""
        reports = sorted(self.reports, key=lambda report: natural_key(report.plan.node))
        left = sorted((name for name in self._identities if name not in self._attempted), key=natural_key)
        return Report(
            run=self._run,
            environment=self._environment,
            started=self._started,
            seconds=self._clock.monotonic() - self._began,
            change=self._made(),
            nodes=tuple(reports),
            stopped=self._stopped,
            not_attempted=tuple(left) if self._stopped else (),
            stage=self._stage,
            lacked=self._lacked(),
            expired=self._expired,
        )


class ProgressListener(Protocol):
    """Shows the progress of a run."""

    def begins(self, nodes: int) -> None:
        """Begin to show the progress of a run over so many nodes."""

    def node_done(self, node: str, problems: int) -> None:
        """Show that a node is done, with so many problems."""
