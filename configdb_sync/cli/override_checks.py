"""Before an override is made: where Puppet reads its key, and whether it can be meant so (U25)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import click

from configdb_sync.cli.queries import settings_below
from configdb_sync.cli.values import Allowed, ValueTarget, level_path
from configdb_sync.configdb import edits
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.edits import KeyPath
from configdb_sync.configdb.model import DocumentAddress
from configdb_sync.errors import ConfigDBError, SettingsError
from configdb_sync.hiera.lookup import Layer
from configdb_sync.jsonvalues import Json
from configdb_sync.overrides import checks

_SHOWN = 12


def read_by_puppet(target: ValueTarget, path: KeyPath) -> ValueTarget:
    """Return the target with the data source that Puppet reads a key from. Raises ``SettingsError``."""
    session, environment = target.session, target.environment
    with session.client() as client:
        levels = level_path(session, client, environment, target.levels)
        nodes = {one.node: one.layers for one in settings_below(session, client, environment, levels)}
    found = checks.source_of(nodes, path)
    if found is None:
        close = checks.close_keys([layer.document for layers in nodes.values() for layer in layers], path)
        hint = f"did you mean {' or '.join(close)}? Otherwise name" if close else "name"
        raise SettingsError(
            f"no node of that level has the key {edits.shown_key(path)}",
            way_out=f"{hint} the data source of a new key with --data-source",
        )
    click.echo(f"Puppet reads {edits.shown_key(path)} from {found}.", err=True)
    return replace(target, data_source=found)


def check_override(
    target: ValueTarget,
    client: ConfigDBClient,
    place: DocumentAddress,
    path: KeyPath,
    value: Json,
    *,
    allowed: Allowed,
) -> list[str]:
    """Return what the author must know: which data source hides the override, on which nodes.

    Raises ``SettingsError`` for a node that no run has seen, a key that no node of the level has, and a value of
    another type than the one that it covers, unless ``allowed`` says that it is meant. Where ConfigDB can't tell its
    nodes (tuning-box 0.1.0), nothing is checked.
    """
    try:
        _check_node(target, client, place, allowed)
        below = settings_below(target.session, client, target.environment, place.levels)
    except ConfigDBError:
        return []
    if below:
        everything = {one.node: one.everything for one in below}
        if not allowed.new_key:
            checks.check_key(everything, target.data_source, path)
        if not allowed.change_type:
            checks.check_type(_covered(everything.values(), target.data_source, path), value, path)
    return _hidden({one.node: one.layers for one in below}, target.data_source, path)


def _check_node(target: ValueTarget, client: ConfigDBClient, place: DocumentAddress, allowed: Allowed) -> None:
    if place.innermost and not allowed.new_node:
        name, value = place.levels[-1]
        checks.check_nodes([value], client.level_values(target.environment, name))


def _covered(nodes: Iterable[tuple[Layer, ...]], data_source: str, path: KeyPath) -> list[Json]:
    """Return what the nodes have for a key of a data source."""
    return [
        edits.get(layer.document, path)
        for layers in nodes
        for layer in layers
        if layer.name == data_source and edits.has(layer.document, path)
    ]


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
