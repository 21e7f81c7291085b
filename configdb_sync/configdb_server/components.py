"""Components and resource definitions (a definition is a data source; a component groups them)."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, delete, insert, select, update
from sqlalchemy.exc import IntegrityError
from werkzeug.wrappers import Response

from configdb_sync.configdb_server import schema
from configdb_sync.configdb_server.answers import json_answer, listing, no_content
from configdb_sync.configdb_server.call import Call
from configdb_sync.configdb_server.contents import sweep_all
from configdb_sync.configdb_server.definitions import (
    definition_of,
    definition_rows,
    delete_row,
    new_definition,
    no_definition,
)
from configdb_sync.configdb_server.fields import id_of, list_of, name_of, object_of, required
from configdb_sync.configdb_server.locks import change_catalog
from configdb_sync.configdb_server.paths import is_id
from configdb_sync.configdb_server.refusals import RefusalError, refuse, shown
from configdb_sync.jsonvalues import Json

_COMPONENTS = schema.components
_DEFINITIONS = schema.resource_definitions


def list_components(call: Call) -> Response:
    """GET /components: all, by id, with their definitions."""
    return listing(call.read(lambda connection: _components(connection, None)), call.conditions())


def create_component(call: Call) -> Response:
    """POST /components: a component and its definitions; 409 for a name that is taken."""
    fields = object_of(call.body(), "a component")
    name = name_of(required(fields, "name", "a component"), "a component's name", numeric=True)
    made = [new_definition(item) for item in list_of(fields.get("resource_definitions", []), "resource_definitions")]
    _refuse_twice(definition["name"] for definition in made)

    def work(connection: Connection) -> Json:
        found = connection.execute(insert(_COMPONENTS).values(name=name).returning(_COMPONENTS.c.id)).scalar_one()
        for definition in made:
            connection.execute(insert(_DEFINITIONS).values(component_id=found, **definition))
        return _components(connection, found)[0]

    try:
        return json_answer(change_catalog(call.database, work), 201)
    except IntegrityError:
        raise refuse(409, f"there is a component {shown(name)} already") from None


def show_component(call: Call, component: int) -> Response:
    """GET /components/{id}."""
    found = call.read(lambda connection: _components(connection, component))
    if not found:
        raise _no_component(component)
    return json_answer(found[0])


def change_component(call: Call, component: int) -> Response:
    """PATCH or PUT /components/{id}: its name, and the set of its definitions by id.

    Definitions of other components move here with their values; those left out are deleted with theirs.
    """
    with call.missing_first(lambda connection: _check(connection, component)):
        fields = object_of(call.body(), "a component")
        name = name_of(fields["name"], "a component's name", numeric=True) if "name" in fields else None
        wanted = _definition_ids(fields.get("resource_definitions"))

    def work(connection: Connection) -> None:
        _check(connection, component)
        if name is not None:
            connection.execute(update(_COMPONENTS).where(_COMPONENTS.c.id == component).values(name=name))
        if wanted is not None:
            _replace_definitions(connection, component, wanted)

    try:
        change_catalog(call.database, work)
    except IntegrityError:
        raise refuse(409, f"the name {shown(name)} is taken, or two of the definitions share a name") from None
    if wanted is not None:
        sweep_all(call.database)
    return no_content()


def delete_component(call: Call, component: int) -> Response:
    """DELETE /components/{id}: with its definitions and their values, in all environments."""
    return delete_row(call, _COMPONENTS, component, _no_component(component))


def delete_empty_component(call: Call, component: int) -> Response:
    """DELETE /components/{id}/empty: if it has no definitions; 409 if it has any, so that none ever goes with it."""

    def work(connection: Connection) -> None:
        _check(connection, component)
        held = select(_DEFINITIONS.c.id).where(_DEFINITIONS.c.component_id == component).limit(1)
        if connection.execute(held).first() is not None:
            raise refuse(409, f"component {component} has resource definitions")
        connection.execute(delete(_COMPONENTS).where(_COMPONENTS.c.id == component))

    change_catalog(call.database, work)
    return no_content()


def _replace_definitions(connection: Connection, component: int, wanted: list[int]) -> None:
    present = set(connection.execute(select(_DEFINITIONS.c.id).where(_DEFINITIONS.c.id.in_(wanted))).scalars())
    for definition in wanted:
        if definition not in present:
            raise no_definition(definition)
    connection.execute(
        delete(_DEFINITIONS).where(_DEFINITIONS.c.component_id == component, _DEFINITIONS.c.id.not_in(wanted))
    )
    connection.execute(update(_DEFINITIONS).where(_DEFINITIONS.c.id.in_(wanted)).values(component_id=component))


def _components(connection: Connection, component: int | None) -> list[Json]:
    if component is not None and not is_id(component):
        return []
    statement = select(_COMPONENTS.c.id, _COMPONENTS.c.name).order_by(_COMPONENTS.c.id)
    definitions = definition_rows().where(_DEFINITIONS.c.component_id.is_not(None))
    if component is not None:
        statement = statement.where(_COMPONENTS.c.id == component)
        definitions = definitions.where(_DEFINITIONS.c.component_id == component)
    found = {
        row.id: {"id": row.id, "name": row.name, "resource_definitions": []} for row in connection.execute(statement)
    }
    for row in connection.execute(definitions):
        if row.component_id in found:
            found[row.component_id]["resource_definitions"].append(definition_of(row))
    return list(found.values())


def _refuse_twice(names: Iterable[str]) -> None:
    seen = set()
    for name in names:
        if name in seen:
            raise refuse(409, f"the resource definition {shown(name)} is given twice")
        seen.add(name)


def _no_component(component: int) -> RefusalError:
    return refuse(404, f"component {shown(component, 40)} not found")


def _check(connection: Connection, component: int) -> None:
    here = select(_COMPONENTS.c.id).where(_COMPONENTS.c.id == component)
    if not is_id(component) or connection.execute(here).first() is None:
        raise _no_component(component)


def _definition_ids(given: Json) -> list[int] | None:
    if given is None:
        return None
    return [
        id_of(required(object_of(item, "a resource definition"), "id", "a resource definition here"), "its id")
        for item in list_of(given, "resource_definitions")
    ]
