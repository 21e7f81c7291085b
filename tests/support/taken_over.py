"""Small environments whose ConfigDB an older plugin filled (``lcm``), and the product at work on them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.connect import connect
from configdb_sync.configdb.model import ChangeAuthor
from configdb_sync.names import LevelPath
from tests.support import lcm
from tests.support.product import Product, contents
from tests.support.trees import make_node

FQDN = "node-1.example.com"
FILES: dict[str, dict[str, Any]] = {
    "plugins/ldap": {"ldap": {"url": "ldap://own", "page": 0}, "more": 1},
    "plugins/backup": {"backup": {"on": True}},
    "override/plugins": {"tuning": {"a": 1}},
    "override/common": {"common": 1},
    f"override/node/{FQDN}": {"debug": True, "nova": {"debug": True}},
    "override/configuration/cluster": {"configuration": {"nova_config": {"x": 1}}},
    "override/configuration/role": {"configuration": {"nova_config": {"y": 1}}},
    f"override/configuration/{FQDN}": {"configuration": {"nova_config": {"z": 1}}},
    "class/one": {"c": 1},
    "override/class/two": {"d": 1},
}
ROWS = [
    ("plugins", "ldap", "plugins/ldap"),
    ("override", "plugins", "override/plugins"),
    ("override/node", FQDN, "override/node"),
    ("override/configuration", "cluster", "override/configuration/cluster"),
    ("override/configuration", FQDN, "override/configuration/node"),
    ("class", "one", "class/one"),
    ("override/class", "two", "override/class/two"),
]
"""A folder's document, a key in it, and the data source of that file."""
FOLDERS = ("plugins", "override", "override/node", "override/configuration", "class", "override/class")


@dataclass
class Cloud:
    """Nodes, and a ConfigDB that an older plugin filled from them."""

    product: Product
    trees: Path
    env: int
    url: str | None = None

    @property
    def more(self) -> tuple[str, ...]:
        return () if self.url is None else ("--configdb", self.url)

    @contextmanager
    def client(self, author: str | None = None, comment: str | None = None) -> Iterator[ConfigDBClient]:
        self.product.state.mkdir(mode=0o700, exist_ok=True)
        database = f"sqlite:///{self.product.state}/configdb.sqlite"
        with connect(
            self.url or "embedded", database_url=database, author=ChangeAuthor(None, author, comment)
        ) as client:
            yield client

    def fill(self) -> Cloud:
        with self.client() as client:
            lcm.fill(client, self.env, self.trees)
        return self

    def sync(self, *more: object) -> Any:
        return self.product("sync", "--env", self.env, "--from", self.trees, *self.more, *more)

    def report(self, *more: object) -> Any:
        return self.sync("--format", "json", *more).json

    def plan(self, *more: object) -> Any:
        return self.product("plan", "--env", self.env, "--from", self.trees, *self.more, *more)

    def override(self, data_source: str, document: dict[str, Any], node: str | None = "1", **who: str) -> None:
        with self.client(**who) as client:
            client.put_overrides(self.env, level(node), self.definition(client, data_source), document)

    def overrides(self, data_source: str, node: str | None = "1") -> dict[str, Any]:
        with self.client() as client:
            return client.overrides(self.env, level(node), self.definition(client, data_source))

    def values(self, data_source: str, node: str = "1") -> dict[str, Any]:
        with self.client() as client:
            return client.values(self.env, level(node), self.definition(client, data_source))

    def definition(self, client: ConfigDBClient, data_source: str) -> int:
        environment = client.environment(self.env)
        assert environment is not None
        return client.definitions(environment)[data_source].id

    def file(self, path: str, node: str = "1") -> Any:
        found = self.trees / f"node-{node}/etc/hiera/{path}.yaml"
        return yaml.safe_load(found.read_text()) if found.exists() else None

    def paths(self) -> set[str]:
        return {str(path.relative_to(self.trees)) for path in self.trees.rglob("*.yaml")}

    def at_rest(self) -> None:
        """A second run does nothing anywhere, and has nothing to say."""
        before = contents(self.trees)
        self.product.changing()
        found = self.report()
        assert (found["exit"], found["uploads"], found["writes"]) == (0, 0, 0), found
        assert not any(node["moves"] or node["problems"] for node in found["nodes"])
        assert self.product.changing() == []
        assert contents(self.trees) == before


def level(node: str | None) -> LevelPath:
    return () if node is None else (("nodes", node),)


def make(product: Product, folder: Path, env: int = 5, url: str | None = None, *nodes: str) -> Cloud:
    for node in nodes or ("1",):
        own = {
            name.replace(FQDN, f"node-{node}.example.com").replace("/", "__"): yaml.safe_dump(values)
            for name, values in FILES.items()
        }
        make_node(folder / "trees", node, env, **own)
    return Cloud(product, folder / "trees", env, url)
