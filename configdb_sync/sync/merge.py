"""What a node meant: its file now, seen past what earlier runs wrote into it (U18). Pure.

A *key* here is a top-level key of a document: ConfigDB merges those whole, so an override hides whole keys and
only hidden keys need a memory. For each of them a record holds what the node meant (``values``) and what the
file held when our last run ended (``ours``; two contents while a write is unconfirmed). For every other key the
file is the truth.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from configdb_sync.jsonvalues import Document, Json, same


class Absent(Enum):
    """The type of ``ABSENT``: there is no value, which is not null."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT
Slot: TypeAlias = Json
"""A value or ``ABSENT``."""


@dataclass(frozen=True)
class HiddenKey:
    """What is remembered of a key whose content in the file is not, or may not be, the node's own."""

    values: Slot
    ours: tuple[Slot, ...]


def equal(one: Slot, other: Slot) -> bool:
    """Tell whether two slots hold the same: both absent, or values that are ``same``."""
    if one is ABSENT or other is ABSENT:
        return one is other
    return same(one, other)


def node_values(file: Document, hidden: Mapping[str, HiddenKey]) -> dict[str, Json]:
    """Return what the node means by its file, in the file's key order; keys that only a hidden value has come last."""
    meant: dict[str, Json] = {}
    for key, found in file.items():
        value = key_value(hidden[key], found) if key in hidden else found
        if value is not ABSENT:
            meant[key] = value
    for key, remembered in hidden.items():
        if key not in file:
            value = key_value(remembered, ABSENT)
            if value is not ABSENT:
                meant[key] = value
    return meant


def key_value(hidden: HiddenKey, found: Slot) -> Slot:
    """Return what the node means by one hidden key that its file now gives as ``found``."""
    if any(equal(own, found) for own in hidden.ours):
        return hidden.values
    if found is ABSENT:
        return ABSENT
    # A content that is just what the node means hides nothing: what was made of it is the node's word, whole.
    shown = [
        own for own in hidden.ours if not equal(own, hidden.values) and _shows_own_leaves(own, hidden.values, found)
    ]
    return _merge(hidden.values, shown, found) if shown else found


def _merge(values: Slot, ours: Sequence[Slot], found: Slot) -> Slot:
    if any(equal(own, found) for own in ours):
        return values
    mappings = [own for own in ours if isinstance(own, dict)]
    if not isinstance(found, dict) or not mappings:
        return found
    base = values if isinstance(values, dict) else {}
    merged: dict[str, Json] = {}
    for key in [*base, *(key for key in found if key not in base)]:
        value = _merge(base.get(key, ABSENT), [own.get(key, ABSENT) for own in mappings], found.get(key, ABSENT))
        if value is not ABSENT:
            merged[key] = value
    if not merged and found and not isinstance(values, dict):
        return values
    return merged


def _shows_own_leaves(own: Slot, values: Slot, found: Slot) -> bool:
    """Tell whether ``found`` still shows a leaf that was ours alone: one of ``own`` that ``values`` doesn't have.

    Where ``own`` has no such leaf (an override that only leaves things out) all its leaves count.
    """
    leaves = dict(_leaves(own))
    theirs = dict(_leaves(values))
    marks = {path: leaf for path, leaf in leaves.items() if path not in theirs or not same(theirs[path], leaf)}
    shown = dict(_leaves(found))
    return any(path in shown and same(shown[path], leaf) for path, leaf in (marks or leaves).items())


def _leaves(value: Slot, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Json]]:
    if value is ABSENT:
        return
    if isinstance(value, dict) and value:
        for key, child in value.items():
            yield from _leaves(child, (*path, key))
    else:
        yield path, value


@dataclass(frozen=True)
class Settled:
    """What can be said of a node's values without a record of earlier runs."""

    values: Mapping[str, Json]
    ambiguous: tuple[str, ...]


def settle(file: Document, stored: Document, effective: Document) -> Settled:
    """Judge a file without any record, by what ConfigDB holds of it.

    A leaf that equals the stored value or the effective one is settled: it stands for the stored value. A key
    with any other leaf is ambiguous; its stored value stays.
    """
    values: dict[str, Json] = {}
    ambiguous: list[str] = []
    for key in [*file, *(key for key in stored if key not in file)]:
        before = stored.get(key, ABSENT)
        if not _settled(file.get(key, ABSENT), before, effective.get(key, ABSENT)):
            ambiguous.append(key)
        if before is not ABSENT:
            values[key] = before
    return Settled(values, tuple(ambiguous))


def _settled(found: Slot, stored: Slot, effective: Slot) -> bool:
    if equal(found, stored) or equal(found, effective):
        return True
    if isinstance(found, dict) and isinstance(effective, dict):
        inner = stored if isinstance(stored, dict) else {}
        return all(
            _settled(found.get(key, ABSENT), inner.get(key, ABSENT), effective.get(key, ABSENT))
            for key in {**found, **inner, **effective}
        )
    return False
