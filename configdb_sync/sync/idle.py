"""Overrides that change nothing: hidden by a deeper level, or equal to the value that they cover (U20). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from configdb_sync.configdb.merge import effective
from configdb_sync.jsonvalues import ABSENT, Document
from configdb_sync.sync.merge import equal

Level = tuple[Document, Document]


class Why(Enum):
    """Why an override has no effect."""

    HIDDEN = "hidden"
    EQUAL = "equal"


@dataclass(frozen=True)
class IdleOverride:
    """One override without effect on a node: its data source, the level it is at (``/`` for the root) and its key."""

    data_source: str
    level: str
    key: str
    why: Why


def idle_overrides(data_source: str, places: Sequence[str], levels: Sequence[Level]) -> tuple[IdleOverride, ...]:
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
                found.append(IdleOverride(data_source, place, key, Why.HIDDEN))
            elif equal(covered.get(key, ABSENT), value):
                found.append(IdleOverride(data_source, place, key, Why.EQUAL))
    return tuple(found)
