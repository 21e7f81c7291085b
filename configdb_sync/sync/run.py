"""The flow of a run, owned by this one place: read, examine, carry out, report (``architecture.md``, One picture)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Protocol, TypeVar

from configdb_sync import failpoints
from configdb_sync.clock import Clock
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.database import Database
from configdb_sync.errors import NodeError, ProductError, UnsafeError
from configdb_sync.hiera import Reader
from configdb_sync.masking import Masker
from configdb_sync.nodes.model import NodeRead, Nodes
from configdb_sync.sync.carry_out import Executor
from configdb_sync.sync.catalog import Catalog
from configdb_sync.sync.examine import Examiner
from configdb_sync.sync.health import Health
from configdb_sync.sync.options import RunOptions
from configdb_sync.sync.plan import NodePlan, Plan, in_order, natural
from configdb_sync.sync.records import Records
from configdb_sync.sync.report import NodeReport, Report
from configdb_sync.sync.safety import UnsafeChange

T = TypeVar("T")


class Progress(Protocol):
    """Is told how a run gets on."""

    def begins(self, nodes: int) -> None:
        """Take note that work on so many nodes begins."""

    def node_done(self, node: str, problems: int) -> None:
        """Take note that a node was worked on."""


@dataclass(frozen=True)
class Run:
    """One run over the nodes of an environment; ``plan`` and ``sync`` do the same up to the first change.

    ``examiner`` and ``executor`` are made anew for each call, with the arguments of these classes: other places of
    nodes have other rules.
    """

    identity: str
    client: ConfigDBClient
    nodes: Nodes
    database: Database
    masker: Masker
    options: RunOptions
    progress: Progress
    clock: Clock
    examiner: Callable[..., Examiner] = Examiner
    executor: Callable[..., Executor] = Executor

    def plan(self) -> Plan:
        """Return what a run would do now; nothing is changed anywhere (U20).

        Raises ``SettingsError`` if the nodes can't be listed, ``EnvironmentMismatchError`` if the environment has other
        levels than the settings, ``ConfigDBError`` if ConfigDB is away or refuses.
        """
        examiner, identities = self._begin()
        plans: list[NodePlan] = []

        def planned(read: NodeRead | NodeError) -> NodePlan | None:
            found = examiner.examine(read)
            return None if found is None else found.plan

        for identity, outcome in self._each(identities, planned):
            if isinstance(outcome, ProductError):
                raise outcome
            self._note(identity, outcome)
            if outcome is not None:
                plans.append(outcome)
        plans += [NodePlan(name, problems=(problem,)) for name, problem in self._unmatched(identities, plans)]
        return Plan(self.options.environment, examiner.catalog.change, in_order(plans))

    def sync(self) -> Report:
        """Carry the run out and return what was done.

        Raises what ``plan`` raises if it happens before any node was worked on; later failures are in the report.
        """
        started, began = self.clock.now(), self.clock.monotonic()
        allowed: frozenset[UnsafeChange] = frozenset()
        if self.options.allowed_unsafe is not None:
            allowed = self._let_through(self.options.allowed_unsafe)
        examiner, identities = self._begin(allowed)
        failpoints.here("run-begun")
        executor = self.executor(
            self.client, examiner.catalog, self.nodes, examiner.records, examiner.health, self.options
        )
        done: list[NodeReport] = []
        stopped: ProductError | None = None
        attempted: set[str] = set()

        def work(read: NodeRead | NodeError) -> NodeReport | None:
            found = examiner.examine(read)
            return None if found is None else executor.carry_out(found)

        for identity, outcome in self._each(identities, work):
            if isinstance(outcome, ProductError):
                stopped = stopped or outcome
                continue
            attempted.add(identity)
            self._note(identity, None if outcome is None else outcome.plan, outcome)
            if outcome is not None:
                done.append(outcome)
        plans = [report.plan for report in done]
        if stopped is None:
            for name, problem in self._unmatched(identities, plans):
                done.append(NodeReport(NodePlan(name), problems=(problem,)))
        examiner.records.saw({plan.node: plan.fqdn for plan in plans if plan.fqdn})
        failpoints.here("run-done")
        done.sort(key=lambda report: natural(report.plan.node))
        return Report(
            run=self.identity,
            environment=self.options.environment,
            started=started,
            seconds=self.clock.monotonic() - began,
            change=examiner.catalog.change,
            nodes=tuple(done),
            stopped=stopped,
            not_attempted=tuple(name for name in identities if name not in attempted) if stopped else (),
        )

    def _let_through(self, digest: str) -> frozenset[UnsafeChange]:
        plan = self.plan()
        if plan.unsafe_digest != digest:
            raise UnsafeError(
                f"the unsafe changes are not those of digest {digest}; nothing was done"
                if plan.unsafe
                else f"nothing is withheld now, so there is nothing that digest {digest} could let through",
                way_out=f"look at `configdb-sync plan`; its digest is {plan.unsafe_digest}"
                if plan.unsafe
                else "run without --force",
            )
        return frozenset(plan.unsafe)

    def _begin(self, allowed: frozenset[UnsafeChange] = frozenset()) -> tuple[Examiner, list[str]]:
        identities = list(self.nodes.identities())
        if self.options.nodes and set(self.options.nodes) <= set(identities):
            identities = [identity for identity in identities if identity in self.options.nodes]
        catalog = Catalog(self.client, self.options)
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

    def _each(
        self, identities: list[str], work: Callable[[NodeRead | NodeError], T]
    ) -> Iterator[tuple[str, T | ProductError]]:
        """Do ``work`` on every node, some at once and few in memory; yield each outcome as it comes.

        An error that ``work`` raises is yielded, and no further node is begun.
        """
        running: dict[Future[T], str] = {}
        with ThreadPoolExecutor(self.options.parallel, thread_name_prefix="node") as pool:
            for read in self.nodes.read(identities):
                identity = (read.node or "") if isinstance(read, NodeError) else read.identity
                running[pool.submit(work, read)] = identity
                stop = False
                if len(running) > self.options.parallel:
                    for name, outcome in _finished(running):
                        stop = stop or isinstance(outcome, ProductError)
                        yield name, outcome
                if stop:
                    break
            while running:
                yield from _finished(running)


def _finished(running: dict[Future[T], str]) -> Iterator[tuple[str, T | ProductError]]:
    done, _ = wait(running, return_when=FIRST_COMPLETED)
    for future in done:
        identity = running.pop(future)
        error = future.exception()
        if isinstance(error, ProductError):
            yield identity, error
        else:
            yield identity, future.result()
