"""Standing orders: overrides that hold for every node of an environment, for those that come later too.

ConfigDB has no level that beats a node's own values, so such an override is written at each node's level, and the
order to do so is kept in the environment's records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from configdb_sync.configdb import changes, edits
from configdb_sync.configdb.change import OVERRIDES, Place
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.edits import KeyPath
from configdb_sync.configdb.model import LevelPath
from configdb_sync.errors import MissingError, SettingsError
from configdb_sync.jsonvalues import Document, Json, same
from configdb_sync.sync.naming import RECORDS

_ORDERS = "orders"


@dataclass(frozen=True)
class Order:
    """One standing order: what is to be set at ``path`` of a data source on every node that has no override there."""

    data_source: str
    path: KeyPath
    value: Json = field(repr=False)


def from_records(document: Document) -> tuple[Order, ...]:
    """Return the orders of an environment's root records; what isn't one (someone else wrote there) is left out."""
    found = document.get(_ORDERS)
    return tuple(
        Order(one["data_source"], tuple(one["path"]), one["value"])
        for one in (found if isinstance(found, list) else [])
        if isinstance(one, dict)
        and isinstance(one.get("data_source"), str)
        and isinstance(one.get("path"), list)
        and one["path"]
        and all(isinstance(key, str) for key in one["path"])
        and "value" in one
    )


def to_records(document: Document, orders: Iterable[Order]) -> dict[str, Json]:
    """Return the root records with these orders in place of those that they hold."""
    kept = {key: value for key, value in document.items() if key != _ORDERS}
    listed = [{"data_source": one.data_source, "path": list(one.path), "value": one.value} for one in orders]
    return {**kept, _ORDERS: listed} if listed else kept


def given(orders: Sequence[Order], data_source: str, overrides: Document, beneath: Document) -> dict[str, Json]:
    """Return the overrides that the orders add on one node, by top-level key; pure.

    ``beneath`` is the effective data that the node would have without them. A key that has an override already is
    the node's exception. Raises ``edits.NoSuchKeyError`` where a value is in an order's way.
    """
    added: dict[str, Json] = {}
    for order in orders:
        if order.data_source == data_source and order.path[0] not in overrides:
            added = edits.put(added, beneath, order.path, order.value)
    return added


def order_all(
    client: ConfigDBClient, environment: int, data_source: str, path: KeyPath, value: Json
) -> tuple[list[str], list[str]]:
    """Make a standing order and carry it out on the nodes that ConfigDB knows.

    Returns the identities of nodes that got it, and of those that have an override of that key already. Raises
    ``SettingsError`` if the environment can't keep orders.
    """
    order = Order(data_source, path, value)

    def added(orders: Sequence[Order]) -> list[Order]:
        return [one for one in orders if (one.data_source, one.path) != (data_source, path)] + [order]

    _change_orders(client, environment, added)
    got: list[str] = []
    kept: list[str] = []
    for node, place in _places(client, environment, data_source):
        overrides = changes.read(client, place, OVERRIDES)
        if path[0] in overrides:
            (got if _holds(overrides, order) else kept).append(node)
        else:
            changes.override(client, place, path, value)
            got.append(node)
    return got, kept


def end_order(client: ConfigDBClient, environment: int, data_source: str, path: KeyPath) -> tuple[list[str], list[str]]:
    """End a standing order and take its overrides back where they are unchanged.

    Returns the identities of nodes whose override went, and of those where it was changed since and stays. Raises
    ``SettingsError`` if there is no such order.
    """
    ended: list[Order] = []

    def without(orders: Sequence[Order]) -> list[Order]:
        ended[:] = [one for one in orders if (one.data_source, one.path) == (data_source, path)]
        if not ended:
            shown = ", ".join(f"{one.data_source}: {edits.shown_key(one.path)}" for one in orders)
            raise SettingsError(
                f"there is no standing order for {edits.shown_key(path)} of {data_source}",
                way_out=f"there are: {shown or 'none'}",
            )
        return [one for one in orders if one not in ended]

    _change_orders(client, environment, without)
    freed, kept = [], []
    for node, place in _places(client, environment, data_source):
        overrides = changes.read(client, place, OVERRIDES)
        if path[0] not in overrides:
            continue
        if _holds(overrides, ended[0]):
            changes.free(client, place, path)
            freed.append(node)
        else:
            kept.append(node)
    return freed, kept


def _holds(overrides: Document, order: Order) -> bool:
    return edits.has(overrides, order.path) and same(edits.get(overrides, order.path), order.value)


def _change_orders(
    client: ConfigDBClient, environment: int, make: Callable[[Sequence[Order]], Sequence[Order]]
) -> None:
    try:
        place = changes.find(client, environment, (), RECORDS)
    except MissingError as error:
        raise SettingsError(
            f"environment {environment} has no place for standing orders in ConfigDB",
            way_out="a first `configdb-sync sync` makes it (on tuning-box 0.1.0 only with the environment itself)",
        ) from error
    changes.rewrite(client, place, lambda document: to_records(document, make(from_records(document))))


def _places(client: ConfigDBClient, environment: int, data_source: str) -> Iterable[tuple[str, Place]]:
    """Yield the nodes that ConfigDB knows, with their place for a data source."""
    root = changes.find(client, environment, (), data_source)
    found = client.environment(environment)
    levels = () if found is None else found.levels
    if len(levels) != 1:
        return
    for node in client.level_values(environment, levels[0]):
        path: LevelPath = ((levels[0], node),)
        yield node, Place(environment, path, data_source, root.definition, innermost=True)
