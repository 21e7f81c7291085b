"""Before an override is made: where Puppet reads its key, and whether it can be meant so (U25)."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import click

from configdb_sync.cli.command_session import Session
from configdb_sync.cli.queries import settings_below
from configdb_sync.cli.values import Allowed
from configdb_sync.configdb import changes, edits
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.edits import KeyPath
from configdb_sync.configdb.model import DocumentAddress
from configdb_sync.errors import ProductError, SettingsError, UnsupportedError
from configdb_sync.hiera.lookup import Layer
from configdb_sync.jsonvalues import Json
from configdb_sync.names import LevelPath
from configdb_sync.overrides import checks
from configdb_sync.queries.node_settings import NodeSettings

_SHOWN = 12


@dataclass(frozen=True)
class NodesBelow:
    """The nodes at and below a level: what an override there covers, and what hides it. They are read once, on first
    use; the errors of the client are raised then."""

    session: Session
    client: ConfigDBClient
    environment: int
    levels: LevelPath
    allowed: Allowed

    @functools.cached_property
    def _settings(self) -> list[NodeSettings]:
        addresses = self.session.addresses(self.client, self.environment)
        if not self.allowed.new_node and self.levels and self.levels[-1][0] == addresses.node_level:
            known = self.client.level_values(self.environment, addresses.node_level)
            checks.check_nodes([self.levels[-1][1]], known)
        return settings_below(self.session, self.client, self.environment, self.levels)

    @property
    def _read_by_puppet(self) -> dict[str, tuple[Layer, ...]]:
        return {one.node: one.layers for one in self._settings}

    def source_of(self, path: KeyPath) -> str:
        """Return the data source that Puppet reads a key from. Raises ``SettingsError``."""
        nodes = self._read_by_puppet
        found = checks.source_of(nodes, path)
        if found is None:
            close = checks.close_keys([layer.document for layers in nodes.values() for layer in layers], path)
            hint = f"did you mean {' or '.join(close)}? Otherwise name" if close else "name"
            raise SettingsError(
                f"no node of that level has the key {edits.shown_key(path)}",
                way_out=f"{hint} the data source of a new key with --data-source",
            )
        click.echo(f"Puppet reads {edits.shown_key(path)} from {found}.", err=True)
        return found

    def check(self, data_source: str, path: KeyPath, value: Json) -> list[str]:
        """Return what the author must know: which data source hides the override, on which nodes.

        Raises ``SettingsError`` for a node that no run has seen, a key that no node of the level has, and a value of
        another type than those that it covers, unless ``allowed`` says that it is meant. tuning-box 0.1.0 can't list
        its nodes: there nothing is checked.
        """
        try:
            everything = {one.node: one.everything for one in self._settings}
        except UnsupportedError:
            return []
        if everything and not self.allowed.new_key:
            checks.check_key(everything, data_source, path)
        if not self.allowed.change_type:
            documents = [
                layer.document for layers in everything.values() for layer in layers if layer.name == data_source
            ]
            covered = [edits.get(document, path) for document in documents if edits.has(document, path)]
            checks.check_type(covered, value, path)
        return _hidden(self._read_by_puppet, data_source, path)


def explained(error: SettingsError, client: ConfigDBClient, place: DocumentAddress) -> ProductError:
    """Return the error of a key that is not at a place, with the place; or that the place's node does not exist."""
    try:
        if place.innermost and place.levels:
            level, value = place.levels[-1]
            checks.check_nodes([value], client.level_values(place.env, level), may_be_new=False)
    except UnsupportedError:
        pass  # tuning-box 0.1.0 can't list its nodes.
    except SettingsError as no_node:
        return no_node
    return changes.located(error, place)


def _hidden(nodes: dict[str, tuple[Layer, ...]], data_source: str, path: KeyPath) -> list[str]:
    key, found = edits.shown_key(path), []
    for one in checks.hidings(nodes, data_source, path):
        which = f"{'node' if len(one.nodes) == 1 else 'nodes'} {', '.join(one.nodes[:_SHOWN])}"
        if one.how is checks.Hidden.WHOLLY:
            found.append(f"Note: it has no effect on {which}: Puppet reads {key} from {one.data_source} there.")
        else:
            found.append(
                f"Note: on {which} only lookups that merge mappings read it: {one.data_source} has {path[0]}, too."
            )
    return found
