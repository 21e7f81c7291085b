"""Before an override is made: where Puppet reads its key, and whether it can be meant so (U25)."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from configdb_sync.cli.command_session import Session
from configdb_sync.cli.output import show_note
from configdb_sync.cli.queries import settings_of
from configdb_sync.cli.targets import Allowed
from configdb_sync.configdb import changes, edits
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.edits import KeyPath
from configdb_sync.configdb.model import DocumentAddress
from configdb_sync.errors import ProductError, SettingsError, UnsupportedError
from configdb_sync.hiera.arrangement import NodeSettings
from configdb_sync.hiera.lookup import Layer
from configdb_sync.jsonvalues import Json
from configdb_sync.names import LevelPath, place_of
from configdb_sync.overrides import checks

_SHOWN = 12


@dataclass(frozen=True)
class NodesBelow:
    """The nodes at and below some places: what an override there covers, and what hides it. They are read once, on
    first use; the errors of the client are raised then."""

    session: Session
    client: ConfigDBClient
    environment: int
    places: Sequence[LevelPath]
    allowed: Allowed

    @functools.cached_property
    def _settings(self) -> list[NodeSettings]:
        addresses = self.session.addresses(self.client, self.environment)
        named = [levels[-1][1] for levels in self.places if levels and levels[-1][0] == addresses.node_level]
        if named and not self.allowed.new_node:
            checks.check_nodes(named, self.client.level_values(self.environment, addresses.node_level))
        own_levels = None if () in self.places else [levels[-1] for levels in self.places]
        return list(settings_of(self.session, self.client, self.environment, own_levels))

    def _below(self, levels: LevelPath) -> list[NodeSettings]:
        return [one for one in self._settings if one.levels[: len(levels)] == levels]

    def source_of(self, path: KeyPath) -> str:
        """Return the data source that Puppet reads a key from. Raises ``SettingsError``."""
        nodes = {one.node: one.layers for one in self._settings}
        found = checks.source_of(nodes, path)
        if found is None:
            close = checks.close_keys([layer.document for layers in nodes.values() for layer in layers], path)
            hint = f"did you mean {' or '.join(close)}? Otherwise name" if close else "name"
            raise SettingsError(
                f"no node of that level has the key {edits.shown_key(path)}",
                way_out=f"{hint} the data source of a new key with --data-source",
            )
        show_note(f"Puppet reads {edits.shown_key(path)} from {found}.")
        return found

    def check(self, data_source: str, path: KeyPath, value: Json) -> list[str]:
        """Return what the author of overrides of a key at all of the places must know: which data source hides them, on
        which nodes.

        Raises ``SettingsError`` for a node that no run has seen, a key that no node of a place has, and a value of
        another type than those that it covers, unless ``allowed`` says that it is meant. tuning-box 0.1.0 can't list
        its nodes: there nothing is checked.
        """
        try:
            for levels in self.places:
                self._check_at(levels, data_source, path, value, named=len(self.places) > 1)
            return _hidden({one.node: one.layers for one in self._settings}, data_source, path)
        except UnsupportedError:
            return []

    def check_change(self, place: DocumentAddress, path: KeyPath, value: Json, *, new_key: bool) -> list[str]:
        """As ``check``, of an override at one of the places, which errors name; ``new_key`` allows it a new key."""
        try:
            self._check_at(place.levels, place.data_source, path, value, named=True, new_key=new_key)
            return _hidden({one.node: one.layers for one in self._below(place.levels)}, place.data_source, path)
        except UnsupportedError:
            return []

    def _check_at(
        self, levels: LevelPath, data_source: str, path: KeyPath, value: Json, *, named: bool, new_key: bool = False
    ) -> None:
        below = {one.node: one.everything for one in self._below(levels)}
        try:
            self._check(below, data_source, path, value, new_key=new_key or self.allowed.new_key)
        except SettingsError as error:
            raise (replace(error, what=f"{place_of(levels)}: {error.what}") if named else error) from None

    def _check(
        self,
        everything: Mapping[str, Sequence[Layer]],
        data_source: str,
        path: KeyPath,
        value: Json,
        *,
        new_key: bool,
    ) -> None:
        if everything and not new_key:
            checks.check_key(everything, data_source, path)
        if not self.allowed.change_type:
            checks.check_type(checks.covered(everything, data_source, path), value, path)


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
