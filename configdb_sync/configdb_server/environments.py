"""Environments: which components they list, and their hierarchy levels in merge order."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update

from configdb_sync.configdb_server import schema
from configdb_sync.configdb_server.contents import sweep_all, type_name
from configdb_sync.configdb_server.document_paths import MAX_ID, is_id, no_environment, quoted
from configdb_sync.configdb_server.locks import change_catalog, change_places
from configdb_sync.configdb_server.messages import (
    ConfigDBRequest,
    id_of,
    list_of,
    name_of,
    no_content,
    object_of,
    reachable,
    refuse_twice,
    required,
)
from configdb_sync.jsonvalues import Json
from configdb_sync.web.refusals import refuse
from configdb_sync.web.responses import ApiResponse, json_response

_ENVIRONMENTS = schema.environments
_LINKS = schema.environment_components
_LEVELS = schema.hierarchy_levels
_COMPONENTS = schema.components
_DOCUMENTS = schema.documents


def list_environments(request: ConfigDBRequest) -> ApiResponse:
    """GET /environments: all, by id."""
    return json_response(request.read(lambda connection: _environments(connection, None)))


def create_environment(request: ConfigDBRequest) -> ApiResponse:
    """POST /environments: components by id (number) or name (text), levels in merge order, an id or none."""
    fields = object_of(request.body(), "an environment")
    components = _references(required(fields, "components", "an environment"))
    with request.missing_first(lambda connection: _component_ids(connection, components)):
        levels = _level_names(required(fields, "hierarchy_levels", "an environment"))
        wanted = _environment_id(fields.get("id"))

    def work(connection: Connection) -> Json:
        found = _component_ids(connection, components)
        number = _free_id(connection) if wanted is None else wanted
        if _environments(connection, number):
            raise refuse(409, f"there is an environment {number} already")
        connection.execute(insert(_ENVIRONMENTS).values(id=number))
        _link(connection, number, found)
        for position, name in enumerate(levels):
            connection.execute(insert(_LEVELS).values(environment_id=number, name=name, position=position))
        return _environments(connection, number)[0]

    return json_response(change_catalog(request.database, work), 201)


def show_environment(request: ConfigDBRequest, environment: int) -> ApiResponse:
    """GET /environments/{id}."""
    found = request.read(lambda connection: _environments(connection, environment))
    if not found:
        raise no_environment(environment)
    return json_response(found[0])


def change_environment(request: ConfigDBRequest, environment: int) -> ApiResponse:
    """PATCH or PUT /environments/{id}: its components, its levels, or both.

    A component that is taken off hides its documents, and they are back with it. A level that is taken off
    takes its documents with it. Levels may be put in another order.
    """
    with request.missing_first(lambda connection: level_names(connection, environment)):
        fields = object_of(request.body(), "an environment")
        components = None if fields.get("components") is None else _references(fields["components"])
        levels = None if fields.get("hierarchy_levels") is None else _level_names(fields["hierarchy_levels"])

    def work(connection: Connection) -> None:
        level_names(connection, environment)
        if components is not None:
            found = _component_ids(connection, components)
            connection.execute(delete(_LINKS).where(_LINKS.c.environment_id == environment))
            _link(connection, environment, found)
        if levels is not None:
            _set_levels(connection, environment, levels)

    change_places(request.database, environment, work)
    if levels is not None:
        sweep_all(request.database)
    return no_content()


def delete_environment(request: ConfigDBRequest, environment: int) -> ApiResponse:
    """DELETE /environments/{id}: with its levels and documents."""

    def work(connection: Connection) -> bool:
        statement = delete(_ENVIRONMENTS).where(_ENVIRONMENTS.c.id == environment)
        return is_id(environment) and connection.execute(statement).rowcount == 1

    if not change_places(request.database, environment, work):
        raise no_environment(environment)
    sweep_all(request.database)
    return no_content()


def list_levels(request: ConfigDBRequest, environment: int) -> ApiResponse:
    """GET /environments/{id}/hierarchy_levels: in merge order, each with the values that have documents."""
    return json_response(request.read(lambda connection: _levels(connection, environment)))


def show_level(request: ConfigDBRequest, environment: int, level: int | str) -> ApiResponse:
    """GET /environments/{id}/hierarchy_levels/{id or name}."""
    found = request.read(lambda connection: _levels(connection, environment))
    return json_response(_pick(found, environment, level))


def change_level(request: ConfigDBRequest, environment: int, level: int | str) -> ApiResponse:
    """PATCH or PUT /environments/{id}/hierarchy_levels/{id or name}: its name, its documents with it."""
    with request.missing_first(lambda connection: _pick(_levels(connection, environment), environment, level)):
        fields = object_of(request.body(), "a hierarchy level")
        name = _level_name(fields["name"]) if "name" in fields else None

    def work(connection: Connection) -> None:
        found = _pick(_levels(connection, environment), environment, level)
        if name is None or name == found["name"]:
            return
        if name in level_names(connection, environment):
            raise refuse(409, f"environment {environment} has a hierarchy level {quoted(name)} already")
        connection.execute(update(_LEVELS).where(_LEVELS.c.id == found["id"]).values(name=name))
        here = (_DOCUMENTS.c.environment_id == environment) & (_DOCUMENTS.c.level == found["name"])
        connection.execute(update(_DOCUMENTS).where(here).values(level=name))

    change_places(request.database, environment, work)
    return no_content()


def _free_id(connection: Connection) -> int:
    newest: int | None = connection.execute(select(func.max(_ENVIRONMENTS.c.id))).scalar()
    if newest == MAX_ID:
        raise refuse(409, f"there is no id above that of environment {newest}: give one")
    return 1 if newest is None else newest + 1


def _set_levels(connection: Connection, environment: int, wanted: list[str]) -> None:
    present = set(connection.execute(select(_LEVELS.c.name).where(_LEVELS.c.environment_id == environment)).scalars())
    gone = present - set(wanted)
    connection.execute(delete(_LEVELS).where(_LEVELS.c.environment_id == environment, _LEVELS.c.name.in_(gone)))
    connection.execute(
        delete(_DOCUMENTS).where(_DOCUMENTS.c.environment_id == environment, _DOCUMENTS.c.level.in_(gone))
    )
    for position, name in enumerate(wanted):
        if name in present:
            here = (_LEVELS.c.environment_id == environment) & (_LEVELS.c.name == name)
            connection.execute(update(_LEVELS).where(here).values(position=position))
        else:
            connection.execute(insert(_LEVELS).values(environment_id=environment, name=name, position=position))


def _environments(connection: Connection, environment: int | None) -> list[Json]:
    if environment is not None and not is_id(environment):
        return []
    environments = select(_ENVIRONMENTS.c.id).order_by(_ENVIRONMENTS.c.id)
    links = select(_LINKS.c.environment_id, _LINKS.c.component_id).order_by(_LINKS.c.component_id)
    levels = select(_LEVELS.c.environment_id, _LEVELS.c.name).order_by(_LEVELS.c.position)
    if environment is not None:
        environments = environments.where(_ENVIRONMENTS.c.id == environment)
        links = links.where(_LINKS.c.environment_id == environment)
        levels = levels.where(_LEVELS.c.environment_id == environment)
    found: dict[int, Any] = {
        number: {"id": number, "components": [], "hierarchy_levels": []}
        for number in connection.execute(environments).scalars()
    }
    for owner, component in connection.execute(links):
        if owner in found:
            found[owner]["components"].append(component)
    for owner, name in connection.execute(levels):
        if owner in found:
            found[owner]["hierarchy_levels"].append(name)
    return list(found.values())


def level_names(connection: Connection, environment: int) -> list[str]:
    """Return the names of an environment's levels in merge order. Raises ``RefusalError`` 404."""
    found = _environments(connection, environment)
    if not found:
        raise no_environment(environment)
    names: list[str] = found[0]["hierarchy_levels"]
    return names


def _levels(connection: Connection, environment: int) -> list[Json]:
    level_names(connection, environment)
    rows = connection.execute(
        select(_LEVELS.c.id, _LEVELS.c.name).where(_LEVELS.c.environment_id == environment).order_by(_LEVELS.c.position)
    ).all()
    values = connection.execute(
        select(_DOCUMENTS.c.level, _DOCUMENTS.c.level_value)
        .where(_DOCUMENTS.c.environment_id == environment, _DOCUMENTS.c.level != "")
        .distinct()
        .order_by(_DOCUMENTS.c.level_value)
    ).all()
    return [
        {
            "id": row.id,
            "name": row.name,
            "environment_id": environment,
            "parent": rows[place - 1].name if place else None,
            "values": [value for level, value in values if level == row.name],
        }
        for place, row in enumerate(rows)
    ]


def _pick(levels: list[Json], environment: int, level: int | str) -> Json:
    field = "id" if isinstance(level, int) else "name"
    for found in levels:
        if found[field] == level:
            return found
    raise refuse(404, f"hierarchy level {quoted(level)} not found in environment {environment}")


def _link(connection: Connection, environment: int, components: list[int]) -> None:
    for component in components:
        connection.execute(insert(_LINKS).values(environment_id=environment, component_id=component))


def _component_ids(connection: Connection, references: list[int | str]) -> list[int]:
    found: list[int] = []
    for reference in references:
        column = _COMPONENTS.c.id if isinstance(reference, int) else _COMPONENTS.c.name
        number = connection.execute(select(_COMPONENTS.c.id).where(column == reference)).scalar_one_or_none()
        if number is None:
            raise refuse(404, f"component {quoted(reference)} not found")
        if number in found:
            raise refuse(409, f"component {quoted(reference)} is given twice")
        found.append(number)
    return found


def _references(value: Json) -> list[int | str]:
    return [
        name_of(item, "a component's name") if isinstance(item, str) else id_of(item, "a component's id")
        for item in list_of(value, "components")
    ]


def _level_names(value: Json) -> list[str]:
    names = [_level_name(item) for item in list_of(value, "hierarchy_levels")]
    refuse_twice(names, "hierarchy level")
    return names


def _level_name(value: Json) -> str:
    name = name_of(value, "a hierarchy level's name")
    if "/" in name or name == "resources" or not reachable(name):
        raise refuse(422, f"a hierarchy level can't be called {quoted(name)}: no URL could name it")
    return name


def _environment_id(value: Json) -> int | None:
    if value is None:
        return None
    if isinstance(value, str):
        if not (value.isascii() and value.isdigit() and len(value) < 20):
            raise refuse(422, f"an environment's id must be a number, not {type_name(value)}")
        value = int(value)
    return id_of(value, "an environment's id")
