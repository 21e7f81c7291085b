"""What Nailgun says, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from configdb_sync.jsonvalues import Json

MASTER = "master"
"""The identity of the Fuel Master: never a node of an environment, though Nailgun lists data for it."""

COMMON = "common"
"""What stands for all nodes where Nailgun tells deployment data in parts."""


@dataclass(frozen=True)
class Version:
    """Which Nailgun this is (``9.0``), and whether it wants a token."""

    release: str
    auth_required: bool


@dataclass(frozen=True)
class Cluster:
    """An environment. ``fuel_version`` is that of the Nailgun which made it; ``customized``: someone uploaded data in
    place of what Nailgun computes for nodes."""

    id: int
    name: str
    status: str
    fuel_version: str
    customized: bool = False


@dataclass(frozen=True)
class NailgunNode:
    """A node of an environment. ``id`` as text is its fact ``uid`` and its identity everywhere else."""

    id: int
    fqdn: str | None
    status: str
    online: bool
    pending_deletion: bool
    pending_addition: bool
    roles: tuple[str, ...]

    @property
    def identity(self) -> str:
        """The id as text."""
        return str(self.id)


@dataclass(frozen=True)
class DeploymentData:
    """What nodes are given: ``nodes`` by identity, laid over what is ``common`` to all (none before Fuel 9.2)."""

    common: Mapping[str, Json] = field(default_factory=dict, repr=False)
    nodes: Mapping[str, Mapping[str, Json]] = field(default_factory=dict, repr=False)

    def replaced_by(self, other: DeploymentData) -> DeploymentData:
        """Return the data with what was uploaded in place of it, as Nailgun puts it together: what is common is laid
        over, a node's own replaced."""
        nodes = {identity: other.nodes.get(identity, own) for identity, own in self.nodes.items()}
        return DeploymentData(_merged(self.common, other.common), nodes)

    def whole(self) -> dict[str, Mapping[str, Json]]:
        """Return each node's data, by identity; what is the same for several is the same object."""
        return {identity: _merged(self.common, own) for identity, own in self.nodes.items()}


def _merged(below: Mapping[str, Json], above: Mapping[str, Json]) -> dict[str, Json]:
    """Return ``above`` laid over ``below``, mappings into mappings."""
    found = dict(below)
    for key, value in above.items():
        inner = found.get(key)
        found[key] = _merged(inner, value) if isinstance(inner, dict) and isinstance(value, dict) else value
    return found


@dataclass(frozen=True)
class PluginSettings:
    """What the user set of a plugin in the Fuel UI: ``values`` by attribute (a password among them), and ``metadata``,
    which holds the plugin's constants beside Nailgun's own."""

    enabled: bool
    values: Mapping[str, Json] = field(repr=False)
    metadata: Mapping[str, Json] = field(repr=False)


@dataclass(frozen=True)
class PluginLink:
    """A link on an environment's dashboard in the Fuel UI; ``number`` is None for one that is to be made."""

    title: str
    url: str
    description: str = ""
    number: int | None = None
