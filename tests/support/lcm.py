"""A ConfigDB as fuel-plugin-lcm's uploader filled it: the files of a folder are one document, named after the folder.

Its rule: a file right in ``/etc/hiera`` is the data source of its name; of any other file the folder is the data
source and the name a key of it. All data sources are in one component that all environments share; a document that has
no data source there is left out.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.hiera.documents import Reader
from configdb_sync.jsonvalues import Json
from configdb_sync.names import LevelPath

COMPONENT = "fuel9.0"
DATA_SOURCES = (
    *(f"override/{name}" for name in ("node", "class", "module", "plugins", "common", "configuration")),
    *("override/configuration/role", "override/configuration/cluster", "class", "module", "nodes", "globals"),
    *("deleted_nodes", "astute", "plugins", "override"),
)


def documents_of(hiera: Path) -> dict[str, dict[str, Json]]:
    """Return a node's documents by data source."""
    found: dict[str, dict[str, Json]] = {}
    for path in sorted(hiera.rglob("*.yaml")):
        name = PurePosixPath(path.relative_to(hiera).with_suffix("").as_posix())
        values = dict(Reader().read(path.read_bytes()).values)
        if len(name.parts) == 1:
            found[str(name)] = values
        else:
            found.setdefault(str(name.parent), {})[name.name] = values
    return found


def fill(client: ConfigDBClient, env: int, trees: Path, above: LevelPath = ()) -> None:
    """Make the environment and upload all nodes of ``trees``; ``above`` are levels over the nodes' ones."""
    component = client.create_component(COMPONENT, DATA_SOURCES)
    client.create_environment(env, [component.id], [*(name for name, _ in above), "nodes"])
    ids = {definition.name: definition.id for definition in component.definitions}
    for node in sorted(trees.iterdir()):
        number = node.name.removeprefix("node-")
        for name, document in documents_of(node / "etc/hiera").items():
            if name in ids:
                client.put_values(env, (*above, ("nodes", number)), ids[name], document)
