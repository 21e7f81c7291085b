"""How the settings of nodes, or of environments, differ (U26). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from configdb_sync.configdb import edits
from configdb_sync.configdb.edits import KeyPath
from configdb_sync.jsonvalues import ABSENT, Document, Json, canonical, same

Settings = Mapping[str, Document]
"""A node's effective data by data source."""


@dataclass(frozen=True)
class Group:
    """Nodes with the same value of a key; ``ABSENT`` for those that lack it."""

    value: Json = field(repr=False)
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Difference:
    """A key whose value isn't the same on all sides; ``groups`` by value, the one of the fewest nodes first."""

    data_source: str
    path: KeyPath
    groups: tuple[Group, ...]


def by_value(values: Mapping[str, Json]) -> tuple[Group, ...]:
    """Return nodes grouped by their value, the smallest group first: the odd one out."""
    found: dict[str, tuple[Json, list[str]]] = {}
    for node, value in values.items():
        key = "" if value is ABSENT else canonical(value)
        found.setdefault(key, (value, []))[1].append(node)
    return tuple(Group(value, tuple(nodes)) for value, nodes in sorted(found.values(), key=lambda one: len(one[1])))


def compare_key(nodes: Mapping[str, Settings], path: KeyPath) -> list[Difference]:
    """Return how a key stands on all nodes, for each data source in which at least one node has it, also where all are
    the same."""
    sources = dict.fromkeys(name for settings in nodes.values() for name in settings)
    found = []
    for source in sources:
        values = {node: _value(settings.get(source), path) for node, settings in nodes.items()}
        if any(value is not ABSENT for value in values.values()):
            found.append(Difference(source, path, by_value(values)))
    return found


def compare_nodes(nodes: Mapping[str, Settings]) -> list[Difference]:
    """Return all keys of which these nodes have different values, as deep as all of them hold mappings there."""
    sources = dict.fromkeys(name for settings in nodes.values() for name in settings)
    found: list[Difference] = []
    for source in sources:
        sides = {node: settings.get(source, ABSENT) for node, settings in nodes.items()}
        found += _differences(source, (), sides)
    return found


def _differences(source: str, path: KeyPath, sides: Mapping[str, Json]) -> list[Difference]:
    values = list(sides.values())
    if all(_equal(values[0], value) for value in values[1:]):
        return []
    if all(isinstance(value, Mapping) for value in values):
        keys: dict[str, None] = {}
        for value in values:
            keys.update(dict.fromkeys(value))
        return [
            one
            for key in keys
            for one in _differences(source, (*path, key), {node: side.get(key, ABSENT) for node, side in sides.items()})
        ]
    return [Difference(source, path, by_value(sides))]


def compare_environments(
    one: Mapping[str, Settings], other: Mapping[str, Settings]
) -> list[tuple[Difference, Difference]]:
    """Return the keys whose values, over all nodes of two environments, are not the same set; each as it stands in the
    one and in the other. Nodes are not paired: how many have a value doesn't count, that one has it does."""
    found = []
    leaves = [_leaves(nodes) for nodes in (one, other)]
    for source, path in dict.fromkeys([*leaves[0], *leaves[1]]):
        sides = [side.get((source, path), {}) for side in leaves]
        if {canonical(value) for value in sides[0].values()} != {canonical(value) for value in sides[1].values()}:
            found.append(tuple(Difference(source, path, by_value(side)) for side in sides))
    return found  # type: ignore[return-value]


def _leaves(nodes: Mapping[str, Settings]) -> dict[tuple[str, KeyPath], dict[str, Json]]:
    found: dict[tuple[str, KeyPath], dict[str, Json]] = {}
    for node, settings in nodes.items():
        for source, document in settings.items():
            for path, value in _walk((), document):
                found.setdefault((source, path), {})[node] = value
    return found


def _walk(path: KeyPath, value: Json) -> Sequence[tuple[KeyPath, Json]]:
    if isinstance(value, Mapping) and value:
        return [leaf for key, child in value.items() for leaf in _walk((*path, key), child)]
    return [(path, value)] if path else []


def _value(document: Document | None, path: KeyPath) -> Json:
    return edits.get(document, path) if document is not None and edits.has(document, path) else ABSENT


def _equal(one: Json, other: Json) -> bool:
    return one is other if one is ABSENT or other is ABSENT else same(one, other)
