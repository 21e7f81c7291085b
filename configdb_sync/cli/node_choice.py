"""Which nodes a command works on: those that the user names, by whatever name Fuel has for them, or by their role."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from configdb_sync.addresses import names_in
from configdb_sync.cli.output import show_note
from configdb_sync.configdb import changes
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.model import ServerKind
from configdb_sync.errors import SettingsError
from configdb_sync.names import LevelPath, did_you_mean, natural_key
from configdb_sync.overrides.checks import check_nodes
from configdb_sync.queries.node_labels import NodeLabels, read_labels

if TYPE_CHECKING:
    from configdb_sync.addresses import Addresses, Seen
    from configdb_sync.cli.command_session import Session


@dataclass(frozen=True)
class NamedNodes:
    """The nodes of an environment that ConfigDB knows, as people name them. Its methods raise ``ConfigDBError``."""

    session: Session
    client: ConfigDBClient
    environment: int

    @functools.cached_property
    def _addresses(self) -> Addresses:
        return self.session.addresses(self.client, self.environment)

    @functools.cached_property
    def _seen(self) -> Seen:
        return self.session.seen(self.environment)

    @functools.cached_property
    def paths(self) -> dict[str, LevelPath]:
        """The place of each node, by the value of its level, in the order of nodes."""
        known = self.client.level_values(self.environment, self._addresses.node_level)
        return self._addresses.paths(sorted(known, key=natural_key), self._seen)

    @functools.cached_property
    def _labels(self) -> Mapping[str, NodeLabels]:
        return dict(read_labels(self.client, changes.existing(self.client, self.environment), self.paths))

    def path(self, name: str) -> LevelPath:
        """Return the place of a node by its ID, FQDN, host name, name in the Fuel UI, or its level's value.

        ConfigDB need not know it. Raises ``SettingsError`` for a name that identifies no node, or several.
        """
        try:
            return self._addresses.named(((self._addresses.node_level, name),), lambda: self._seen)
        except SettingsError:
            found = [node for node, labels in self._labels.items() if labels.name == name]
            if not found:
                raise
        if len(found) > 1:
            from configdb_sync.sync.render.wording import shortened

            raise SettingsError(f"nodes {shortened(found)} are all named {name!r}", way_out="give their IDs")
        return self.paths[found[0]]

    def known(self, name: str) -> tuple[str, LevelPath]:
        """Return a node that ConfigDB knows, by the same names: the value of its level, and its place.

        Raises ``SettingsError`` with close matches.
        """
        try:
            path = self.path(name)
        except SettingsError:
            path = ()
        value = path[-1][1] if path else name
        if value not in self.paths:
            check_nodes([name], [*self.paths, *names_in(self._seen)], may_be_new=False)
            raise SettingsError(
                f"ConfigDB has no settings of node {name!r}",
                way_out=f"`configdb-sync sync --env {self.environment} --from ...` uploads them",
            )
        return value, self.paths[value]

    def with_role(self, role: str) -> list[LevelPath]:
        """Return the places of the nodes that have a role, and say which they are. Raises ``SettingsError`` if none."""
        found = sorted((node for node, labels in self._labels.items() if role in labels.roles), key=natural_key)
        if not found:
            roles = sorted({role for labels in self._labels.values() for role in labels.roles})
            hint = did_you_mean(role, roles).strip() or f"roles there: {', '.join(roles) or 'none'}"
            raise SettingsError(f"no node of environment {self.environment} has the role {role!r}", way_out=hint)
        show_note(f"Nodes with the role {role}: {', '.join(found)}.")
        return [self.paths[node] for node in found]


def named_nodes(
    session: Session, client: ConfigDBClient, environment: int, names: Sequence[str]
) -> dict[str, LevelPath]:
    """Return the places of the nodes that ConfigDB knows, by the value of their level; only the named ones, if any.

    Raises ``SettingsError`` with close matches for a name that is no node's.
    """
    nodes = NamedNodes(session, client, environment)
    return dict(map(nodes.known, names)) if names else nodes.paths


def chosen_places(
    session: Session, client: ConfigDBClient, environment: int, names: Sequence[str], roles: Sequence[str]
) -> list[LevelPath]:
    """Return the places of nodes named and of those that have a role, each once. Raises as ``NamedNodes``."""
    nodes = NamedNodes(session, client, environment)
    found = [*map(nodes.path, names), *(path for role in roles for path in nodes.with_role(role))]
    return list(dict.fromkeys(found))


def all_places(session: Session, client: ConfigDBClient, environment: int) -> list[LevelPath]:
    """Return the root and the places of all nodes that ConfigDB or runs know, with the levels over them.

    Raises ``ConfigDBError``.
    """
    addresses, seen = session.addresses(client, environment), session.seen(environment)
    values = {value for node in seen for value in addresses.values_of(node, seen)}
    known = changes.existing(client, environment)
    if client.server() is not ServerKind.LEGACY and addresses.node_level in known.levels:
        values.update(client.level_values(environment, addresses.node_level))
    paths = addresses.paths(values, seen)
    nodes = [paths[value] for value in sorted(paths, key=natural_key)]
    return [(), *dict.fromkeys(path[:depth] for path in nodes for depth in range(1, len(path) + 1))]
