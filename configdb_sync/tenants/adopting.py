"""What may be adopted: definitions of an environment that nobody owns, such as an older plugin's."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from configdb_sync.configdb.changes import existing
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.errors import SettingsError
from configdb_sync.names import RECORDS, records_component


@dataclass(frozen=True)
class Found:
    """A definition that may be adopted, and the component that it lies in."""

    definition: int
    name: str
    component: str


def adoptable(client: ConfigDBClient, environment: int, owned: Collection[str]) -> list[Found]:
    """Return the environment's definitions that nobody owns, our own records left out.

    Raises ``MissingError`` if the environment isn't in ConfigDB, ``SettingsError`` for one that other environments
    share: in a component of one tenant and environment it would be gone from the others.
    """
    found = existing(client, environment)
    users: dict[int, list[int]] = {}
    for other in client.environments():
        for number in other.components:
            users.setdefault(number, []).append(other.id)
    free: list[Found] = []
    for component in client.components():
        if component.id not in found.components:
            continue
        named = [one for one in component.definitions if one.name not in owned]
        if component.name == records_component(environment):
            named = [one for one in named if one.name != RECORDS]
        others = [number for number in users[component.id] if number != environment]
        if named and others:
            raise SettingsError(
                f"component {component.name!r} is shared by the environments {[environment, *others]}: its data"
                " sources can't become one tenant's",
                way_out="give each environment a component of its own first",
            )
        free += [Found(one.id, one.name, component.name) for one in named]
    return free
