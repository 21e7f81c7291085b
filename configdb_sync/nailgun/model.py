"""What Nailgun says, as values (facts: REST)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from configdb_sync.jsonvalues import Json

MASTER = "master"
"""The identity of the Fuel Master: never a node of an environment, though Nailgun lists data for it."""


@dataclass(frozen=True)
class Version:
    """Which Nailgun this is (``9.0``), and whether it wants a token."""

    release: str
    auth_required: bool


@dataclass(frozen=True)
class Cluster:
    """An environment. ``fuel_version`` is that of the Nailgun which made it."""

    id: int
    name: str
    status: str
    fuel_version: str


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
