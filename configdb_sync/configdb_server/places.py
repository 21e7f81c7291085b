"""From a path to a place in the database: the environment, its levels, the definition. One query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BigInteger, Connection, Row, Select, Text, bindparam, select

from configdb_sync.configdb_server import schema
from configdb_sync.configdb_server.environments import no_environment
from configdb_sync.configdb_server.paths import Levels, is_id
from configdb_sync.configdb_server.refusals import refuse, shown

ROOT = ("", "")

_ENVIRONMENTS = schema.environments
_LEVELS = schema.hierarchy_levels
_LINKS = schema.environment_components
_DEFINITIONS = schema.resource_definitions


@dataclass(frozen=True)
class Place:
    """One document's place, checked: the environment, the level and the definition are there."""

    environment: int
    definition: int
    levels: Levels

    @property
    def own(self) -> tuple[str, str]:
        """The (level, value) of the document itself, ``ROOT`` for none."""
        return self.levels[-1] if self.levels else ROOT


def _query(*, by_name: bool) -> Select[Any]:
    wanted = (
        _DEFINITIONS.c.name == bindparam("resource", type_=Text)
        if by_name
        else _DEFINITIONS.c.id == bindparam("resource", type_=BigInteger)
    )
    definitions = _LINKS.join(_DEFINITIONS, (_LINKS.c.component_id == _DEFINITIONS.c.component_id) & wanted)
    return (
        select(_LEVELS.c.name.label("level"), _DEFINITIONS.c.id.label("definition"))
        .select_from(
            _ENVIRONMENTS.outerjoin(_LEVELS, _LEVELS.c.environment_id == _ENVIRONMENTS.c.id).outerjoin(
                definitions, _LINKS.c.environment_id == _ENVIRONMENTS.c.id
            )
        )
        .where(_ENVIRONMENTS.c.id == bindparam("environment"))
        .order_by(_LEVELS.c.position, _DEFINITIONS.c.id)
    )


_BY_NAME = _query(by_name=True)
_BY_ID = _query(by_name=False)
_ALL = (
    select(_LEVELS.c.name.label("level"))
    .select_from(_ENVIRONMENTS.outerjoin(_LEVELS, _LEVELS.c.environment_id == _ENVIRONMENTS.c.id))
    .where(_ENVIRONMENTS.c.id == bindparam("environment"))
    .order_by(_LEVELS.c.position)
)


def find(connection: Connection, environment: int, levels: Levels, resource: int | str) -> Place:
    """Return the place of a document.

    Raises ``RefusalError``: 404 for an environment, level or definition that isn't there, 409 for a name that two of
    the environment's components have.
    """
    rows: Sequence[Row[Any]] = ()
    if is_id(environment):
        # An id that no database holds is asked for as one that none has.
        key = resource if isinstance(resource, str) or is_id(resource) else -1
        rows = connection.execute(
            _BY_NAME if isinstance(resource, str) else _BY_ID, {"environment": environment, "resource": key}
        ).all()
    check_levels(environment, [row.level for row in rows], levels)
    found = sorted({row.definition for row in rows if row.definition is not None})
    if not found:
        raise refuse(404, f"resource definition {shown(resource)} not found in environment {environment}")
    if len(found) > 1:
        ids = ", ".join(map(str, found))
        raise refuse(
            409,
            f"resource definition {shown(resource)} is ambiguous in environment {environment}: use an id of {ids}",
        )
    return Place(environment, found[0], levels)


def check_chain(connection: Connection, environment: int, levels: Levels) -> None:
    """Raise ``RefusalError`` 404 unless the environment is there and has these levels."""
    rows: Sequence[Row[Any]] = ()
    if is_id(environment):
        rows = connection.execute(_ALL, {"environment": environment}).all()
    check_levels(environment, [row.level for row in rows], levels)


def check_levels(environment: int, rows: Sequence[str | None], levels: Levels) -> None:
    """Raise ``RefusalError`` 404 unless ``levels`` is a prefix of the declared ones.

    ``rows`` has the environment's levels in order, each maybe several times: none if there is no environment,
    None if it has no level.
    """
    if not rows:
        raise no_environment(environment)
    declared = list(dict.fromkeys(name for name in rows if name is not None))
    for place, (name, _) in enumerate(levels):
        if place >= len(declared):
            raise refuse(404, f"level {shown(name)} not found: environment {environment} has {_listed(declared)}")
        if name != declared[place]:
            raise refuse(
                404,
                f"unexpected level {shown(name)}, expected {shown(declared[place])}: "
                f"environment {environment} has {_listed(declared)}",
            )


def _listed(names: Sequence[str]) -> str:
    return f"the levels {', '.join(map(shown, names))} in this order" if names else "no levels"
