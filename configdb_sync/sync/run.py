"""The flow of a run, owned by this one place: read, examine, carry out, report (``docs/lifecycle.md``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from configdb_sync import failpoints
from configdb_sync.clock import Clock
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.model import ServerKind
from configdb_sync.errors import NodeError, ProductError
from configdb_sync.hiera import Reader
from configdb_sync.masking import Masker
from configdb_sync.nodes.node_files import NodeRead, Nodes
from configdb_sync.store.approvals import UnsafeChange
from configdb_sync.store.database import Database
from configdb_sync.store.records import Records, names_seen
from configdb_sync.store.runs import Problem
from configdb_sync.sync.carry_out import Executor
from configdb_sync.sync.catalog import Catalog
from configdb_sync.sync.examine import Examiner
from configdb_sync.sync.expected import Expected, expected, let_through
from configdb_sync.sync.health import Health
from configdb_sync.sync.listeners import NoLog, Progress, RunLog
from configdb_sync.sync.options import RunOptions
from configdb_sync.sync.orphans import Orphan, orphans
from configdb_sync.sync.owners import NoOwners, Owners
from configdb_sync.sync.pace import Pace
from configdb_sync.sync.plan import NodePlan, Plan, in_order
from configdb_sync.sync.quiet import encode
from configdb_sync.sync.report import NodeReport, Report
from configdb_sync.sync.tally import Tally
from configdb_sync.sync.turns import each


@dataclass(frozen=True)
class Run:
    """One run over the nodes of an environment; ``plan`` and ``sync`` do the same up to the first change.

    ``pace``: how much time it has, None for no limit. ``examiner`` and ``executor`` are made anew for each call, with
    the arguments of these classes: other places of nodes have other rules. ``statuses``: Nailgun's, by identity, as
    they were before the run (U14); None without Nailgun.
    """

    identity: str
    client: ConfigDBClient
    nodes: Nodes
    database: Database
    masker: Masker
    options: RunOptions
    progress: Progress
    clock: Clock
    log: RunLog = field(default_factory=NoLog)
    pace: Pace | None = None
    owners: Owners = field(default_factory=NoOwners)
    examiner: Callable[..., Examiner] = Examiner
    executor: Callable[..., Executor] = Executor
    statuses: Mapping[str, str] | None = None

    def plan(self) -> Plan:
        """Return what a run would do now; nothing is changed anywhere (U20).

        Raises ``SettingsError`` if the nodes can't be listed, ``EnvironmentMismatchError`` if the environment has other
        levels than the settings, ``ConfigDBError`` if ConfigDB is away or refuses, ``OutOfTimeError``.
        """
        there = list(self.nodes.identities())
        examiner, identities = self._begin(list(there))
        plans: list[NodePlan] = []

        def planned(read: NodeRead | NodeError) -> NodePlan | None:
            found = examiner.examine(read)
            return None if found is None else found.plan

        for identity, outcome in each(self.nodes, identities, planned, self._pace, self.options.parallel):
            if isinstance(outcome, ProductError):
                raise outcome
            self._note(identity, outcome)
            if outcome is not None:
                plans.append(outcome)
        plans += [NodePlan(name, problems=(problem,)) for name, problem in self._unmatched(identities, plans)]
        left = self._orphans(examiner, there)
        return Plan(self.options.environment, examiner.catalog.change, in_order(plans), left)

    def _orphans(self, examiner: Examiner, identities: list[str]) -> tuple[Orphan, ...]:
        if not examiner.catalog.exists or self.client.server() is not ServerKind.EMBEDDED:
            return ()
        addresses, seen = self.options.addresses, names_seen(self.database, self.options.environment)
        claimed = examiner.catalog.claimed
        taken, met = set(claimed), set(claimed.values())
        for node in identities:
            values = addresses.values_of(node, seen)
            if not values and node not in met:
                return ()  # an override may be this node's
            taken |= values
        return orphans(self.client.overrides_of(self.options.environment), addresses.node_level, taken)

    def sync(self, tally: Tally | None = None, approved: frozenset[UnsafeChange] = frozenset()) -> Report:
        """Carry the run out and return what was done; ``tally`` tells the same meanwhile.

        ``approved`` are unsafe changes that someone let through. Raises what ``plan`` raises if it happens before any
        node was worked on, ``PlanChangedError`` and ``UnsafeError`` if the plan isn't the one that the options name;
        later failures are in the report.
        """
        stage = None if self.options.stage is None else self.options.stage.value
        tally = tally or Tally(self.identity, self.options.environment, self.clock, stage)
        pace = self._pace
        allowed, wanted = self._agreed(approved)
        examiner, identities = self._begin(self.log.order(self.nodes.identities()), allowed)
        tally.begins(identities, lambda: examiner.catalog.made, lambda: examiner.catalog.change)
        examiner.catalog.register()
        self.owners.begins(self.options.environment, self.identity)
        failpoints.here("run-begun")
        executor = self.executor(
            self.client, examiner.catalog, self.nodes, examiner.records, examiner.health, self.options, pace
        )

        def work(read: NodeRead | NodeError) -> NodeReport | None:
            found = examiner.examine(read)
            if found is None:
                return None
            if wanted is not None:
                wanted.check(found.plan)
            return executor.carry_out(found)

        for identity, outcome in each(self.nodes, identities, work, pace, self.options.parallel):
            if isinstance(outcome, ProductError):
                tally.stop(outcome)
                continue
            self._note(identity, None if outcome is None else outcome.plan, outcome)
            tally.done(identity, outcome)
            if outcome is not None:
                problems = [Problem(one.data_source, one.what) for one in outcome.problems]
                self.log.node_done(outcome.done, problems)
        plans = [report.plan for report in tally.reports]
        if tally.stopped is None:
            for name, problem in self._unmatched(identities, plans):
                tally.done(name, NodeReport(NodePlan(name), problems=(problem,)))
        rest = {report.plan.node: encode(report.quiet) for report in tally.reports if report.quiet is not None}
        examiner.records.keep_quiet(rest)
        examiner.records.saw({plan.node: plan.fqdn for plan in plans if plan.fqdn})
        failpoints.here("run-done")
        return tally.report()

    @property
    def _pace(self) -> Pace:
        return Pace(self.clock) if self.pace is None else self.pace

    def _agreed(self, approved: frozenset[UnsafeChange]) -> tuple[frozenset[UnsafeChange], Expected | None]:
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
        return allowed, expected(plan, options.plan_digest, allowed)

    def _begin(
        self, identities: list[str], allowed: frozenset[UnsafeChange] = frozenset()
    ) -> tuple[Examiner, list[str]]:
        if self.options.nodes and set(self.options.nodes) <= set(identities):
            identities = [identity for identity in identities if identity in self.options.nodes]
        catalog = Catalog(self.client, self.options, self.owners)
        catalog.look()
        records = Records(self.database, self.nodes.place, self.options.environment, self.identity)
        self.progress.begins(len(identities))
        examiner = self.examiner(self.client, catalog, Reader(), records, self.masker, Health(), self.options, allowed)
        return examiner, identities

    def _note(self, identity: str, plan: NodePlan | None, report: NodeReport | None = None) -> None:
        problems = () if plan is None else plan.problems if report is None else report.problems
        self.progress.node_done(identity, len(problems))

    def _unmatched(self, identities: list[str], plans: list[NodePlan]) -> Iterator[tuple[str, ProductError]]:
        """Yield an error for each node that was asked for and isn't there."""
        found = {name for plan in plans for name in (plan.node, plan.fqdn)} | set(identities)
        for name in self.options.nodes:
            if name not in found:
                yield (
                    name,
                    NodeError("there is no such node", node=name, way_out="give ids or FQDNs of nodes that are there"),
                )
