"""Brings ConfigDB in step with the registry, one environment at a time, always in the same order.

The owner's component is created, then attached to the environment, then the definitions are moved into it: each
definition is in the environment at any time, so readers see a correct state before and after. All steps can be
repeated.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from configdb_sync import failpoints
from configdb_sync.configdb import changes
from configdb_sync.configdb.changes import existing
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.model import Component, DocumentAddress
from configdb_sync.errors import SettingsError, UnsupportedError
from configdb_sync.names import RECORDS, component_name, records_component
from configdb_sync.store import tenant_schema
from configdb_sync.tenants import ownership

HOLDINGS, RESOURCES, TENANTS = tenant_schema.HOLDINGS, tenant_schema.RESOURCES, tenant_schema.TENANTS


@dataclass(frozen=True)
class DesiredOwners:
    """The state of an environment in the registry: its home, and each tenant's definition IDs with their names."""

    environment: int
    home: str | None
    definitions: Mapping[str, Mapping[int, str]]


def desired_owners(connection: Connection, environment: int) -> DesiredOwners:
    """Return the state of an environment in the registry."""
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
    home = ownership.home_of(connection, environment)
    return DesiredOwners(environment, None if home is None else home.id, found)


def align(client: ConfigDBClient, desired: DesiredOwners) -> list[str]:
    """Move each definition into its owner's component, and record the home; return what was done.

    Raises ``ConfigDBError`` as the client; what was done until then stays and is correct.
    """
    environment = client.environment(desired.environment)
    if environment is None:
        return []
    components = client.components()
    place = {definition.id: one for one in components for definition in one.definitions}
    done: list[str] = []
    for tenant, definitions in desired.definitions.items():
        name = component_name(tenant, desired.environment)
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
            done.append(f"attached component {name!r} to environment {desired.environment}")
        failpoints.here("component-attached")
        for number in astray:
            client.move_definition(number, component.id)
            done.append(f"moved definition {number} ({definitions[number]}) to component {name!r}")
            failpoints.here("definition-moved")
    return done + _record_home(client, desired, components)


def _record_home(client: ConfigDBClient, desired: DesiredOwners, components: list[Component]) -> list[str]:
    """Record the home tenant in ConfigDB, too, so that a new master knows it."""
    ours = next((one for one in components if one.name == records_component(desired.environment)), None)
    records = next((one for one in ours.definitions if one.name == RECORDS), None) if ours is not None else None
    if records is None or desired.home is None:
        return []
    home = desired.home
    spot = DocumentAddress(desired.environment, (), RECORDS, records.id, innermost=False)
    change = changes.rewrite(client, spot, lambda document: {**document, "tenant": home})
    return [f"noted home tenant {home!r} of environment {desired.environment}"] if change.leaves else []


def purge(client: ConfigDBClient, environment: int, body: Mapping[str, Any]) -> list[str]:
    """Delete the definitions of a purged tenant and its component, if that is empty then; return what was done.

    A definition is deleted only if its ID has the name that the registry stored and it is in a component like ours:
    servers may reuse an ID.
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
    """Delete the component that the purge emptied, unless something was put into it meanwhile."""
    found = next((one for one in client.components() if one.name == name and not one.definitions), None)
    if found is None:
        return []
    try:
        return [f"deleted component {name!r}"] if client.delete_empty_component(found.id) else []
    except UnsupportedError as error:
        return [f"left component {name!r}, empty: {error}"]


def _ours(component: str, name: str, environment: int) -> bool:
    # ConfigDB may not have followed a recent move yet: then it is in the former owner's component.
    return component == name or component.endswith(f"/{environment}") or "~" in component


@dataclass(frozen=True)
class AdoptableDefinition:
    """A definition that can be adopted, and its component."""

    definition: int
    name: str
    component: str


def adoptable(client: ConfigDBClient, environment: int, owned: Collection[str]) -> list[AdoptableDefinition]:
    """Return the environment's definitions that nobody owns, such as an older plugin's, without our own records.

    Raises ``MissingError`` if ConfigDB doesn't have the environment, ``SettingsError`` for a definition that other
    environments share: in a component of one tenant and environment the others would lose it.
    """
    found = existing(client, environment)
    users: dict[int, list[int]] = {}
    for other in client.environments():
        for number in other.components:
            users.setdefault(number, []).append(other.id)
    free: list[AdoptableDefinition] = []
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
        free += [AdoptableDefinition(one.id, one.name, component.name) for one in named]
    return free
