"""What Nailgun says, as values, and how they are read from its JSON. Pure.

Readers take hostile input: what isn't as it must be is a ``ValueError`` with a text that shows no content.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from configdb_sync.http.json_bodies import a_list, an_object, kind_of
from configdb_sync.jsonvalues import Json

MASTER = "master"
"""The identity of the Fuel Master: never a node of an environment, though Nailgun lists data for it."""

COMMON = "common"
"""What stands for all nodes where Nailgun tells deployment data in parts."""


@dataclass(frozen=True)
class NailgunVersion:
    """Which Nailgun this is (``9.0``), and whether it wants a token."""

    release: str
    auth_required: bool


@dataclass(frozen=True)
class Cluster:
    """An environment. ``customized``: someone uploaded data in place of what Nailgun computes for nodes."""

    id: int
    name: str
    status: str
    customized: bool = False


@dataclass(frozen=True)
class NailgunNode:
    """A node of an environment. ``id`` as text is its fact ``uid`` and its identity everywhere else."""

    id: int
    fqdn: str | None
    status: str
    online: bool
    pending_deletion: bool
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


_LONGEST = 255
_ID_LIMIT = 10**18
_UID = re.compile(r"[1-9][0-9]{0,17}")


def version(value: Json) -> NailgunVersion:
    """Return the version. A Nailgun that doesn't say whether it wants a token wants one."""
    found = an_object(value, "the version")
    required = found.get("auth_required", True)
    if not isinstance(required, bool):
        raise ValueError(f"auth_required is {kind_of(required)}, not a truth value")
    return NailgunVersion(_text(found, "release"), required)


def cluster(value: Json) -> Cluster:
    """Return an environment."""
    found = an_object(value, "an environment")
    customized = found.get("is_customized") is True
    return Cluster(_id(found, "id"), _text(found, "name"), _text(found, "status"), customized)


def nodes(value: Json, env: int) -> tuple[NailgunNode, ...]:
    """Return the nodes of environment ``env``, by id; one that says it is of another environment is no answer."""
    found: dict[int, NailgunNode] = {}
    for item in a_list(value, "the nodes"):
        owner = an_object(item, "a node").get("cluster")
        if owner != env or isinstance(owner, bool):
            raise ValueError(f"a node is not of environment {env}")
        node = _node(item)
        if node.id in found:
            raise ValueError(f"node {node.id} stands twice in it")
        found[node.id] = node
    return tuple(found[number] for number in sorted(found))


def _node(value: dict[str, Json]) -> NailgunNode:
    roles = a_list(value.get("roles", []), "a node's roles")
    if not all(isinstance(role, str) for role in roles):
        raise ValueError("a node's roles hold something else than names")
    return NailgunNode(
        id=_id(value, "id"),
        fqdn=_text(value, "fqdn") if value.get("fqdn") else None,
        status=_text(value, "status"),
        online=_flag(value, "online"),
        pending_deletion=_flag(value, "pending_deletion"),
        roles=tuple(roles),
    )


def plugin_settings(value: Json, plugin: str) -> PluginSettings | None:
    """Return a plugin's settings of an environment's attributes, of the version chosen; None if it has none."""
    editable = an_object(an_object(value, "the attributes").get("editable"), "editable")
    if plugin not in editable:
        return None
    general = an_object(an_object(editable[plugin], "the plugin's section").get("metadata"), "its metadata")
    versions = [an_object(one, "a version") for one in a_list(general.get("versions", []), "its versions")]
    chosen = [
        one
        for one in versions
        if an_object(one.get("metadata"), "a version's metadata").get("plugin_id") == general.get("chosen_id")
    ]
    section = chosen[0] if chosen else versions[0] if len(versions) == 1 else {}
    values = {
        name: attribute["value"]
        for name, attribute in section.items()
        if name != "metadata" and isinstance(attribute, dict) and "value" in attribute
    }
    return PluginSettings(general.get("enabled") is True, values, section.get("metadata", {}))


def links(value: Json) -> tuple[PluginLink, ...]:
    """Return the links of an environment; texts are as whoever made them wrote them."""
    found = []
    for item in a_list(value, "the links"):
        link = an_object(item, "a link")
        texts = {name: link.get(name) for name in ("title", "url", "description")}
        title, url, description = (text if isinstance(text, str) else "" for text in texts.values())
        found.append(PluginLink(title, url, description, _id(link, "id")))
    return tuple(found)


def notification(value: Json) -> int:
    """Return the number of a notification that was made."""
    return _id(an_object(value, "the notification"), "id")


def deployment(value: Json) -> DeploymentData:
    """Return the deployment data, the master's left out.

    A node stands once in it: this Nailgun merges its roles. Whether ``uid`` is the node's is for others to check.
    """
    common: dict[str, Json] = {}
    found: dict[str, Mapping[str, Json]] = {}
    for item in a_list(value, "the deployment data"):
        uid = an_object(item, "a node's deployment data").get("uid")
        identity = str(uid) if isinstance(uid, int) and not isinstance(uid, bool) else uid
        if identity == MASTER:
            continue
        if identity == COMMON:
            if common:
                raise ValueError("what is common to all nodes stands twice in it")
            common = {key: each for key, each in item.items() if key != "uid"}
            continue
        if not isinstance(identity, str) or not _UID.fullmatch(identity):
            raise ValueError("a node's deployment data has no uid that is a node's id")
        if identity in found:
            raise ValueError(f"node {identity} stands twice in it")
        found[identity] = item
    return DeploymentData(common, found)


def _flag(value: dict[str, Json], name: str) -> bool:
    found = value.get(name)
    if not isinstance(found, bool):
        raise ValueError(f"{name} is {kind_of(found)}, not a truth value")
    return found


def _id(value: dict[str, Json], name: str) -> int:
    found = value.get(name)
    if not isinstance(found, int) or isinstance(found, bool) or not 0 < found < _ID_LIMIT:
        raise ValueError(f"{name} is {kind_of(found)}, not an id")
    return found


def _text(value: dict[str, Json], name: str) -> str:
    found = value.get(name)
    if not isinstance(found, str) or not found or len(found) > _LONGEST or not found.isprintable():
        raise ValueError(f"{name} is {kind_of(found)}, not a name of 1 to {_LONGEST} printable characters")
    return found
