"""The nodes of the real environments, each with a Hiera that reads its files and one that asks ConfigDB."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.hiera_backend.backend import private

_LEVELS = (
    "plugins/ldap",
    "override/node/{fqdn}",
    "override/class/%{{calling_class}}",
    "override/plugins",
    "override/common",
    "override/configuration/{fqdn}",
    "override/configuration/role",
    "override/configuration/cluster",
    "override/configuration/default_route",
    "class/%{{calling_class}}",
    "deleted_nodes",
    "nodes",
    "globals",
)


@dataclass(frozen=True)
class RealNode:
    """A node: where its files are, what they hold by data source's path, and its own facts."""

    environment: int
    hiera: Path
    documents: Mapping[str, Mapping[str, Any]]

    @property
    def facts(self) -> Mapping[str, Any]:
        found: dict[str, Any] = {}
        for name in ("cluster", "node", "astute"):
            found |= self.documents.get(name, {})
        return found

    @property
    def uid(self) -> str:
        return str(self.facts["uid"])

    @property
    def keys(self) -> list[str]:
        """All top-level keys of all files."""
        return sorted({key for document in self.documents.values() for key in document})

    def levels(self, fqdn: str) -> list[str]:
        """The hierarchy of Fuel 9 or 10, the top first."""
        base = ["astute"] if "astute" in self.documents else ["node", "cluster"]
        return [*(level.format(fqdn=fqdn) for level in _LEVELS), *base]

    def settings(self, folder: Path, **server: Any) -> Path:
        """Write the backend's settings."""
        whole = {
            "environment": self.environment,
            "levels": f"nodes={self.uid}",
            "cache": str(folder / "cache"),
            **server,
        }
        return private(folder / "settings.yaml", yaml.safe_dump(whole))

    def hiera3(self, folder: Path, **server: Any) -> dict[str, Any]:
        """Write two hiera.yaml of Hiera 3; return the case for ``lookups3``."""
        settings = self.settings(folder, **server)
        for backend in ("yaml", "configdb"):
            whole = {
                ":backends": [backend],
                ":hierarchy": self.levels("%{::fqdn}"),
                ":yaml": {":datadir": str(self.hiera)},
                ":merge_behavior": "deeper",
                ":configdb": {":config": str(settings)},
            }
            (folder / f"{backend}.yaml").write_text(yaml.safe_dump(whole))
        scope = {"::fqdn": self.facts["fqdn"]}
        paths = {"one": str(folder / "yaml.yaml"), "other": str(folder / "configdb.yaml")}
        return {**paths, "scope": scope, "keys": self.keys}

    def hiera5(self, folder: Path, environments: Path, merges: list[str], **server: Any) -> dict[str, Any]:
        """Make two environments of Puppet with a hiera.yaml of version 5; return the case for ``lookups5``."""
        settings = self.settings(folder, **server)
        levels = [level for level in self.levels("%{facts.fqdn}") if "calling" not in level]
        paths = [f"{level}.yaml" for level in levels]
        options = {"config": str(settings), "datadir": str(self.hiera)}
        entries: dict[str, dict[str, Any]] = {
            "files": {"name": "files", "data_hash": "yaml_data", "datadir": str(self.hiera), "paths": paths},
            "configdb": {"name": "ConfigDB", "data_hash": "configdb::data", "uris": levels, "options": options},
        }
        names = {kind: f"{kind}_{self.environment}_{self.uid}" for kind in entries}
        for kind, entry in entries.items():
            made = environments / names[kind]
            made.mkdir(parents=True)
            (made / "hiera.yaml").write_text(yaml.safe_dump({"version": 5, "hierarchy": [entry]}))
        facts = {"fqdn": self.facts["fqdn"]}
        names = {"one": names["files"], "other": names["configdb"]}
        return {**names, "facts": facts, "keys": self.keys, "merges": merges}


def nodes_of(environment: int, top: Path) -> Iterator[RealNode]:
    """Yield the nodes of an environment's trees."""
    for folder in sorted(top.iterdir()):
        hiera = folder / "etc/hiera"
        found = {
            str(path.relative_to(hiera)).removesuffix(".yaml"): yaml.load(path.read_bytes(), yaml.CSafeLoader)
            for path in sorted(hiera.rglob("*.yaml"))
        }
        yield RealNode(environment, hiera, found)
