"""Nodes of any place, seen with what Nailgun knows of them (U4): who can't be worked on now is left out, and said."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from configdb_sync.errors import NodeError
from configdb_sync.nailgun.roster import Roster, why_not
from configdb_sync.nodes.model import NodeFile, NodeLeftOut, NodeRead, Nodes
from configdb_sync.nodes.names import natural_key


class KnownNodes:
    """The nodes of ``inner`` (``Nodes`` of ``nodes.model``), and those that only Nailgun has, as left out.

    A node that Nailgun doesn't know is read like any other: only its own facts tell which node it is.
    """

    def __init__(self, inner: Nodes, roster: Roster) -> None:
        self._inner = inner
        self._roster = roster

    @property
    def place(self) -> str:
        """The place of the nodes themselves."""
        return self._inner.place

    def identities(self) -> Sequence[str]:
        """Return the identities of all nodes there and of all that Nailgun has, in one order."""
        return sorted({*self._inner.identities(), *self._roster.by_identity}, key=natural_key)

    def read(self, identities: Sequence[str]) -> Iterator[NodeRead | NodeError]:
        """Yield the nodes that are left out, then the others as they are read."""
        there = set(self._inner.identities())
        wanted = []
        for identity in identities:
            left_out = self._left_out(identity, there=identity in there)
            if left_out is None:
                wanted.append(identity)
            else:
                yield left_out
        yield from self._inner.read(wanted)

    def _left_out(self, identity: str, *, there: bool) -> NodeLeftOut | None:
        known = self._roster.by_identity.get(identity)
        if known is None:
            return None
        why = why_not(known)
        if why is not None:
            why = f"left out: Nailgun says that {why} (status {known.status})"
        elif not there:
            why = f"left out: Nailgun has it, but it isn't at {self.place}"
        return None if why is None else NodeLeftOut(identity, {}, {}, why, known.fqdn)

    def write(self, identity: str, path: str, content: bytes, expected: NodeFile | None) -> NodeFile:
        """See ``Nodes.write``."""
        return self._inner.write(identity, path, content, expected)

    def remove(self, identity: str, expected: NodeFile) -> None:
        """See ``Nodes.remove``."""
        self._inner.remove(identity, expected)
