"""A data source at a place, leaf by leaf: what the node meant, what is laid over it, and what it gets (U10, U16).

ConfigDB merges whole top-level keys (``configdb.level_merge``). So an override holds a whole block. Mostly one leaf of
it differs from the values: that leaf is *overridden*, the others are only *pinned*.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum

from configdb_sync.configdb import level_merge
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.jsonvalues import ABSENT, Document, Json, Slot
from configdb_sync.masking import Masker, Path
from configdb_sync.names import LevelPath, place_of
from configdb_sync.sync.three_way_merge import equal


class Mark(Enum):
    """How an override stands to a leaf."""

    NONE = "none"
    OVERRIDDEN = "overridden"
    PINNED = "pinned"
    HIDDEN = "hidden"


@dataclass(frozen=True)
class Level:
    """The two documents at one level; ``place`` is ``/`` or ``/nodes/46/``."""

    place: str
    values: Document = field(repr=False)
    overrides: Document = field(repr=False)


@dataclass(frozen=True)
class Leaf:
    """One leaf (a mapping is one only if it is empty, a list always) on the three sides; ``ABSENT`` where a side has
    none. ``place``: the level that gives the effective value; ``over``: that of the override, None without one."""

    path: Path
    values: Slot = field(repr=False)
    override: Slot = field(repr=False)
    effective: Slot = field(repr=False)
    mark: Mark
    place: str | None
    over: str | None


def read_levels(
    client: ConfigDBClient, environment: int, levels: LevelPath, definition: int
) -> tuple[list[Level], dict[str, Json]]:
    """Return the documents from the root down to a place, and the effective data there as the server gives it.

    Raises ``ConfigDBError``.
    """
    found = []
    for depth in range(len(levels) + 1):
        here = levels[:depth]
        values = client.values(environment, here, definition)
        found.append(Level(place_of(here), values, client.overrides(environment, here, definition)))
    return found, client.effective(environment, levels, definition)


def leaves(levels: Sequence[Level], effective: Document) -> list[Leaf]:
    """Return all leaves: those under an override first, each part in the order of the documents. Pure."""
    beneath = level_merge.effective((level.values, {}) for level in levels)
    winners: dict[str, tuple[str, bool]] = {}
    over: dict[str, Level] = {}
    for level in levels:
        winners.update(dict.fromkeys(level.values, (level.place, False)))
        winners.update(dict.fromkeys(level.overrides, (level.place, True)))
        over.update(dict.fromkeys(level.overrides, level))
    found: tuple[list[Leaf], list[Leaf]] = ([], [])
    for key in dict.fromkeys([*effective, *beneath, *over]):
        laid = over.get(key)
        block = ABSENT if laid is None else laid.overrides[key]
        place, wins = winners.get(key, (None, False))
        side = found[1] if laid is None else found[0]
        for path, one, other, last in _walk((key,), beneath.get(key, ABSENT), block, effective.get(key, ABSENT)):
            mark = _mark(one, other, overridden=laid is not None, wins=wins)
            side.append(Leaf(path, one, other, last, mark, place, None if laid is None else laid.place))
    return [*found[0], *found[1]]


def _walk(path: Path, one: Slot, other: Slot, last: Slot) -> Iterator[tuple[Path, Slot, Slot, Slot]]:
    there = [side for side in (one, other, last) if side is not ABSENT]
    if there and all(isinstance(side, dict) and side for side in there):
        for key in dict.fromkeys(key for side in (last, one, other) if isinstance(side, dict) for key in side):
            sides = [side.get(key, ABSENT) if isinstance(side, dict) else ABSENT for side in (one, other, last)]
            yield from _walk((*path, key), *sides)
    else:
        yield path, one, other, last


def _mark(one: Slot, other: Slot, *, overridden: bool, wins: bool) -> Mark:
    if not overridden:
        return Mark.NONE
    if not wins:
        return Mark.HIDDEN
    return Mark.PINNED if equal(one, other) else Mark.OVERRIDDEN


def leaf_json(leaf: Leaf, masker: Masker) -> dict[str, Json]:
    """Return a leaf as JSON values, secrets masked; a side that has nothing is left out."""
    sides = {"values": leaf.values, "override": leaf.override, "effective": leaf.effective}
    shown = {name: masker.shown(leaf.path, value) for name, value in sides.items() if value is not ABSENT}
    return {"key": list(leaf.path), **shown, "mark": leaf.mark.value, "level": leaf.place, "override_level": leaf.over}
