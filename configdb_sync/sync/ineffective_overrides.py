"""Overrides without effect: hidden, equal to what they cover (U20), unread, or left by a node that is gone. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from configdb_sync.configdb.level_merge import effective
from configdb_sync.configdb.model import OverrideNote
from configdb_sync.hiera.lookup import Layer
from configdb_sync.jsonvalues import ABSENT, Document
from configdb_sync.names import natural_key
from configdb_sync.overrides.checks import hidden_by, overridden_leaves
from configdb_sync.sync.three_way_merge import equal

Level = tuple[Document, Document]


class IneffectiveReason(Enum):
    """Why an override has no effect."""

    HIDDEN = "hidden"
    EQUAL = "equal"
    OTHER_DATA_SOURCE = "other data source"
    """Puppet reads the key from another data source."""


@dataclass(frozen=True)
class IneffectiveOverride:
    """One override without effect on a node: its data source, the level it is at (``/`` for the root) and its key.

    ``by``: the other data source, if it is that.
    """

    data_source: str
    level: str
    key: str
    why: IneffectiveReason
    by: str | None = None


def ineffective_overrides(
    data_source: str, places: Sequence[str], levels: Sequence[Level]
) -> tuple[IneffectiveOverride, ...]:
    """Return the overrides without effect. ``levels`` are (values, overrides) from the root to the node, ``places``
    their names."""
    found = []
    for depth, (place, (values, overrides)) in enumerate(zip(places, levels, strict=True)):
        if not overrides:
            continue
        deeper = {key for level in levels[depth + 1 :] for document in level for key in document}
        covered = effective([*levels[:depth], (values, {})])
        for key, value in overrides.items():
            if key in deeper:
                found.append(IneffectiveOverride(data_source, place, key, IneffectiveReason.HIDDEN))
            elif equal(covered.get(key, ABSENT), value):
                found.append(IneffectiveOverride(data_source, place, key, IneffectiveReason.EQUAL))
    return tuple(found)


def unread_overrides(
    data_source: str, places: Sequence[str], levels: Sequence[Level], layers: Sequence[Layer]
) -> tuple[IneffectiveOverride, ...]:
    """Return the overrides that Puppet reads nothing of, since another data source has their keys (U25).

    ``layers``: the node's effective data, in the order of its hierarchy; ``places`` and ``levels`` as above.
    """
    found = []
    for depth, (place, (values, overrides)) in enumerate(zip(places, levels, strict=True)):
        covered = effective([*levels[:depth], (values, {})]) if overrides else {}
        for key in overrides:
            by = hidden_by(layers, data_source, overridden_leaves(covered, overrides, key))
            if by is not None:
                found.append(IneffectiveOverride(data_source, place, key, IneffectiveReason.OTHER_DATA_SOURCE, by))
    return tuple(found)


@dataclass(frozen=True)
class Orphan:
    """The overrides of one node that isn't among those of the environment, by data source.

    ``node`` is the value that the nodes' level ``level`` has for it.
    """

    level: str
    node: str
    data_sources: tuple[str, ...]


def orphans(notes: Iterable[OverrideNote], level: str, values: Collection[str]) -> tuple[Orphan, ...]:
    """Return the overrides at the nodes' ``level`` that no node of these ``values`` reads, in the order of nodes."""
    found: dict[str, list[str]] = {}
    for note in notes:
        steps = note.place.strip("/").split("/")
        if len(steps) >= 2 and steps[-2] == level and steps[-1] not in values:
            found.setdefault(steps[-1], []).append(note.data_source)
    return tuple(Orphan(level, node, tuple(sorted(found[node]))) for node in sorted(found, key=natural_key))


def orphan_lines(found: Iterable[Orphan], environment: int) -> list[str]:
    """Return a line for each, that says how they are taken over."""
    return [
        f"node {orphan.node}, which isn't here: {', '.join(orphan.data_sources)}"
        f" (a node that replaces it takes them over with override --env {environment}"
        f" --level {orphan.level}=ID --copy-from {orphan.node})"
        for orphan in found
    ]
