"""What a node's Puppet reads: the effective data of its data sources, in the order of its hierarchy (U24)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice

from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.model import Definition, Environment, Etags
from configdb_sync.errors import NodeError
from configdb_sync.hiera.arrangement import Arrangement, NodeSettings
from configdb_sync.hiera.hierarchy import from_json
from configdb_sync.jsonvalues import EMPTY_DIGEST, Document, ObjectReader
from configdb_sync.names import HIERARCHY, RECORDS, LevelPath

_ALIKE = 8
"""How many different documents of a data source are kept while nodes are read: nodes are alike by their roles."""


def read_settings(
    client: ConfigDBClient,
    environment: Environment,
    nodes: Mapping[str, LevelPath],
    arrangement: Arrangement,
    *,
    parallel: int = 4,
) -> Iterator[tuple[str, NodeSettings | NodeError]]:
    """Yield the settings of nodes (level value to place) as ConfigDB has them, or why a node has none.

    No more than a few nodes are held at a time. Raises ``ConfigDBError``.
    """
    definitions = client.definitions(environment)
    records = definitions.get(RECORDS) if arrangement.hierarchy is None else None
    definitions = {name: one for name, one in definitions.items() if name != RECORDS}

    reader = _DocumentReader(client, environment.id)

    def read(node: str) -> NodeSettings | NodeError:
        etags = client.etags(environment.id, nodes[node])
        documents = reader.effective(nodes[node], definitions, etags)
        kept = {} if records is None else reader.values(nodes[node], records, etags)
        try:
            return arrangement.settings(node, nodes[node], documents, from_json(kept.get(HIERARCHY)))
        except NodeError as error:
            return error

    with ThreadPoolExecutor(max_workers=max(1, parallel)) as pool:
        left = iter(nodes)
        while some := list(islice(left, max(1, parallel))):
            yield from zip(some, pool.map(read, some), strict=True)


class _DocumentReader:
    """Reads nodes' documents. What equals that of a node before is the same object, and neither fetched nor parsed.

    ``etags`` are the digests at the node's level, None where the server has none. Safe for several threads.
    """

    def __init__(self, client: ConfigDBClient, environment: int) -> None:
        self._client = client
        self._environment = environment
        self._readers: dict[int, ObjectReader] = {}
        self._known: dict[int, dict[str, Document]] = {}

    def effective(
        self, levels: LevelPath, definitions: Mapping[str, Definition], etags: Mapping[int, Etags] | None
    ) -> dict[str, Document]:
        """Return the effective data of data sources, of those that have any at this level."""

        def document(definition: int) -> Document:
            loads = self._readers.setdefault(definition, ObjectReader()).loads
            digest = None if etags is None or definition not in etags else etags[definition].effective
            return self._document(
                definition, digest, lambda: self._client.effective(self._environment, levels, definition, loads)
            )

        return {name: found for name, definition in definitions.items() if (found := document(definition.id))}

    def values(self, levels: LevelPath, definition: Definition, etags: Mapping[int, Etags] | None) -> Document:
        """Return the values stored at this level."""
        digest = None if etags is None or definition.id not in etags else etags[definition.id].values
        fetch = partial(self._client.values, self._environment, levels, definition.id)
        return self._document(definition.id, digest, fetch)

    def _document(self, definition: int, digest: str | None, fetch: Callable[[], Document]) -> Document:
        if digest == EMPTY_DIGEST:
            return {}
        known = self._known.get(definition, {})
        if digest is None or digest not in known:
            found = fetch()
            if digest is None:
                return found
            # A new mapping: other threads may be reading the old one.
            known = dict([*known.items()][1 - _ALIKE :], **{digest: found})
            self._known[definition] = known
        return known[digest]
