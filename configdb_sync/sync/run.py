"""The flow of a run, in this one place: lock, read, examine, apply, report, remember (``docs/lifecycle.md``).

Nodes are read one after the other and worked on in parallel; few are in memory at a time (U13).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from configdb_sync import failpoints
from configdb_sync.clock import Clock
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.model import ServerKind
from configdb_sync.errors import BusyError, NodeError, OutOfTimeError, ProductError
from configdb_sync.exits import Exit, exit_of
from configdb_sync.masking import Masker
from configdb_sync.nailgun.roster import Roster
from configdb_sync.nodes.node_files import NodeRead, Nodes
from configdb_sync.overrides.note_store import NoteStore
from configdb_sync.store.approvals import Approvals, UnsafeChange, unsafe_digest
from configdb_sync.store.database import Database
from configdb_sync.store.findings import SETTLED_BY_RUNS, Findings
from configdb_sync.store.lease import Lease, lease_name, run_lock
from configdb_sync.store.records import Records, names_seen
from configdb_sync.store.runs import INTERRUPTED, About, Journal, Problem
from configdb_sync.sync.apply import apply_node
from configdb_sync.sync.expiry import preview, remove_ended
from configdb_sync.sync.fingerprint import encode
from configdb_sync.sync.ineffective_overrides import Orphan, orphans
from configdb_sync.sync.limits import Deadline
from configdb_sync.sync.node import Examiner
from configdb_sync.sync.node_work import RunContext, UploadSource
from configdb_sync.sync.owners import NoOwners, Owners
from configdb_sync.sync.plan import ExpectedPlan, NodePlan, Plan, expected_plan, in_order, let_through
from configdb_sync.sync.remote_environment import RemoteEnvironment
from configdb_sync.sync.render.forms import stored_forms
from configdb_sync.sync.report import NodeReport, ProgressListener, Report, RunProgress
from configdb_sync.sync.run_options import RunOptions

_GIVE_NODES = "give ids or FQDNs of nodes that are there"


@dataclass(frozen=True)
class Run:
    """One run over the nodes of an environment; ``plan`` and ``sync`` do the same up to the first change.

    ``log``: notes each finished node, and gives the order in which to work. ``deadline``: None for no time limit.
    ``roster``: what Nailgun knows of the nodes, None without Nailgun. ``source``: where documents come from, None for
    the nodes' own files.
    """

    identity: str
    client: ConfigDBClient
    nodes: Nodes
    database: Database
    masker: Masker
    options: RunOptions
    listener: ProgressListener
    clock: Clock
    log: Journal | None = None
    deadline: Deadline | None = None
    owners: Owners = field(default_factory=NoOwners)
    roster: Roster | None = None
    source: UploadSource | None = None

    @property
    def _notes(self) -> NoteStore:
        return NoteStore(self.client, self.database)

    @property
    def statuses(self) -> Mapping[str, str] | None:
        """Nailgun's statuses of the nodes, by identity, as they were before the run (U14); None without Nailgun."""
        return None if self.roster is None else self.roster.statuses

    def plan(self) -> Plan:
        """Return what a run would do now; nothing is changed anywhere (U20).

        Raises ``SettingsError`` if the nodes can't be listed, ``EnvironmentMismatchError`` if the environment has other
        levels than the settings, ``ConfigDBError`` if ConfigDB is away or refuses, ``OutOfTimeError``.
        """
        there = list(self.nodes.identities())
        notes = self._notes.read(self.options.environment)
        client, expired = preview(self._notes, self.options.environment, notes, self.clock.now())
        run, identities = self._begin(there, client)
        run = replace(run, notes=notes)
        examiner = Examiner(run)
        plans: list[NodePlan] = []

        def planned(read: NodeRead | NodeError) -> NodePlan | None:
            work = examiner.examine(read)
            return None if work is None else work.plan

        for identity, outcome in each(self.nodes, identities, planned, run.deadline, self.options.parallel):
            if isinstance(outcome, ProductError):
                raise outcome
            self.listener.node_done(identity, 0 if outcome is None else len(outcome.problems))
            if outcome is not None:
                plans.append(outcome)
        plans += self._absent(identities, plans)
        left = self._orphans(run.remote, there)
        return Plan(self.options.environment, run.remote.change, in_order(plans), left, expired)

    def sync(self, progress: RunProgress | None = None, approved: frozenset[UnsafeChange] = frozenset()) -> Report:
        """Carry the run out and return what was done; ``progress`` collects the same meanwhile.

        ``approved`` are unsafe changes that someone let through. Raises what ``plan`` raises if it happens before any
        node was worked on, ``PlanChangedError`` and ``UnsafeError`` if the plan isn't the one that the options name;
        later failures are in the report.
        """
        stage = None if self.options.stage is None else self.options.stage.value
        progress = progress or RunProgress(self.identity, self.options.environment, self.clock, stage)
        allowed, expected = self._agreed(approved)
        identities = list(self.nodes.identities())
        run, identities = self._begin(
            identities if self.log is None else self.log.order(identities), self.client, allowed
        )
        examiner = Examiner(run)
        progress.begins(identities, lambda: run.remote.made, lambda: run.remote.change)
        now, may_change = self.clock.now(), run.remote.may_work_on
        progress.removed(remove_ended(self._notes, self.options.environment, now, may_change))
        run.remote.register()
        self.owners.begins(self.options.environment, self.identity)
        failpoints.here("run-begun")

        def synced(read: NodeRead | NodeError) -> NodeReport | None:
            work = examiner.examine(read)
            if work is None:
                return None
            if expected is not None:
                expected.check(work.plan)
            return apply_node(run, work)

        for identity, outcome in each(self.nodes, identities, synced, run.deadline, self.options.parallel):
            if isinstance(outcome, ProductError):
                progress.stop(outcome)
                continue
            self.listener.node_done(identity, 0 if outcome is None else len(outcome.problems))
            progress.done(identity, outcome)
            if outcome is not None and self.log is not None:
                self.log.node_done(outcome.done, [Problem(one.data_source, one.what) for one in outcome.problems])
        plans = [report.plan for report in progress.reports]
        if progress.stopped is None:
            for plan in self._absent(identities, plans):
                progress.done(plan.node, NodeReport(plan, problems=plan.problems))
        fingerprints = {one.plan.node: encode(one.unchanged) for one in progress.reports if one.unchanged is not None}
        run.records.keep_fingerprints(fingerprints)
        run.records.saw({plan.node: plan.fqdn for plan in plans if plan.fqdn})
        failpoints.here("run-done")
        return progress.report()

    def _agreed(self, approved: frozenset[UnsafeChange]) -> tuple[frozenset[UnsafeChange], ExpectedPlan | None]:
        """Return the unsafe changes to let through and the plan to keep to, by a plan made now if either needs one."""
        options = self.options
        if options.allowed_unsafe is None and options.plan_digest is None:
            return approved, None
        plan = self.plan()
        allowed = approved
        if options.allowed_unsafe is not None:
            allowed |= let_through(plan, options.allowed_unsafe)
        if options.plan_digest is None:
            return allowed, None
        return allowed, expected_plan(plan, options.plan_digest, allowed)

    def _begin(
        self, identities: list[str], client: ConfigDBClient, allowed: frozenset[UnsafeChange] = frozenset()
    ) -> tuple[RunContext, list[str]]:
        options = self.options
        if options.nodes and set(options.nodes) <= set(identities):
            identities = [identity for identity in identities if identity in options.nodes]
        remote = RemoteEnvironment(client, options, self.owners)
        remote.load()
        records = Records(self.database, self.nodes.place, options.environment, self.identity)
        deadline = Deadline(self.clock) if self.deadline is None else self.deadline
        self.listener.begins(len(identities))
        run = RunContext(
            client,
            self.nodes,
            remote,
            records,
            options,
            deadline,
            self.masker,
            allowed=allowed,
            roster=self.roster,
            source=self.source,
        )
        return run, identities

    def _orphans(self, remote: RemoteEnvironment, identities: list[str]) -> tuple[Orphan, ...]:
        if not remote.exists or self.client.server() is not ServerKind.EMBEDDED:
            return ()
        addresses, seen = self.options.addresses, names_seen(self.database, self.options.environment)
        taken, met = set(remote.claimed), set(remote.claimed.values())
        for node in identities:
            values = addresses.values_of(node, seen)
            if not values and node not in met:
                return ()  # an override may be this node's
            taken |= values
        return orphans(self.client.overrides_of(self.options.environment), addresses.node_level, taken)

    def _absent(self, identities: list[str], plans: list[NodePlan]) -> list[NodePlan]:
        """Return a plan with an error for each node that was asked for and isn't there."""
        found = {name for plan in plans for name in (plan.node, plan.fqdn)} | set(identities)
        return [
            NodePlan(name, problems=(NodeError("there is no such node", node=name, way_out=_GIVE_NODES),))
            for name in self.options.nodes
            if name not in found
        ]


@dataclass(frozen=True)
class RunSession:
    """One run and its surroundings.

    ``folder`` is the state folder, where the lock lies. ``wait``: seconds to wait for another run, at most. ``keep``:
    how many runs of the environment are remembered.
    """

    run: Run
    about: About
    folder: Path
    deadline: Deadline
    progress: RunProgress
    wait: float = 240.0
    keep: int = 50

    def sync(self) -> Report:
        """Carry the run out and remember it. Raises ``BusyError`` if another one is at work, and as ``Run.sync``."""
        with self._alone() as deadline:
            journal = self._journal()
            journal.begin()
            try:
                report = replace(self.run, log=journal, deadline=deadline).sync(self.progress, self._approved(deadline))
            except ProductError as error:
                self.progress.stop(error)
                code = exit_of(error)
                journal.stopped(code.name, code, stored_forms(self.progress.report()))
                self._ended()
                raise
            except BaseException:
                self.progress.stop(ProductError("it was interrupted"))
                journal.stopped(INTERRUPTED, Exit.INTERNAL, stored_forms(self.progress.report()))
                self._ended()
                raise
            self._settle(report)
            self._finish(journal, report)
            return report

    def remember(self, report: Report) -> None:
        """Remember a run that hadn't ended when its time was up; the process ends now."""
        self._finish(self._journal(), report)

    @contextmanager
    def _alone(self) -> Iterator[Deadline]:
        """Hold the environment's lock and lease; a step that the deadline lets begin has both."""
        run, clock = self.run, self.run.clock
        environment = run.options.environment
        began = clock.monotonic()
        wait = self.deadline.wait(self.wait)
        with run_lock(self.folder, environment, wait, clock, run.identity) as over:
            lease = Lease(
                run.database, lease_name(environment), run.identity, self.about.host, clock, over.__contains__
            )
            lease.take(max(0.0, wait - (clock.monotonic() - began)))
            with lease.kept():
                yield self.deadline.guarded(lease.check)

    def _journal(self) -> Journal:
        return Journal(self.run.database, self.about, self.run.clock, whole=not self.run.options.nodes)

    def _approved(self, deadline: Deadline) -> frozenset[UnsafeChange]:
        """Return the changes that someone approved; a digest that no run has shown yet is looked for in a plan."""
        approvals, environment = Approvals(self.run.database, self.run.clock), self.run.options.environment
        changes, digests = approvals.open(environment)
        if digests:
            unsafe = replace(self.run, deadline=deadline).plan().unsafe
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
        whole = {""} if report.exit is Exit.OK else set()
        in_step = {node.plan.node for node in report.nodes if not node.problems}
        Findings(self.run.database, self.run.clock).settle(environment, SETTLED_BY_RUNS, whole | in_step)

    def _finish(self, journal: Journal, report: Report) -> None:
        journal.finish(report.exit, report.totals, stored_forms(report), self.run.nodes.identities(), self.keep)
        self._ended()

    def _ended(self) -> None:
        self.run.owners.ended(self.run.options.environment)


T = TypeVar("T")


def each(
    nodes: Nodes,
    identities: Sequence[str],
    work: Callable[[NodeRead | NodeError], T],
    deadline: Deadline,
    parallel: int,
) -> Iterator[tuple[str, T | ProductError]]:
    """Do ``work`` on every node, ``parallel`` of them at once; yield each outcome as it comes.

    An error that ``work`` raises is yielded, and no further node is begun; so is the end of the time.
    """
    running: dict[Future[T], str] = {}

    def paced(read: NodeRead | NodeError) -> T:
        with deadline.step("node"):
            return work(read)

    with ThreadPoolExecutor(parallel, thread_name_prefix="node") as pool:
        for read in _in_time(nodes, identities, deadline):
            if isinstance(read, (OutOfTimeError, BusyError)):
                yield "", read
                break
            identity = (read.node or "") if isinstance(read, NodeError) else read.identity
            running[pool.submit(paced, read)] = identity
            stop = False
            if len(running) > parallel:
                for name, outcome in _finished(running):
                    stop = stop or isinstance(outcome, ProductError)
                    yield name, outcome
            if stop:
                break
        while running:
            yield from _finished(running)


def _in_time(
    nodes: Nodes, identities: Sequence[str], deadline: Deadline
) -> Iterator[NodeRead | NodeError | OutOfTimeError | BusyError]:
    """Yield what is read of each node, or at last why no further one is."""
    reads = iter(nodes.read(identities))
    for _ in identities:
        try:
            deadline.check("node")
        except (OutOfTimeError, BusyError) as error:
            yield error
            return
        found = next(reads, None)
        if found is None:
            return
        yield found


def _finished(running: dict[Future[T], str]) -> Iterator[tuple[str, T | ProductError]]:
    done, _ = wait(running, return_when=FIRST_COMPLETED)
    for future in done:
        identity = running.pop(future)
        error = future.exception()
        if isinstance(error, ProductError):
            yield identity, error
        else:
            yield identity, future.result()
