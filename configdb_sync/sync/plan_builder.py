"""Collects a node's plan while its documents are looked at."""

from __future__ import annotations

from configdb_sync.errors import ProductError
from configdb_sync.hiera.data_sources import NodeMap
from configdb_sync.jsonvalues import EMPTY_DIGEST
from configdb_sync.store.approvals import UnsafeChange
from configdb_sync.sync.folder_stored import FolderStored
from configdb_sync.sync.folders import Held, Move
from configdb_sync.sync.idle import IdleOverride
from configdb_sync.sync.plan import DocumentChange, NodePlan
from configdb_sync.sync.stored import StoredNode


class PlanBuilder:
    """Collects one node's plan while its documents are looked at."""

    def __init__(self, node: str, fqdn: str | None, mapped: NodeMap) -> None:
        self.node = node
        self.fqdn = fqdn
        self.undeclared = mapped.undeclared
        self.changes: list[DocumentChange] = []
        self.unchanged: list[str] = []
        self.notes = [f"{name}: {note}" for name, note in mapped.notes.items()]
        self.problems: list[ProductError] = [fault.located(node=node) for fault in mapped.faults.values()]
        self.unsafe: list[UnsafeChange] = []
        self.idle: list[IdleOverride] = []
        self.moves: tuple[Move, ...] = ()
        self.held: tuple[Held, ...] = ()

    def leave(self, name: str, path: str, stored: StoredNode) -> None:
        """Take note of a file that isn't there yet before the deployment: it may come, so nothing is done (U2)."""
        if stored.values_digest(name) != EMPTY_DIGEST or stored.effective_digest(name) != EMPTY_DIGEST:
            self.notes.append(f"{path}: it isn't there yet; left to the stage main")

    def takes_over(self, stored: FolderStored) -> None:
        """Take note of documents that hold a whole folder (U31)."""
        self.moves, self.held = stored.moves, stored.held
        self.notes += stored.notes

    def build(self) -> NodePlan:
        """Return the plan."""
        return NodePlan(
            node=self.node,
            fqdn=self.fqdn,
            changes=tuple(self.changes),
            unchanged=tuple(self.unchanged),
            undeclared=self.undeclared,
            notes=tuple(self.notes),
            problems=tuple(self.problems),
            unsafe=tuple(self.unsafe),
            idle=tuple(self.idle),
            moves=self.moves,
            held=self.held,
        )
