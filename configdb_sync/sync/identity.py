"""What a run may not write into a node's files: by them the next run must still know who the node is (U4, U7, U18).

Else an override of such a fact could never be taken away again: the node would be refused before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from configdb_sync.errors import NodeFileError, ProductError
from configdb_sync.hiera.layouts import Layout, is_foreign
from configdb_sync.jsonvalues import Document
from configdb_sync.sync.decide import Decision, Write


@dataclass(frozen=True)
class Identity:
    """One node as its base files tell it: their values by path, and how they are read (``told`` raises or gives what
    must stay the same)."""

    layout: Layout
    base: Mapping[str, Document] = field(repr=False)
    told: Callable[[Mapping[str, Document]], object]

    def check(self, path: str, decision: Decision) -> None:
        """Raise ``NodeFileError`` if with what is to be written the node would pass for another one.

        What the node itself means by its files is what counts, not what an override made of them.
        """
        if decision.write is Write.CREATE and is_foreign(path, self.layout):
            raise NodeFileError(
                "there are overrides for it, but with this file the node would pass for one of another Fuel release;"
                " it was not made",
                way_out="take them away, and override what the node has instead",
            )
        if decision.write is not Write.NONE and path in self.base and not self._kept(path, decision):
            raise NodeFileError(
                "an override changes what tells which node this is (uid, deployment_id, fqdn, hostname, a hierarchy"
                " level or the list of data sources); the file was left alone",
                way_out="take the override away",
            )

    def _kept(self, path: str, decision: Decision) -> bool:
        try:
            after = self.told({**self.base, path: decision.target})
            return after == self.told({**self.base, path: decision.meant.values})
        except ProductError:
            return False
