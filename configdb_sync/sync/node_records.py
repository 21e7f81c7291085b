"""One node's records while it is worked on: in our own database first, then, as digests, in ConfigDB (U18).

By the digests a new master doesn't take our writing for the node's. They are one document a node, in the data source
``records`` of the component ``/configdb-sync/<environment>``. For each data source it holds: the digests of its hidden
keys (what the node means by them, what the file may hold of ours, and the leaves that are ours alone), the types that
JSON lacks in them, the keys left ambiguous, and the sha256 of a file that was made for an override. Keys that aren't
hidden need no memory: for them the file is the truth.

Beside them is the node's hierarchy, by which lookups from ConfigDB go (``HIERARCHY``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from configdb_sync.jsonvalues import ABSENT, Document, Json, Slot, canonical, value_digest
from configdb_sync.store.records import HiddenKey, Record, Records
from configdb_sync.sync.node_work import BLANK
from configdb_sync.sync.remote_node import RemoteNode
from configdb_sync.sync.three_way_merge import Path, equal, key_value, leaves_of_ours, overlaid


class NodeMemory:
    """The records of one node.

    ``known`` are our own records, by data source. ``stored`` is what ConfigDB holds of the node (None if it was not
    asked), ``worked_on`` the data sources of this run: records of others stay in ConfigDB. ``outdated`` ones are
    written again even without a change, so that they are the newest. ``hierarchy`` is the node's, None if it is
    unknown: then the one in ConfigDB stays.
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
        hierarchy: Json = None,
    ) -> None:
        self._records = records
        self._node = node
        self._known = dict(known)
        self._stored = stored
        self._worked_on = worked_on
        self._outdated = set(outdated)
        self._hierarchy = hierarchy
        self._told = True if stored is None else stored.has_records or not self._known

    def remember(self, records: Mapping[str, Record]) -> None:
        """Store these records, durably, before the changes that they describe are made. Raises ``StateError``."""
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
        """Store the digests of the records in ConfigDB, for other masters, and the hierarchy, for lookups."""
        if self._stored is None or (self._told and self._hierarchy is None):
            return
        kept = {name: to_json(record) for name, record in self._known.items()}
        if self._told and not self._stored.lacks(self._hierarchy, kept):
            return
        others = {name: found for name, found in self._stored.records().items() if name not in self._worked_on}
        self._stored.keep_records({**others, **kept}, self._hierarchy)
        self._told = True


FROM_NAILGUN: Json = {"nailgun": True}
"""The record of a document that was uploaded from Nailgun's data alone: nothing of ours is in the node's file (U21)."""


@dataclass(frozen=True)
class HiddenDigests:
    """A hidden key: digests (hex, None for an absent key) in place of its contents.

    ``leaves`` are those of our leaves, by the canonical JSON of the path to each.
    """

    values: str | None
    written: tuple[str | None, ...]
    leaves: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def shows(self, path: Path, leaf: Json) -> bool:
        """Tell whether we wrote this leaf there."""
        return value_digest(leaf) in self.leaves.get(canonical(list(path)), ())


@dataclass(frozen=True)
class DigestRecord:
    """A record without its contents. ``created``: the sha256 of a file that was made for an override."""

    hidden: Mapping[str, HiddenDigests]
    types: Mapping[str, Json] = field(default_factory=dict)
    unsettled: tuple[str, ...] = ()
    created: tuple[str, ...] = ()


def to_json(record: Record) -> dict[str, Json]:
    """Return what is kept of a record in ConfigDB, empty members left out."""
    hidden = {
        key: {
            "values": _digest(remembered.values),
            "written": [_digest(own) for own in remembered.ours],
            "leaves": {
                canonical(list(path)): sorted({value_digest(leaf) for leaf in leaves})
                for path, leaves in leaves_of_ours(remembered).items()
            },
        }
        for key, remembered in record.hidden.items()
    }
    whole: dict[str, Json] = {
        "hidden": hidden,
        "types": dict(record.marks),
        "unsettled": list(record.unsettled),
        "created": [sha256 for sha256 in record.files if sha256 is not None] if record.created else [],
    }
    return {name: value for name, value in whole.items() if value}


def from_json(value: Json) -> DigestRecord | None:
    """Return what ``to_json`` kept; None if it isn't that (someone else wrote there)."""
    if not isinstance(value, dict):
        return None
    try:
        hidden = {
            key: HiddenDigests(
                _checked(kept["values"]),
                tuple(_checked(own) for own in kept["written"]),
                {path: tuple(digests) for path, digests in kept["leaves"].items()},
            )
            for key, kept in value.get("hidden", {}).items()
        }
        types, unsettled, created = (value.get(name, []) for name in ("types", "unsettled", "created"))
        if not all(isinstance(one, str) for one in (*unsettled, *created)):
            return None
        return DigestRecord(hidden, dict(types), tuple(unsettled), tuple(created))
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def recovered(digests: DigestRecord, file: Document | None, stored: Document, sha256: str | None) -> Record:
    """Return the record with which a master without records of its own continues.

    A hidden key whose content in the file has a digest that we wrote is ours, and means the stored values. Any other
    hidden key is settled by its leaves, of which those that we wrote are known. The nodes' own texts are lost.
    """
    found: Document = {} if file is None else file
    hidden: dict[str, HiddenKey] = {}
    unsettled = [key for key in digests.unsettled if key not in digests.hidden]
    for key, kept in digests.hidden.items():
        content, values = found.get(key, ABSENT), stored.get(key, ABSENT)
        if _digest(content) in kept.written:
            hidden[key] = HiddenKey(values, (content,))
            continue
        unsettled.append(key)
        ours = overlaid(values, content, kept.shows)
        if ours is not None:
            hidden[key] = HiddenKey(values, (ours,))
    return Record(
        values="",
        files=(sha256,),
        hidden=hidden,
        marks=digests.types,
        created=sha256 in digests.created,
        unsettled=tuple(unsettled),
    )


def reconciled(own: Record, digests: DigestRecord, found: Record, file: Document | None) -> Record:
    """Return the record to continue with if our own and ConfigDB's differ; ``found`` was recovered from the latter.

    ConfigDB's is never older than the file: it is stored before a file is written and again after. Ours may be, after a
    backup was restored or another master was at work. It helps where it has the contents of ConfigDB's digests, and
    with the nodes' own texts, which are put back only where they fit.

    But ConfigDB's may be of another copy of the node's files. So a key in which only ours sees our writing is settled
    by its leaves: taken for the node's, an override would be frozen.
    """
    content = {} if file is None else file
    hidden = dict(found.hidden)
    unsettled = []
    for key in found.unsettled:
        remembered = own.hidden.get(key)
        if remembered is not None and key in digests.hidden:
            kept = digests.hidden[key]
            written = {_digest(one) for one in remembered.ours}
            if _digest(remembered.values) == kept.values and written >= set(kept.written):
                hidden[key] = remembered
                if key not in digests.unsettled:
                    continue
        unsettled.append(key)
    for key, remembered in own.hidden.items():
        slot = content.get(key, ABSENT)
        if key not in hidden and key not in unsettled and not equal(key_value(remembered, slot), slot):
            unsettled.append(key)
    return replace(found, hidden=hidden, unsettled=tuple(unsettled), kept=own.kept)


def _digest(slot: Slot) -> str | None:
    return None if slot is ABSENT else value_digest(slot)


def _checked(digest: Json) -> str | None:
    if digest is not None and not isinstance(digest, str):
        raise TypeError(digest)
    return digest
