"""Nodes of any place, seen with what Nailgun knows of them (U4): who can't be worked on now is left out, and said."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from configdb_sync.errors import NodeError
from configdb_sync.nailgun.roster import Roster, why_not
from configdb_sync.names import natural_key
from configdb_sync.nodes.model import NodeFile, NodeLeftOut, NodeRead, Nodes


class KnownNodes:
    """The nodes of ``inner`` (``Nodes`` of ``nodes.model``), and those that only Nailgun has, as left out.

    ``others``: nodes that Nailgun doesn't know are read like any other, since only their own facts tell who they are;
    else they are another environment's and not this run's business.
    """

    def __init__(self, inner: Nodes, roster: Roster, *, others: bool = True) -> None:
        self._inner = inner
        self._roster = roster
        self._others = others

    @property
    def place(self) -> str:
        """The place of the nodes themselves."""
        return self._inner.place

    @cached_property
    def _there(self) -> frozenset[str]:
        found = frozenset(self._inner.identities())
        return found if self._others else found & self._roster.by_identity.keys()

    def identities(self) -> Sequence[str]:
        """Return the identities of all nodes there and of all that Nailgun has, in one order; asked for once."""
        return sorted({*self._there, *self._roster.by_identity}, key=natural_key)

    def read(self, identities: Sequence[str]) -> Iterator[NodeRead | NodeError]:
        """Yield the nodes that are left out, then the others as they are read."""
        wanted = []
        for identity in identities:
            left_out = self._left_out(identity, there=identity in self._there)
            if left_out is None:
                wanted.append(identity)
            else:
                yield left_out
        if wanted:
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
