"""Overrides left under the ids of nodes that aren't there any more: of a replaced node, most likely. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from configdb_sync.configdb.model import OverrideNote
from configdb_sync.names import natural_key


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
        f" (a node that replaces it takes them over with override --env {environment} -r DATA_SOURCE"
        f" --level {orphan.level}=ID --copy-from {orphan.node})"
        for orphan in found
    ]
