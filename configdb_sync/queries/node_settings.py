"""What a node's Puppet reads: the effective data of its data sources, in the order of its hierarchy (U24)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.model import Definition, Environment
from configdb_sync.errors import NodeError
from configdb_sync.hiera.arrangement import Arrangement, NodeSettings
from configdb_sync.hiera.hierarchy import from_json
from configdb_sync.jsonvalues import EMPTY_DIGEST, Document
from configdb_sync.names import HIERARCHY, RECORDS, LevelPath


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

    def read(node: str) -> NodeSettings | NodeError:
        documents = effective_data(client, environment, nodes[node], definitions)
        kept = {} if records is None else client.values(environment.id, nodes[node], records.id)
        try:
            return arrangement.settings(node, nodes[node], documents, from_json(kept.get(HIERARCHY)))
        except NodeError as error:
            return error

    with ThreadPoolExecutor(max_workers=max(1, parallel)) as pool:
        left = iter(nodes)
        while some := list(islice(left, max(1, parallel))):
            yield from zip(some, pool.map(read, some), strict=True)


def effective_data(
    client: ConfigDBClient, environment: Environment, levels: LevelPath, definitions: Mapping[str, Definition]
) -> dict[str, Document]:
    """Return the effective data of data sources at a place, of those that have any there."""
    empty = _without_data(client, environment, levels)
    return {
        name: document
        for name, definition in definitions.items()
        if definition.id not in empty and (document := client.effective(environment.id, levels, definition.id))
    }


def _without_data(client: ConfigDBClient, environment: Environment, levels: LevelPath) -> Collection[int]:
    """Return the definitions that have nothing at a place, by a single request where the server can tell."""
    etags = client.etags(environment.id, levels)
    if etags is None:
        return ()
    return {definition for definition, one in etags.items() if one.effective == EMPTY_DIGEST}
