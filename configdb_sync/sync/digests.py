"""What ConfigDB itself keeps of our records, so that a new master can't take our writing for the nodes' (U18). Pure.

One document a node, in the data source ``records`` of the component ``/configdb-sync/<environment>``: for each data
source the digests of its hidden keys (what the node means by them, and what the file may hold of ours), the types that
JSON lacks in them, the keys left ambiguous, and whether the file was made for an override. A key that isn't hidden
needs no memory: there the file is the truth.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from configdb_sync.jsonvalues import Document, Json, value_digest
from configdb_sync.sync.merge import ABSENT, HiddenKey, Slot, equal, key_value
from configdb_sync.sync.records import Record

FROM_NAILGUN: Json = {"nailgun": True}
"""What stands for a document that only Nailgun's data was uploaded of: nothing of ours is in the node's file (U21)."""


@dataclass(frozen=True)
class DigestRecord:
    """A record without its contents: digests (hex, None for an absent key) in their place."""

    hidden: Mapping[str, tuple[str | None, tuple[str | None, ...]]]
    types: Mapping[str, Json] = field(default_factory=dict)
    unsettled: tuple[str, ...] = ()
    created: bool = False


def to_json(record: Record) -> dict[str, Json]:
    """Return what is kept of a record in ConfigDB, empty members left out."""
    hidden = {
        key: {"values": _digest(remembered.values), "written": [_digest(own) for own in remembered.ours]}
        for key, remembered in record.hidden.items()
    }
    whole: dict[str, Json] = {
        "hidden": hidden,
        "types": dict(record.marks),
        "unsettled": list(record.unsettled),
        "created": record.created,
    }
    return {name: value for name, value in whole.items() if value}


def from_json(value: Json) -> DigestRecord | None:
    """Return what ``to_json`` kept; None if it isn't that (someone else wrote there)."""
    if not isinstance(value, dict):
        return None
    try:
        hidden = {
            key: (_checked(kept["values"]), tuple(_checked(own) for own in kept["written"]))
            for key, kept in value.get("hidden", {}).items()
        }
        types, unsettled = dict(value.get("types", {})), value.get("unsettled", [])
        if not all(isinstance(key, str) for key in unsettled):
            return None
        return DigestRecord(hidden, types, tuple(unsettled), value.get("created", False) is True)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def recovered(digests: DigestRecord, file: Document | None, stored: Document, sha256: str | None) -> Record:
    """Return the record that a master without records of its own may go on with.

    A hidden key whose content in the file has a digest that we wrote is ours, and means what is stored of it. Any other
    hidden key is left to be settled by its leaves. The nodes' own texts are lost.
    """
    found: Document = {} if file is None else file
    hidden: dict[str, HiddenKey] = {}
    unsettled = [key for key in digests.unsettled if key not in digests.hidden]
    for key, (_, written) in digests.hidden.items():
        content = found.get(key, ABSENT)
        if _digest(content) in written:
            hidden[key] = HiddenKey(stored.get(key, ABSENT), (content,))
        else:
            unsettled.append(key)
    return Record(
        values="",
        files=(sha256,),
        hidden=hidden,
        marks=digests.types,
        created=digests.created and file is not None,
        unsettled=tuple(unsettled),
    )


def reconciled(own: Record, digests: DigestRecord, found: Record, file: Document | None) -> Record:
    """Return the record to go on with where our own and ConfigDB's differ; ``found`` is the one recovered from these.

    ConfigDB's is never behind the file: it is told before a file is written and again after (``carry_out``). Ours
    may be, after a backup was put back or another master was at work. It helps where it knows the contents
    behind ConfigDB's digests, and with the nodes' own texts, which are put back only where they fit.

    But ConfigDB's may be of another copy of the node's files. So a key in which ours alone sees our writing is left
    to be settled by its leaves: taken for the node's, an override would be frozen.
    """
    content = {} if file is None else file
    hidden = dict(found.hidden)
    unsettled = []
    for key in found.unsettled:
        remembered = own.hidden.get(key)
        if remembered is not None and key in digests.hidden:
            values, written = digests.hidden[key]
            if _digest(remembered.values) == values and {_digest(one) for one in remembered.ours} >= set(written):
                hidden[key] = remembered
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
