"""One round of the watch: plans environments without changing anything, and keeps what it finds (U29).

A round takes no lock of an environment, so no run waits for it. While a run is at work, a plan would take half of its
work for drift: then the environment is left alone, and so is one where a run began in the meantime.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from configdb_sync.clock import Clock
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.model import OverrideNote
from configdb_sync.errors import MissingError, ProductError
from configdb_sync.exits import Exit
from configdb_sync.overrides.note_store import NoteStore, documents_with
from configdb_sync.store.database import Database
from configdb_sync.store.findings import SKIPPED, Finding, Findings, KeptFinding, WatchRound
from configdb_sync.store.lease import Lease
from configdb_sync.store.runs import AT_WORK, PastRun, PastRuns
from configdb_sync.sync.plan import Plan
from configdb_sync.sync.run import Run
from configdb_sync.watch.findings import exit_of_findings, of_error, of_plan, of_runs, settles, unread

LEASE = "the watch"
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class WatchLimits:
    """What counts as a finding: ``longest`` is the time without a run, ``soon`` the time in which an override ends that
    is counted as one that ends soon."""

    longest: timedelta = timedelta(days=30)
    soon: timedelta = timedelta(days=7)


@dataclass(frozen=True)
class Watched:
    """What came of an environment's round: the round as it is kept, what is open now, and its exit code. ``planned``:
    there was a plan."""

    round: WatchRound
    findings: tuple[KeptFinding, ...]
    exit: Exit
    planned: bool = False


@dataclass(frozen=True)
class _Seen:
    """What a plan says, with the counts of ``WatchRound``; without a plan the reason."""

    findings: list[Finding]
    plan: Plan | None = None
    counts: Mapping[str, Any] = field(default_factory=dict)
    failure: ProductError | None = None


@dataclass(frozen=True)
class Watch:
    """Looks at environments. ``opened`` gives a context with the run that would be made there, by its environment."""

    database: Database
    opened: Callable[[int], AbstractContextManager[Run]]
    clock: Clock
    limits: WatchLimits = WatchLimits()

    @contextmanager
    def alone(self, holder: str, host: str) -> Iterator[None]:
        """Be the only watch of this database, and so of this machine. Raises ``BusyError`` if another is at work."""
        lease = Lease(self.database, LEASE, holder, host, self.clock, by_clock=True)
        lease.take(0.0)
        with lease.kept():
            yield

    def look(self, environment: int) -> Watched:
        """Look at an environment and keep what is found. Whatever its peers do is a finding, or leaves it for later.

        Raises ``StateError`` if the product's own database can't be used.
        """
        started = self.clock.now()
        findings, runs = Findings(self.database, self.clock), PastRuns(self.database, self.clock)
        before = _newest(runs, environment)
        if before is not None and before.outcome == AT_WORK:
            return self._skipped(findings, environment, started, before)
        seen = self._planned(environment)
        newest = _newest(runs, environment)
        if newest is not None and (newest.outcome == AT_WORK or before is None or newest.number != before.number):
            return self._skipped(findings, environment, started, newest)
        now = self.clock.now()
        last, nodes = runs.last_done(environment), () if seen.plan is None else seen.plan.nodes
        done_at = {node.node: last.get(node.node) for node in nodes if not unread(node)}
        found = [*seen.findings, *of_runs(environment, newest, done_at, now, self.limits.longest)]
        findings.keep(environment, found, settles(seen.plan))
        code = exit_of_findings(found, seen.failure)
        done = WatchRound(environment, started, now, code.name, "" if seen.failure is None else found[0].text)
        if seen.plan is not None:
            done = replace(done, complete=now, **seen.counts)
        return self._kept(findings, done, code)

    def _planned(self, environment: int) -> _Seen:
        """Return what the plan says, or why there is none."""
        try:
            with self.opened(environment) as run:
                plan = run.plan()
                listed = _listed(run.client, environment)
                found = of_plan(plan, len(run.options.levels), listed or ())
                return _Seen(found, plan, self._counts(run, plan, listed))
        except ProductError as error:
            failure = error
        except Exception as error:
            # The others are looked at all the same. The error's own text may hold a secret.
            _LOG.debug("environment %s", environment, exc_info=True)
            way_out = f"`configdb-sync plan --env {environment}` shows where"
            failure = ProductError(f"internal error: {type(error).__name__}", way_out=way_out)
        return _Seen([of_error(environment, failure)], failure=failure)

    def _skipped(self, findings: Findings, environment: int, started: datetime, run: PastRun) -> Watched:
        text = f"run {run.identity} is at work" if run.outcome == AT_WORK else f"run {run.identity} came in between"
        done = WatchRound(environment, started, self.clock.now(), SKIPPED, text)
        return self._kept(findings, done, Exit.OK)

    def _kept(self, findings: Findings, done: WatchRound, code: Exit) -> Watched:
        findings.keep_round(done)
        kept = findings.rounds()[done.environment]
        return Watched(kept, tuple(findings.open(done.environment)), code, done.complete is not None)

    def _counts(self, run: Run, plan: Plan, listed: list[OverrideNote] | None) -> dict[str, int]:
        """Return the counts; without a list of overrides those with notes are counted."""
        environment, now = run.options.environment, self.clock.now()
        store = NoteStore(run.client, run.database)
        notes = [note for note in store.read(environment) if not note.expired(now)]
        ending = [note for note in notes if note.expired(now + self.limits.soon)]
        expiring = sum(len(held) for _, _, held in documents_with(store, environment, ending))
        if listed is None:
            overrides = sum(len(held) for _, _, held in documents_with(store, environment, notes))
        else:
            overrides = sum(len(one.keys) for one in listed)
        return {"nodes": len(plan.nodes), "overrides": overrides, "expiring": expiring}


def _newest(runs: PastRuns, environment: int) -> PastRun | None:
    return next(iter(runs.newest(environment, 1)), None)


def _listed(client: ConfigDBClient, environment: int) -> list[OverrideNote] | None:
    """Return the server's list of an environment's overrides, None if it has none."""
    if not client.keeps_versions:
        return None
    try:
        return client.overrides_of(environment)
    except MissingError:
        return []
