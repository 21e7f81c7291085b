"""What people call nodes: their roles and their names in the Fuel UI, as runs have uploaded them from the nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.model import Environment
from configdb_sync.hiera.data_sources import SUFFIX
from configdb_sync.hiera.layouts import Layout
from configdb_sync.jsonvalues import Document
from configdb_sync.names import LevelPath

_PRIMARY = "primary-"


@dataclass(frozen=True)
class NodeLabels:
    """A node's roles, those that Fuel gives to the first node of them without ``primary-``, and its name in the UI."""

    roles: tuple[str, ...] = ()
    name: str | None = None


def labels_of(document: Document) -> NodeLabels:
    """Return what a node's base document says of it. Pure."""
    listed = document.get("roles")
    roles = [*(listed if isinstance(listed, list) else []), document.get("role")]
    name = document.get("user_node_name")
    plain = dict.fromkeys(role.removeprefix(_PRIMARY) for role in roles if isinstance(role, str) and role)
    return NodeLabels(tuple(plain), name if isinstance(name, str) else None)


def read_labels(
    client: ConfigDBClient, environment: Environment, nodes: Mapping[str, LevelPath]
) -> Iterator[tuple[str, NodeLabels]]:
    """Yield the nodes (level value to place) with their labels. Raises ``ConfigDBError``."""
    definitions = client.definitions(environment)
    names = [layout.base_files[0].removesuffix(SUFFIX) for layout in Layout]
    known = [definitions[name].id for name in names if name in definitions]
    for node, levels in nodes.items():
        documents = (client.effective(environment.id, levels, definition) for definition in known)
        yield node, labels_of(next((document for document in documents if document), {}))
