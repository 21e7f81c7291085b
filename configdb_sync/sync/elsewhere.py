"""What ConfigDB keeps of nodes' records in other environments than a run's own (U18).

Asked for documents that neither we nor ConfigDB remember here: a node that came from another environment brought that
one's overrides along.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator, Mapping

from configdb_sync.addresses import Addresses, from_records
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.model import Definition, Environment, ServerKind
from configdb_sync.errors import NodeError
from configdb_sync.jsonvalues import Document, Json
from configdb_sync.names import RECORDS, LevelPath, records_component
from configdb_sync.sync.digests import DigestRecord, from_json


class Elsewhere:
    """The other environments as one run sees them. Safe for several threads; each thing is read once.

    Every method raises ``ConfigDBError`` as the client does.
    """

    def __init__(self, client: ConfigDBClient, environment: int) -> None:
        self._client = client
        self._environment = environment
        self._lock = threading.Lock()

    def of_node(self, levels: LevelPath, facts: Mapping[str, Json]) -> NodeElsewhere:
        """Return what they keep of the node at these levels, with these facts; nothing is asked yet."""
        return NodeElsewhere(self, levels, facts)

    @functools.cached_property
    def _others(self) -> tuple[_Other, ...]:
        """The other environments that keep records."""
        environments = [one for one in self._client.environments() if one.id != self._environment]
        components = {one.id: one for one in self._client.components()} if environments else {}
        found = []
        for environment in environments:
            names = {one.name: one for one in map(components.get, environment.components) if one is not None}
            own = names.pop(records_component(environment.id), None)
            records = None if own is None else next((one for one in own.definitions if one.name == RECORDS), None)
            if records is not None:
                known = {one.name: one for component in names.values() for one in component.definitions}
                found.append(_Other(self._client, environment, records, known))
        return tuple(found)

    def with_node(self, levels: LevelPath, facts: Mapping[str, Json]) -> Iterator[tuple[_Other, LevelPath]]:
        """Yield the environments that have documents of a node, with its place there."""
        with self._lock:
            others = self._others
            places = [(other, other.place(levels, facts)) for other in others]
        yield from ((other, place) for other, place in places if place is not None)


class _Other:
    def __init__(
        self, client: ConfigDBClient, environment: Environment, records: Definition, known: Mapping[str, Definition]
    ) -> None:
        self._client = client
        self._environment = environment
        self._records = records
        self._known = known
        self._level_values: dict[str, tuple[str, ...]] = {}

    @functools.cached_property
    def _noted(self) -> tuple[Addresses, ...] | None:
        """Its levels, each for itself, as runs noted them; None if they didn't."""
        noted = from_records(self._client.values(self._environment.id, (), self._records.id))
        return None if noted is None else tuple(Addresses(self._environment.id, (level,)) for level in noted)

    def _told(self, levels: LevelPath, facts: Mapping[str, Json]) -> dict[str, str]:
        """Return the values that its levels have for a node that has these levels elsewhere, as far as facts tell."""
        if self._noted is None:
            return dict(levels)
        found: dict[str, str] = {}
        for level in self._noted:
            with contextlib.suppress(NodeError):
                found |= level.of_facts({**facts, "deployment_id": self._environment.id})
        return found

    def place(self, levels: LevelPath, facts: Mapping[str, Json]) -> LevelPath | None:
        """Return the place of a node that has these levels elsewhere; None if nothing is stored of it here."""
        known, place = self._told(levels, facts), []
        name = next(iter(self._environment.levels[-1:]), None)
        node = None if name is None else known.get(name)
        if name is None or node is None:
            return None
        for outer in self._environment.levels[:-1]:
            # A document of the last level is the same whatever values the levels over it have.
            value = known.get(outer) or next(iter(self._values_of(outer)), None)
            if value is None:
                return None
            place.append((outer, value))
        there = self._client.server() is ServerKind.LEGACY or node in self._values_of(name)
        return (*place, (name, node)) if there else None

    def _values_of(self, level: str) -> tuple[str, ...]:
        if self._client.server() is ServerKind.LEGACY:
            return ()
        if level not in self._level_values:
            self._level_values[level] = self._client.level_values(self._environment.id, level)
        return self._level_values[level]

    def kept(self, place: LevelPath) -> dict[str, Json]:
        """Return the digests of a node's records, by data source."""
        return self._client.values(self._environment.id, place, self._records.id)

    def values(self, place: LevelPath, data_source: str) -> dict[str, Json]:
        """Return a node's values."""
        definition = self._known.get(data_source)
        return {} if definition is None else self._client.values(self._environment.id, place, definition.id)


class NodeElsewhere:
    """What the other environments keep of one node. Used by one thread."""

    def __init__(self, elsewhere: Elsewhere, levels: LevelPath, facts: Mapping[str, Json]) -> None:
        self._elsewhere = elsewhere
        self._levels = levels
        self._facts = facts

    @functools.cached_property
    def _kept(self) -> list[tuple[_Other, LevelPath, dict[str, Json]]]:
        return [
            (other, place, other.kept(place)) for other, place in self._elsewhere.with_node(self._levels, self._facts)
        ]

    def of(self, data_source: str) -> Iterator[tuple[DigestRecord, Document]]:
        """Yield the digests of our record of a document, and its values, of each that has something of ours in it."""
        for other, place, kept in self._kept:
            digests = from_json(kept.get(data_source))
            if digests is not None and (digests.hidden or digests.unsettled or digests.created):
                yield digests, other.values(place, data_source)
