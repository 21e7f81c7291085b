"""What a run has done so far: a report can be made of it at any moment, by another thread too."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from configdb_sync.clock import Clock
from configdb_sync.errors import ProductError
from configdb_sync.names import natural_key
from configdb_sync.sync.plan import EnvironmentChange
from configdb_sync.sync.report import NodeReport, Report


class Tally:
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
        self._lock = threading.Lock()

    def begins(
        self, identities: Sequence[str], made: Callable[[], EnvironmentChange], lacked: Callable[[], EnvironmentChange]
    ) -> None:
        """Take note of the nodes to work on; ``made`` and ``lacked`` tell what of the environment was, when asked."""
        self._identities, self._made, self._lacked = tuple(identities), made, lacked

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
        )
