"""One node's records while it is worked on: in our own database first, then, as digests, in ConfigDB (U18)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from configdb_sync.sync.digests import to_json
from configdb_sync.sync.node_work import BLANK
from configdb_sync.sync.records import Record, Records
from configdb_sync.sync.remote_node import RemoteNode


class NodeMemory:
    """The records of one node.

    ``known`` are our own as they are, by data source. ``stored`` is what ConfigDB holds of the node (None where it was
    not asked), ``worked_on`` the data sources that this run looks at: what ConfigDB keeps of others stays. Those that
    are ``outdated`` are written anew even if they say the same, so that they are the newest.
    """

    def __init__(
        self,
        records: Records,
        node: str,
        known: Mapping[str, Record],
        stored: RemoteNode | None,
        worked_on: Collection[str],
        *,
        outdated: Collection[str] = (),
    ) -> None:
        self._records = records
        self._node = node
        self._known = dict(known)
        self._stored = stored
        self._worked_on = worked_on
        self._outdated = set(outdated)
        self._told = True if stored is None else stored.has_records or not self._known

    def remember(self, records: Mapping[str, Record]) -> None:
        """Keep these records, durably, before anything that they speak of is done. Raises ``StateError``."""
        gone = [name for name, record in records.items() if record == BLANK and name in self._known]
        changed = {
            name: record
            for name, record in records.items()
            if record != BLANK and (record != self._known.get(name) or name in self._outdated)
        }
        self._outdated -= changed.keys()
        self._records.store(self._node, changed)
        self._records.forget(self._node, gone)
        self._known |= changed
        for name in gone:
            del self._known[name]
        self._told = self._told and not changed and not gone

    def tell_configdb(self) -> None:
        """Let ConfigDB keep the digests of the records, so that they hold on another master."""
        if self._told or self._stored is None:
            return
        kept = {name: to_json(record) for name, record in self._known.items()}
        others = {name: found for name, found in self._stored.records().items() if name not in self._worked_on}
        self._stored.keep_records({**others, **kept})
        self._told = True
