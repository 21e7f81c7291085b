"""What a node meant: its file now, seen past what earlier runs wrote into it (U18). Pure.

A *key* here is a top-level key of a document: ConfigDB merges those whole, so an override hides whole keys and
only hidden keys need a memory. For each of them a record holds what the node meant (``values``) and what the
file held when our last run ended (``ours``; two contents while a write is unconfirmed). For every other key the
file is the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from configdb_sync.jsonvalues import ABSENT, Document, Json, Slot, same
from configdb_sync.store.records import HiddenKey

Path: TypeAlias = tuple[str, ...]
"""Where a leaf stands: the keys above it."""


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
    # A content that is just what the node means hides nothing: a change of it is wholly the node's.
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


def _leaves(value: Slot, path: Path = ()) -> Iterator[tuple[Path, Json]]:
    if value is ABSENT:
        return
    if isinstance(value, dict) and value:
        for key, child in value.items():
            yield from _leaves(child, (*path, key))
    else:
        yield path, value


def leaves_of_ours(hidden: HiddenKey) -> dict[Path, list[Json]]:
    """Return the leaves that show our writing in a hidden key: those of ``ours`` that ``values`` doesn't have."""
    theirs = dict(_leaves(hidden.values))
    found: dict[Path, list[Json]] = {}
    for own in hidden.ours:
        for path, leaf in _leaves(own):
            if path not in theirs or not same(theirs[path], leaf):
                found.setdefault(path, []).append(leaf)
    return found


def overlaid(values: Slot, content: Slot, is_ours: Callable[[Path, Json], bool]) -> Slot | None:
    """Return ``values`` with those leaves of ``content`` in it that ``is_ours`` knows; None if it knows none."""
    shown = [(path, leaf) for path, leaf in _leaves(content) if is_ours(path, leaf)]
    result = values
    for path, leaf in shown:
        result = _with_leaf(result, path, leaf)
    return result if shown else None


def _with_leaf(value: Slot, path: Path, leaf: Json) -> Json:
    if not path:
        return leaf
    inner = value if isinstance(value, dict) else {}
    return {**inner, path[0]: _with_leaf(inner.get(path[0], ABSENT), path[1:], leaf)}


@dataclass(frozen=True)
class Settled:
    """What can be said of a node's values without knowing what we wrote last.

    ``values`` are what ConfigDB's side means by each key. In ``open`` are the keys that have a leaf of neither side:
    ``node`` is what the node's side means by them, ``open`` what to remember of them.
    """

    values: Mapping[str, Json]
    node: Mapping[str, Slot]
    open: Mapping[str, HiddenKey]

    @property
    def ambiguous(self) -> tuple[str, ...]:
        """The keys that are open."""
        return tuple(self.open)


def settle(
    file: Document, stored: Document, effective: Document, known: Mapping[str, HiddenKey] = MappingProxyType({})
) -> Settled:
    """Judge a file by what ConfigDB holds of it, leaf by leaf; ``known`` is what is remembered of open keys.

    A leaf that equals the stored value, the effective one or one that we are known to have written is settled: it
    stands for the stored value (where nothing is stored, for the value remembered). A key with any other leaf is
    ambiguous, and only that leaf is: if the user decides for the node, it is taken, and the settled ones stay.
    """
    values: dict[str, Json] = {}
    node: dict[str, Slot] = {}
    still_open: dict[str, HiddenKey] = {}
    for key in dict.fromkeys([*file, *stored, *known]):
        found, before, shown = (document.get(key, ABSENT) for document in (file, stored, effective))
        remembered = known.get(key, HiddenKey(before, ()))
        if before is ABSENT:
            before = remembered.values
        ours = [shown, *(own for own in remembered.ours if not equal(own, shown))]
        theirs = _merge(before, [before, *ours], found)
        if before is not ABSENT:
            values[key] = before
        if not equal(theirs, before):
            node[key] = theirs
            still_open[key] = HiddenKey(before, tuple(own for own in ours if not equal(own, before)))
    return Settled(values, node, still_open)
