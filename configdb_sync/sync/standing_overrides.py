"""Standing overrides: they hold for every node of an environment, also for nodes that come later.

ConfigDB has no level that beats a node's own values. So such an override is written at each node's level, and the
environment's records say that runs must write it for new nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from configdb_sync.addresses import Addresses, Seen
from configdb_sync.addresses import from_records as noted_levels
from configdb_sync.configdb import changes, edits
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.edits import KeyPath
from configdb_sync.configdb.model import OVERRIDES, DocumentAddress
from configdb_sync.errors import MissingError, SettingsError
from configdb_sync.jsonvalues import Document, Json, same
from configdb_sync.names import RECORDS
from configdb_sync.setting_values import Levels

_ORDERS = "orders"


@dataclass(frozen=True)
class StandingOverride:
    """What is to be set at ``path`` of a data source on every node that has no override there."""

    data_source: str
    path: KeyPath
    value: Json = field(repr=False)


def from_records(document: Document) -> tuple[StandingOverride, ...]:
    """Return the standing overrides in an environment's root records; what others wrote there is left out."""
    found = document.get(_ORDERS)
    return tuple(
        StandingOverride(one["data_source"], tuple(one["path"]), one["value"])
        for one in (found if isinstance(found, list) else [])
        if isinstance(one, dict)
        and isinstance(one.get("data_source"), str)
        and isinstance(one.get("path"), list)
        and one["path"]
        and all(isinstance(key, str) for key in one["path"])
        and "value" in one
    )


def to_records(document: Document, orders: Iterable[StandingOverride]) -> dict[str, Json]:
    """Return the root records with these standing overrides in place of those that they hold."""
    kept = {key: value for key, value in document.items() if key != _ORDERS}
    listed = [{"data_source": one.data_source, "path": list(one.path), "value": one.value} for one in orders]
    return {**kept, _ORDERS: listed} if listed else kept


def standing_values(
    orders: Sequence[StandingOverride], data_source: str, overrides: Document, beneath: Document
) -> dict[str, Json]:
    """Return the overrides that they add on one node, by top-level key; pure.

    ``beneath`` is the effective data that the node would have without them. A key that has an override already is
    the node's exception. Raises ``edits.NoSuchKeyError`` where a value is in the way of one.
    """
    added: dict[str, Json] = {}
    for order in orders:
        if order.data_source == data_source and order.path[0] not in overrides:
            added = edits.put(added, beneath, order.path, order.value)
    return added


def root_records(client: ConfigDBClient, environment: int) -> Document:
    """Return the product's own records of a whole environment, ``{}`` where there are none."""
    found = client.environment(environment)
    records = None if found is None else client.definitions(found).get(RECORDS)
    return {} if records is None else client.values(environment, (), records.id)


def addresses_of(client: ConfigDBClient, environment: int, levels: Levels) -> Addresses:
    """Return the places of an environment's nodes: by what runs noted in ConfigDB, else by the settings' levels."""
    return Addresses(environment, noted_levels(root_records(client, environment)) or levels)


@dataclass
class NodesOutcome:
    """The nodes that ConfigDB knows, by the value of their level: changed; left, because they have an override of their
    own (or one changed since); and those whose whole place only a run knows (``addresses``)."""

    done: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    untold: list[str] = field(default_factory=list)


def set_for_all_nodes(
    client: ConfigDBClient, addresses: Addresses, seen: Seen, order: StandingOverride
) -> NodesOutcome:
    """Note a standing override and write it for the nodes that ConfigDB knows; the next run does so for the others.

    Raises ``SettingsError`` if the environment has no place for it.
    """
    environment, data_source, path = addresses.environment, order.data_source, order.path

    def added(orders: Sequence[StandingOverride]) -> list[StandingOverride]:
        return [one for one in orders if (one.data_source, one.path) != (data_source, path)] + [order]

    _change_orders(client, environment, added)
    outcome = NodesOutcome()
    for node, place, overrides in node_overrides(client, addresses, seen, data_source, outcome):
        if path[0] in overrides:
            (outcome.done if holds(overrides, order) else outcome.kept).append(node)
        else:
            changes.override(client, place, path, order.value)
            outcome.done.append(node)
    return outcome


def end_for_all_nodes(
    client: ConfigDBClient, addresses: Addresses, seen: Seen, data_source: str, path: KeyPath
) -> NodesOutcome:
    """End a standing override and remove its overrides where they are unchanged.

    Raises ``SettingsError`` if there is none.
    """
    environment = addresses.environment
    ended: list[StandingOverride] = []

    def without(orders: Sequence[StandingOverride]) -> list[StandingOverride]:
        ended[:] = [_found(orders, data_source, path)]
        return [one for one in orders if one not in ended]

    _change_orders(client, environment, without)
    outcome = NodesOutcome()
    for node, place, overrides in node_overrides(client, addresses, seen, data_source, outcome):
        if path[0] not in overrides:
            continue
        if holds(overrides, ended[0]):
            changes.free(client, place, path)
            outcome.done.append(node)
        else:
            outcome.kept.append(node)
    return outcome


def find(client: ConfigDBClient, environment: int, data_source: str, path: KeyPath) -> StandingOverride:
    """Return the standing override of a key. Raises ``SettingsError`` if there is none."""
    return _found(from_records(root_records(client, environment)), data_source, path)


def _found(orders: Sequence[StandingOverride], data_source: str, path: KeyPath) -> StandingOverride:
    for one in orders:
        if (one.data_source, one.path) == (data_source, path):
            return one
    shown = ", ".join(f"{one.data_source}: {edits.shown_key(one.path)}" for one in orders)
    raise SettingsError(
        f"there is no standing override for {edits.shown_key(path)} of {data_source}",
        way_out=f"there are: {shown or 'none'}",
    )


def holds(overrides: Document, order: StandingOverride) -> bool:
    """Tell whether a node's overrides have what a standing override sets. Pure."""
    return edits.has(overrides, order.path) and same(edits.get(overrides, order.path), order.value)


def _change_orders(
    client: ConfigDBClient, environment: int, make: Callable[[Sequence[StandingOverride]], Sequence[StandingOverride]]
) -> None:
    try:
        place = changes.find(client, environment, (), RECORDS)
    except MissingError as error:
        raise SettingsError(
            f"environment {environment} has no place for standing overrides in ConfigDB",
            way_out="the first `configdb-sync sync` creates it (on tuning-box 0.1.0 only with the environment itself)",
        ) from error
    changes.rewrite(client, place, lambda document: to_records(document, make(from_records(document))))


def node_overrides(
    client: ConfigDBClient, addresses: Addresses, seen: Seen, data_source: str, outcome: NodesOutcome
) -> Iterator[tuple[str, DocumentAddress, Document]]:
    """Yield the nodes that ConfigDB knows, with their place and overrides; nodes of unknown place go to ``outcome``."""
    environment = addresses.environment
    root = changes.find(client, environment, (), data_source)
    found = client.environment(environment)
    if found is None or addresses.node_level not in found.levels:
        return
    values = client.level_values(environment, addresses.node_level)
    paths = addresses.paths(values, seen)
    for value in values:
        if value not in paths:
            outcome.untold.append(value)
            continue
        place = DocumentAddress(environment, paths[value], data_source, root.definition, innermost=True)
        yield value, place, changes.read(client, place, OVERRIDES)
