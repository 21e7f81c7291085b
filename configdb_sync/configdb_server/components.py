"""Components and resource definitions: a definition is a data source, a component groups definitions.

Stored documents refer to the id of a definition.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, Select, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from configdb_sync.configdb_server import schema
from configdb_sync.configdb_server.contents import checked_text, sweep_all
from configdb_sync.configdb_server.document_paths import id_or_name, is_id, quoted
from configdb_sync.configdb_server.key_operations import checked_result, operate, read_paths
from configdb_sync.configdb_server.locks import change_catalog
from configdb_sync.configdb_server.messages import (
    ConfigDBRequest,
    id_of,
    list_of,
    listing,
    name_of,
    no_content,
    object_of,
    reachable,
    refuse_twice,
    required,
)
from configdb_sync.jsonvalues import Json, loads
from configdb_sync.web.refusals import RefusalError, refuse
from configdb_sync.web.responses import ApiResponse, json_response

_COMPONENTS = schema.components
_DEFINITIONS = schema.resource_definitions


def list_components(request: ConfigDBRequest) -> ApiResponse:
    """GET /components: all, by id, with their definitions."""
    return listing(request.read(lambda connection: _components(connection, None)), request.preconditions())


def create_component(request: ConfigDBRequest) -> ApiResponse:
    """POST /components: a component and its definitions; 409 for a name that is taken."""
    fields = object_of(request.body(), "a component")
    name = name_of(required(fields, "name", "a component"), "a component's name", numeric=True)
    made = [new_definition(item) for item in list_of(fields.get("resource_definitions", []), "resource_definitions")]
    refuse_twice([definition["name"] for definition in made], "resource definition")

    def work(connection: Connection) -> Json:
        found = connection.execute(insert(_COMPONENTS).values(name=name).returning(_COMPONENTS.c.id)).scalar_one()
        for definition in made:
            connection.execute(insert(_DEFINITIONS).values(component_id=found, **definition))
        return _components(connection, found)[0]

    try:
        return json_response(change_catalog(request.database, work), 201)
    except IntegrityError:
        raise refuse(409, f"there is a component {quoted(name)} already") from None


def show_component(request: ConfigDBRequest, component: int) -> ApiResponse:
    """GET /components/{id}."""
    found = request.read(lambda connection: _components(connection, component))
    if not found:
        raise _no_component(component)
    return json_response(found[0])


def change_component(request: ConfigDBRequest, component: int) -> ApiResponse:
    """PATCH or PUT /components/{id}: its name, and the set of its definitions by id.

    Definitions of other components move here with their values; those left out are deleted with theirs.
    """
    with request.missing_first(lambda connection: _check(connection, component)):
        fields = object_of(request.body(), "a component")
        name = name_of(fields["name"], "a component's name", numeric=True) if "name" in fields else None
        wanted = _definition_ids(fields.get("resource_definitions"))

    def work(connection: Connection) -> None:
        _check(connection, component)
        if name is not None:
            connection.execute(update(_COMPONENTS).where(_COMPONENTS.c.id == component).values(name=name))
        if wanted is not None:
            _replace_definitions(connection, component, wanted)

    try:
        change_catalog(request.database, work)
    except IntegrityError:
        raise refuse(409, f"the name {quoted(name)} is taken, or two of the definitions share a name") from None
    if wanted is not None:
        sweep_all(request.database)
    return no_content()


def delete_component(request: ConfigDBRequest, component: int) -> ApiResponse:
    """DELETE /components/{id}: with its definitions and their values, in all environments."""
    return delete_row(request, _COMPONENTS, component, _no_component(component))


def delete_empty_component(request: ConfigDBRequest, component: int) -> ApiResponse:
    """DELETE /components/{id}/empty: if it has no definitions; 409 if it has any, so that none ever goes with it."""

    def work(connection: Connection) -> None:
        _check(connection, component)
        held = select(_DEFINITIONS.c.id).where(_DEFINITIONS.c.component_id == component).limit(1)
        if connection.execute(held).first() is not None:
            raise refuse(409, f"component {component} has resource definitions")
        connection.execute(delete(_COMPONENTS).where(_COMPONENTS.c.id == component))

    change_catalog(request.database, work)
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


def _no_component(component: int) -> RefusalError:
    return refuse(404, f"component {quoted(component, 40)} not found")


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


def list_definitions(request: ConfigDBRequest) -> ApiResponse:
    """GET /resource_definitions: all by id; ``?component_id=N`` of one component, empty of none."""
    statement = definition_rows()
    given = request.args.get("component_id")
    if given is not None:
        column = _DEFINITIONS.c.component_id
        statement = statement.where(column == _number(given) if given else column.is_(None))
    rows = request.read(lambda connection: connection.execute(statement).all())
    return json_response([definition_of(row) for row in rows])


def create_definition(request: ConfigDBRequest) -> ApiResponse:
    """POST /resource_definitions: 409 for an unknown component or a name that it has already."""
    fields = object_of(request.body(), "a resource definition")
    definition = new_definition(fields)
    component = _component_id(fields.get("component_id"))

    def work(connection: Connection) -> Json:
        found = connection.execute(
            insert(_DEFINITIONS).values(component_id=component, **definition).returning(_DEFINITIONS.c.id)
        ).scalar_one()
        return _one_definition(connection, found)

    try:
        return json_response(change_catalog(request.database, work), 201)
    except IntegrityError:
        raise _definition_conflict(component, definition["name"]) from None


def show_definition(request: ConfigDBRequest, definition: int) -> ApiResponse:
    """GET /resource_definitions/{id}."""
    return json_response(request.read(lambda connection: _one_definition(connection, definition)))


def change_definition(request: ConfigDBRequest, definition: int) -> ApiResponse:
    """PATCH or PUT /resource_definitions/{id}: name, content, component. A move copies no value."""
    changes: dict[str, Any] = {}
    with request.missing_first(lambda connection: _one_definition(connection, definition)):
        fields = object_of(request.body(), "a resource definition")
        if "name" in fields:
            changes["name"] = definition_name(fields["name"])
        if "content" in fields:
            changes["content"] = checked_text(fields["content"])
        if "component_id" in fields:
            changes["component_id"] = _component_id(fields["component_id"])

    def work(connection: Connection) -> None:
        _one_definition(connection, definition)
        if changes:
            connection.execute(update(_DEFINITIONS).where(_DEFINITIONS.c.id == definition).values(**changes))

    try:
        change_catalog(request.database, work)
    except IntegrityError:
        raise _definition_conflict(changes.get("component_id"), changes.get("name")) from None
    return no_content()


def delete_definition(request: ConfigDBRequest, definition: int) -> ApiResponse:
    """DELETE /resource_definitions/{id}: with its values in all environments."""
    return delete_row(request, _DEFINITIONS, definition, no_definition(definition))


def definition_keys(request: ConfigDBRequest, definition: int, operation: str) -> ApiResponse:
    """PUT or PATCH /resource_definitions/{id}/keys/{operation}, on its content."""
    with request.missing_first(lambda connection: _one_definition(connection, definition)):
        paths = read_paths(request)

    def work(connection: Connection) -> Json:
        changed = operate(operation, _one_definition(connection, definition)["content"], paths)
        if operation != "get":
            checked = checked_result(changed, request.limits.body)
            connection.execute(update(_DEFINITIONS).where(_DEFINITIONS.c.id == definition).values(content=checked))
        return changed

    found = request.read(work) if operation == "get" else change_catalog(request.database, work)
    return json_response(found) if operation == "get" else no_content()


def definition_rows() -> Select[Any]:
    """Return the query for definitions by id."""
    columns = (_DEFINITIONS.c.id, _DEFINITIONS.c.name, _DEFINITIONS.c.component_id, _DEFINITIONS.c.content)
    return select(*columns).order_by(_DEFINITIONS.c.id)


def definition_of(row: Row[Any]) -> Json:
    """Return a definition as it is answered."""
    return {"id": row.id, "name": row.name, "component_id": row.component_id, "content": loads(row.content)}


def _one_definition(connection: Connection, definition: int) -> Json:
    rows = connection.execute(definition_rows().where(_DEFINITIONS.c.id == definition)) if is_id(definition) else ()
    for row in rows:
        return definition_of(row)
    raise no_definition(definition)


def new_definition(item: Json) -> dict[str, Any]:
    """Return the columns of a definition to be made. Raises ``RefusalError`` 422."""
    fields = object_of(item, "a resource definition")
    name = definition_name(required(fields, "name", "a resource definition"))
    return {"name": name, "content": checked_text(fields.get("content"))}


def definition_name(value: Json) -> str:
    """Return the name of a definition, which stands in URLs. Raises ``RefusalError`` 422."""
    name = name_of(value, "a resource definition's name", numeric=True)
    if not reachable(name):
        raise refuse(422, f"a resource definition can't be called {quoted(name)}: no URL could name it")
    return name


def _component_id(value: Json) -> int | None:
    return None if value is None else id_of(value, "component_id")


def _number(text: str) -> int:
    number = id_or_name(text)
    if isinstance(number, str):
        raise refuse(400, f"component_id must be a number, not {quoted(text)}")
    return number if is_id(number) else -1


def _definition_conflict(component: int | None, name: str | None) -> RefusalError:
    which = "the component" if component is None else f"component {component}"
    named = "of that name" if name is None else quoted(name)
    return refuse(409, f"{which} is not there, or has a resource definition {named} already")


def no_definition(definition: int) -> RefusalError:
    """Return the 404 of a definition."""
    return refuse(404, f"resource definition {quoted(definition, 40)} not found")


def delete_row(request: ConfigDBRequest, table: Any, number: int, missing: RefusalError) -> ApiResponse:
    """Delete one row, all that hangs on it, and the contents left over; raise ``missing`` if it is not there."""

    def work(connection: Connection) -> bool:
        return is_id(number) and connection.execute(delete(table).where(table.c.id == number)).rowcount == 1

    if not change_catalog(request.database, work):
        raise missing
    sweep_all(request.database)
    return no_content()
