"""A run from its lock to its report: who may work, what is remembered of it, and what a person let through."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from configdb_sync.errors import ProductError
from configdb_sync.exits import Exit, exit_of
from configdb_sync.store.approvals import Approvals, UnsafeChange, unsafe_digest
from configdb_sync.store.lease import Lease, lease_name, run_lock
from configdb_sync.store.runs import INTERRUPTED, About, Journal
from configdb_sync.sync.pace import Pace
from configdb_sync.sync.render import kept
from configdb_sync.sync.report import Report
from configdb_sync.sync.run import Run
from configdb_sync.sync.tally import Tally


@dataclass(frozen=True)
class Conduct:
    """One run and its surroundings.

    ``folder`` is the state folder, where the lock lies. ``wait``: seconds to wait for another run, at most. ``keep``:
    how many runs of the environment are remembered.
    """

    run: Run
    about: About
    folder: Path
    pace: Pace
    tally: Tally
    wait: float = 240.0
    keep: int = 50

    def sync(self) -> Report:
        """Carry the run out and remember it. Raises ``BusyError`` if another one is at work, and as ``Run.sync``."""
        with self._alone() as pace:
            journal = self._journal()
            journal.begin()
            try:
                report = replace(self.run, log=journal, pace=pace).sync(self.tally, self._approved(pace))
            except ProductError as error:
                self.tally.stop(error)
                code = exit_of(error)
                journal.stopped(code.name, code, kept(self.tally.report()))
                self._ended()
                raise
            except BaseException:
                self.tally.stop(ProductError("it was interrupted"))
                journal.stopped(INTERRUPTED, Exit.INTERNAL, kept(self.tally.report()))
                self._ended()
                raise
            self._settle(report)
            self._finish(journal, report)
            return report

    def remember(self, report: Report) -> None:
        """Remember a run that hadn't ended when its time was up; the process ends now."""
        self._finish(self._journal(), report)

    @contextmanager
    def _alone(self) -> Iterator[Pace]:
        """Hold the environment's lock and lease; what is begun under the pace is begun under both."""
        run, clock = self.run, self.run.clock
        environment = run.options.environment
        began = clock.monotonic()
        wait = self.pace.wait(self.wait)
        with run_lock(self.folder, environment, wait, clock, run.identity) as over:
            lease = Lease(
                run.database, lease_name(environment), run.identity, self.about.host, clock, over.__contains__
            )
            lease.take(max(0.0, wait - (clock.monotonic() - began)))
            with lease.kept():
                yield self.pace.guarded(lease.check)

    def _journal(self) -> Journal:
        return Journal(self.run.database, self.about, self.run.clock, whole=not self.run.options.nodes)

    def _approved(self, pace: Pace) -> frozenset[UnsafeChange]:
        """Return the changes that someone approved; a digest that no run has shown yet is looked for in a plan."""
        approvals, environment = Approvals(self.run.database, self.run.clock), self.run.options.environment
        changes, digests = approvals.open(environment)
        if digests:
            unsafe = replace(self.run, pace=pace).plan().unsafe
            if unsafe and unsafe_digest(unsafe) in digests:
                approvals.found(environment, unsafe)
                changes |= frozenset(unsafe)
        return changes

    def _settle(self, report: Report) -> None:
        approvals, environment = Approvals(self.run.database, self.run.clock), self.run.options.environment
        changed = {(node.plan.node, name) for node in report.nodes for name in (*node.uploaded, *node.written)}
        failed = {(node.plan.node, problem.data_source) for node in report.nodes for problem in node.problems}
        approvals.spend(environment, report.run, frozenset(changed - failed))
        approvals.withhold(environment, report.run, report.unsafe)

    def _finish(self, journal: Journal, report: Report) -> None:
        journal.finish(report.exit, report.totals, kept(report), self.run.nodes.identities(), self.keep)
        self._ended()

    def _ended(self) -> None:
        self.run.owners.ended(self.run.options.environment)
