"""A plan as a value: what a run would upload and write, by node and data source, with counts and a digest (U20).

It holds digests and changed leaves (masked), never documents or secrets, so it may be kept and shown. A run can be
bound to a plan: it is compared before the run begins, and again for each node (``ExpectedPlan``, S07).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass

from configdb_sync.errors import PlanChangedError, ProductError, UnsafeError
from configdb_sync.jsonvalues import canonical
from configdb_sync.names import natural_key
from configdb_sync.store.approvals import UnsafeChange, unsafe_digest
from configdb_sync.sync.decide import Write
from configdb_sync.sync.diff import LeafChange
from configdb_sync.sync.expiry import EndedOverride
from configdb_sync.sync.folder_documents import HeldOverride, OverrideMove
from configdb_sync.sync.ineffective_overrides import IneffectiveOverride, Orphan


@dataclass(frozen=True)
class Digests:
    """What one document's decision rests on and leads to: digests of documents, sha256 of the file (None: no file)."""

    file: str | None
    stored: str
    effective_before: str
    values: str
    target: str


@dataclass(frozen=True)
class DocumentChange:
    """What is to happen with one document of one node.

    ``first``: ConfigDB holds nothing of it yet. ``upload``: how the stored values change, empty if they don't;
    ``write``: what becomes of the file, with ``written`` saying how its data changes. ``ordered``: the overrides that a
    standing override gives to the node.
    """

    data_source: str
    path: str
    first: bool
    upload: tuple[LeafChange, ...]
    write: Write
    written: tuple[LeafChange, ...]
    digests: Digests
    ordered: tuple[LeafChange, ...] = ()

    @property
    def uploads(self) -> bool:
        """Whether values are to be sent."""
        return self.digests.stored != self.digests.values

    @property
    def intent(self) -> tuple[str | None, ...]:
        """What the plan's digest covers of it: equal intents do the same to the same."""
        return (self.data_source, self.path, self.write.value, *astuple(self.digests))


@dataclass(frozen=True)
class NodePlan:
    """What is to happen with one node. ``problems`` are the documents (or the node) that can't be worked on.

    ``moves`` and ``held``: overrides in folders' documents that are to be moved, and that stay (``folder_documents``).
    """

    node: str
    fqdn: str | None = None
    changes: tuple[DocumentChange, ...] = ()
    unchanged: tuple[str, ...] = ()
    undeclared: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    problems: tuple[ProductError, ...] = ()
    unsafe: tuple[UnsafeChange, ...] = ()
    ineffective: tuple[IneffectiveOverride, ...] = ()
    moves: tuple[OverrideMove, ...] = ()
    held: tuple[HeldOverride, ...] = ()


@dataclass(frozen=True)
class EnvironmentChange:
    """What is to be made in ConfigDB before values can be: nothing where all fields are empty."""

    creates_environment: bool
    component: str
    data_sources: tuple[str, ...]

    def __bool__(self) -> bool:
        return self.creates_environment or bool(self.data_sources)


@dataclass(frozen=True)
class Plan:
    """What a run would do. Its digest covers files, ConfigDB's documents and what is intended; no time, no run.

    ``orphans``: overrides of nodes that aren't there any more; no run touches them. ``expired``: those that the run
    removes first, since their end has come; the nodes' plans are made without them.
    """

    environment: int
    change: EnvironmentChange
    nodes: tuple[NodePlan, ...]
    orphans: tuple[Orphan, ...] = ()
    expired: tuple[EndedOverride, ...] = ()

    def documents(self) -> Iterator[tuple[NodePlan, DocumentChange]]:
        """Yield every document that changes, with its node."""
        for node in self.nodes:
            for change in node.changes:
                yield node, change

    @property
    def uploads(self) -> int:
        """How many documents are to be sent."""
        return sum(change.uploads for _, change in self.documents())

    @property
    def writes(self) -> int:
        """How many files are to be written, created or removed."""
        return sum(change.write is not Write.NONE for _, change in self.documents())

    @property
    def drifts(self) -> bool:
        """Whether there is anything to do at all."""
        return bool(self.change or self.expired) or any(node.changes or node.moves for node in self.nodes)

    @property
    def problems(self) -> tuple[ProductError, ...]:
        """All that stands in the way of some node or document."""
        return tuple(problem for node in self.nodes for problem in node.problems)

    @property
    def unsafe(self) -> tuple[UnsafeChange, ...]:
        """All that the safety gate withholds."""
        return tuple(change for node in self.nodes for change in node.unsafe)

    @property
    def unsafe_digest(self) -> str | None:
        """The digest that lets exactly the withheld changes through; None if none is withheld."""
        return unsafe_digest(self.unsafe) if self.unsafe else None

    @property
    def digest(self) -> str:
        """The plan's digest (16 hex digits)."""
        rows: list[list[str | None]] = [[node.node, *change.intent] for node, change in self.documents()]
        rows += [[node.node, *move.intent] for node in self.nodes for move in node.moves]
        held = sorted([change.node, change.data_source, change.before, change.after] for change in self.unsafe)
        whole = [
            self.environment,
            self.change.creates_environment,
            sorted(self.change.data_sources),
            sorted(rows, key=canonical),
            held,
        ]
        if self.expired:
            whole.append(sorted([one.level, one.data_source, *one.key] for one in self.expired))
        return hashlib.sha256(canonical(whole).encode("ascii")).hexdigest()[:16]


def in_order(nodes: Iterable[NodePlan]) -> tuple[NodePlan, ...]:
    """Return node plans by identity, numbers as numbers."""
    return tuple(sorted(nodes, key=lambda node: natural_key(node.node)))


Intent = tuple[str | None, ...]


@dataclass(frozen=True)
class ExpectedPlan:
    """What is to happen with each node by the plan, and nothing else. ``let_through`` are withheld changes of it that
    were allowed since."""

    intents: Mapping[str, frozenset[Intent]]
    let_through: frozenset[tuple[str, str]]

    def check(self, plan: NodePlan) -> None:
        """Raise ``PlanChangedError`` if not exactly what was planned would happen with the node now."""
        if _intents(plan, self.let_through) != self.intents.get(plan.node, frozenset()):
            raise PlanChangedError(
                f"node {plan.node}: its files or ConfigDB's documents changed after the plan was made;"
                " it was left alone, and no further node was begun",
                way_out="look at `configdb-sync plan` again",
            )


def expected_plan(plan: Plan, digest: str, allowed: Collection[UnsafeChange]) -> ExpectedPlan:
    """Return what is to happen by the plan. Raises ``PlanChangedError`` if its digest is another."""
    if plan.digest != digest:
        raise PlanChangedError(
            f"the run would now do something else than the plan with digest {digest[:40]}; nothing was done",
            way_out=f"look at `configdb-sync plan` again; its digest is {plan.digest}",
        )
    let_through = frozenset((change.node, change.data_source) for change in allowed)
    return ExpectedPlan({node.node: _intents(node, let_through) for node in plan.nodes}, let_through)


def _intents(plan: NodePlan, let_through: Collection[tuple[str, str]]) -> frozenset[Intent]:
    changes = {change.intent for change in plan.changes if (plan.node, change.data_source) not in let_through}
    return frozenset(changes | {move.intent for move in plan.moves})


def let_through(plan: Plan, digest: str) -> frozenset[UnsafeChange]:
    """Return the plan's unsafe changes if the digest names just these, else raise ``UnsafeError`` (``--force``)."""
    if plan.unsafe_digest != digest:
        raise UnsafeError(
            f"the unsafe changes are not those of digest {digest[:40]}; nothing was done"
            if plan.unsafe
            else f"nothing is withheld now, so digest {digest[:40]} allows nothing",
            way_out=f"look at `configdb-sync plan`; its digest is {plan.unsafe_digest}"
            if plan.unsafe
            else "run without --force",
        )
    return frozenset(plan.unsafe)
