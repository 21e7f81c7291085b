"""ConfigDB brought in step with the registry, one environment at a time, in the same order every time.

The destination's component is made, then attached to the environment, then each definition is put into it: at every
moment each definition is in the environment, so either state is right for every reader. All of it
can be done again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from configdb_sync import failpoints
from configdb_sync.configdb import changes
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.model import Component, DocumentAddress
from configdb_sync.errors import UnsupportedError
from configdb_sync.names import RECORDS, component_name, records_component
from configdb_sync.store import schema
from configdb_sync.tenants import owning

HOLDINGS, RESOURCES, TENANTS = schema.HOLDINGS, schema.RESOURCES, schema.TENANTS


@dataclass(frozen=True)
class Wanted:
    """What the registry says of an environment: its home, and each tenant's definition ids with their names."""

    environment: int
    home: str | None
    definitions: Mapping[str, Mapping[int, str]]


def wanted(connection: Connection, environment: int) -> Wanted:
    """Return what the registry says of an environment."""
    rows = connection.execute(
        sa.select(TENANTS.c.id, RESOURCES.c.definition, RESOURCES.c.name)
        .join(HOLDINGS, HOLDINGS.c.tenant == TENANTS.c.number)
        .join(RESOURCES, RESOURCES.c.holding == HOLDINGS.c.number)
        .where(RESOURCES.c.environment == environment, RESOURCES.c.definition.is_not(None))
        .order_by(TENANTS.c.id, RESOURCES.c.definition)
    )
    found: dict[str, dict[int, str]] = {}
    for tenant, definition, name in rows:
        found.setdefault(tenant, {})[definition] = name
    home = owning.home_of(connection, environment)
    return Wanted(environment, None if home is None else home.id, found)


def align(client: ConfigDBClient, told: Wanted) -> list[str]:
    """Put each definition into its owner's component, and the home into our records; return what was done.

    Raises ``ConfigDBError`` as the client; what was done until then stays and is right.
    """
    environment = client.environment(told.environment)
    if environment is None:
        return []
    components = client.components()
    place = {definition.id: one for one in components for definition in one.definitions}
    done: list[str] = []
    for tenant, definitions in told.definitions.items():
        name = component_name(tenant, told.environment)
        astray = [number for number in definitions if number in place and place[number].name != name]
        if not astray:
            continue
        component = next((one for one in components if one.name == name), None)
        if component is None:
            component = client.create_component(name, [])
            done.append(f"made component {name!r}")
        failpoints.here("component-made")
        if component.id not in environment.components:
            environment = client.attach_component(environment, component.id)
            done.append(f"attached component {name!r} to environment {told.environment}")
        failpoints.here("component-attached")
        for number in astray:
            client.move_definition(number, component.id)
            done.append(f"moved definition {number} ({definitions[number]}) to component {name!r}")
            failpoints.here("definition-moved")
    return done + _tell_home(client, told, components)


def _tell_home(client: ConfigDBClient, told: Wanted, components: list[Component]) -> list[str]:
    """Keep the home tenant in our own records too, so that it holds on a new master."""
    ours = next((one for one in components if one.name == records_component(told.environment)), None)
    records = next((one for one in ours.definitions if one.name == RECORDS), None) if ours is not None else None
    if records is None or told.home is None:
        return []
    home = told.home
    spot = DocumentAddress(told.environment, (), RECORDS, records.id, innermost=False)
    change = changes.rewrite(client, spot, lambda document: {**document, "tenant": home})
    return [f"noted home tenant {home!r} of environment {told.environment}"] if change.leaves else []


def purge(client: ConfigDBClient, environment: int, body: Mapping[str, Any]) -> list[str]:
    """Delete the definitions of a purged tenant and its component, if that is empty then; return what was done.

    An id is only believed while it has the name that the registry held and lies where our definitions do: servers may
    give an id anew.
    """
    name = component_name(body["tenant"], environment)
    place = {definition.id: (one, definition) for one in client.components() for definition in one.definitions}
    done = []
    for number, source in body["definitions"]:
        component, definition = place.get(number, (None, None))
        if component is None or definition is None:
            continue
        if definition.name != source or not _ours(component.name, name, environment):
            done.append(
                f"left definition {number} alone: it is {definition.name!r} in component {component.name!r} now"
            )
            continue
        client.delete_definition(number)
        done.append(f"deleted definition {number} ({source})")
        failpoints.here("definition-deleted")
    return done + _delete_emptied(client, name)


def _delete_emptied(client: ConfigDBClient, name: str) -> list[str]:
    """Delete the component that the purge has emptied; whoever puts something into it at once keeps it."""
    found = next((one for one in client.components() if one.name == name and not one.definitions), None)
    if found is None:
        return []
    try:
        return [f"deleted component {name!r}"] if client.delete_empty_component(found.id) else []
    except UnsupportedError as error:
        return [f"left component {name!r}, empty: {error}"]


def _ours(component: str, name: str, environment: int) -> bool:
    # A move of it just before may not have been followed yet: then it is in the former owner's component.
    return component == name or component.endswith(f"/{environment}") or "~" in component
