"""A plan as a value: what a run would upload and write, by node and data source, with counts and a digest (U20).

It holds digests and changed leaves (masked), never documents or secrets, so it may be kept and shown.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass

from configdb_sync.errors import ProductError
from configdb_sync.jsonvalues import canonical
from configdb_sync.names import natural_key
from configdb_sync.store.approvals import UnsafeChange, unsafe_digest
from configdb_sync.sync.decide import Write
from configdb_sync.sync.diff import Change
from configdb_sync.sync.folders import Held, Move
from configdb_sync.sync.idle import IdleOverride
from configdb_sync.sync.orphans import Orphan


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
    standing order gives to the node.
    """

    data_source: str
    path: str
    first: bool
    upload: tuple[Change, ...]
    write: Write
    written: tuple[Change, ...]
    digests: Digests
    ordered: tuple[Change, ...] = ()

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

    ``moves`` and ``held``: overrides in folders' documents that are to be moved, and that stay (``folders``).
    """

    node: str
    fqdn: str | None = None
    changes: tuple[DocumentChange, ...] = ()
    unchanged: tuple[str, ...] = ()
    undeclared: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    problems: tuple[ProductError, ...] = ()
    unsafe: tuple[UnsafeChange, ...] = ()
    idle: tuple[IdleOverride, ...] = ()
    moves: tuple[Move, ...] = ()
    held: tuple[Held, ...] = ()


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

    ``orphans``: overrides of nodes that aren't there any more; no run touches them.
    """

    environment: int
    change: EnvironmentChange
    nodes: tuple[NodePlan, ...]
    orphans: tuple[Orphan, ...] = ()

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
        return bool(self.change) or any(node.changes or node.moves for node in self.nodes)

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
        return hashlib.sha256(canonical(whole).encode("ascii")).hexdigest()[:16]


def in_order(nodes: Iterable[NodePlan]) -> tuple[NodePlan, ...]:
    """Return node plans by identity, numbers as numbers."""
    return tuple(sorted(nodes, key=lambda node: natural_key(node.node)))
