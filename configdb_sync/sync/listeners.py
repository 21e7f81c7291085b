"""Who is told how a run gets on: its user, and the journal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from configdb_sync.store.runs import Problem, RunNode


class Progress(Protocol):
    """Is told how a run gets on."""

    def begins(self, nodes: int) -> None:
        """Take note that work on so many nodes begins."""

    def node_done(self, node: str, problems: int) -> None:
        """Take note that a node was worked on."""


class RunLog(Protocol):
    """Is told what is done, durably, and knows what earlier runs did."""

    def order(self, identities: Sequence[str]) -> list[str]:
        """Return the nodes in the order in which to work."""

    def node_done(self, done: RunNode, problems: Sequence[Problem]) -> None:
        """Take note of what was done with a node."""


class NoLog:
    """Remembers nothing."""

    def order(self, identities: Sequence[str]) -> list[str]:
        """Return the nodes as they are."""
        return list(identities)

    def node_done(self, done: RunNode, problems: Sequence[Problem]) -> None:
        """Forget it."""
