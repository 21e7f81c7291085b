"""What a request's path below ``/environments/<id>/`` asks for: first the path alone, then its place in the database.

Compatible with tuning-box master: zero or more ``level/value/`` pairs, then ``resources/<id or name>/`` with bare
slashes in names, read from the end, so that even ``p3/x/values/y`` is a name. A segment that Python takes for an
integer is an id, unless it is in another script's digits.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from sqlalchemy import BigInteger, Connection, Row, Select, Text, bindparam, select

from configdb_sync.configdb_server import schema
from configdb_sync.names import NAME_LIMIT
from configdb_sync.web.refusals import RefusalError, refuse, shown

MAX_ID = 2**63 - 1

Kind: TypeAlias = Literal["values", "overrides"]
Action: TypeAlias = Literal["document", "keys", "history", "revert"]
Levels: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class DocumentPath:
    """One document, or something of it: ``argument`` is the keys operation, or the version to go back to."""

    levels: Levels
    resource: str | int
    kind: Kind
    action: Action = "document"
    argument: str = ""


@dataclass(frozen=True)
class EtagsPath:
    """The digests of all data sources at one chain of levels."""

    levels: Levels


@dataclass(frozen=True)
class OverridesPath:
    """All overrides of the environment."""


EnvironmentPath: TypeAlias = DocumentPath | EtagsPath | OverridesPath


def id_or_name(text: str) -> int | str:
    """Return an id wherever an ASCII text parses as an integer, as in tuning-box, else the name: other scripts' digits
    are one."""
    if text.isascii():
        with contextlib.suppress(ValueError):
            return int(text)
    return text


def quoted(value: object, limit: int = 200) -> str:
    """Return a name or a number from a request as this server's errors have it."""
    return shown(value, limit)


def is_id(number: int) -> bool:
    """Tell whether a database can hold such an id; all others are simply not there."""
    return 0 <= number <= MAX_ID


def no_environment(environment: int) -> RefusalError:
    """Return the 404 of an environment."""
    return refuse(404, f"environment {quoted(environment, 40)} not found")


def read_path(rest: str) -> EnvironmentPath | None:
    """Return what the decoded path after ``/environments/<id>/`` names; None if there is no such thing.

    Raises ``RefusalError`` 400 for a level value longer than ``NAME_LIMIT``.
    """
    segments = rest.split("/")
    if "" in segments:
        return None
    if segments == ["overrides"]:
        return OverridesPath()
    split = 0
    while split < len(segments) and segments[split] != "resources":
        if split == len(segments) - 1:
            return EtagsPath(_levels(segments[:split])) if segments[split] == "etags" else None
        split += 2
    if split >= len(segments):
        return None
    return _document(_levels(segments[:split]), segments[split + 1 :])


def _levels(segments: list[str]) -> Levels:
    levels = tuple(zip(segments[::2], segments[1::2], strict=True))
    for name, value in levels:
        if len(value) > NAME_LIMIT:
            raise refuse(
                400,
                f"the value of level {name[:NAME_LIMIT]!r} has {len(value)} characters, {NAME_LIMIT} are allowed",
            )
    return levels


def _document(levels: Levels, rest: list[str]) -> DocumentPath | None:
    def found(name: list[str], kind: str, action: Action, argument: str = "") -> DocumentPath | None:
        if not name or kind not in ("values", "overrides"):
            return None
        return DocumentPath(levels, id_or_name("/".join(name)), kind, action, argument)  # type: ignore[arg-type]

    match rest:
        case [*name, "values" | "overrides" as kind]:
            return found(name, kind, "document")
        case [*name, kind, "keys", "set" | "delete" | "get" as operation]:
            return found(name, kind, "keys", operation)
        case [*name, kind, "history"]:
            return found(name, kind, "history")
        case [*name, kind, "history", version, "revert"]:
            return found(name, kind, "revert", version)
    return None


ROOT = ("", "")

_ENVIRONMENTS = schema.environments
_LEVELS = schema.hierarchy_levels
_LINKS = schema.environment_components
_DEFINITIONS = schema.resource_definitions


@dataclass(frozen=True)
class DocumentPlace:
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


def find_document(connection: Connection, environment: int, path: DocumentPath) -> DocumentPlace:
    """Return the place of the document that a path names.

    Raises ``RefusalError``: 404 for an environment, level or definition that isn't there, 409 for a name that two of
    the environment's components have.
    """
    levels, resource = path.levels, path.resource
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
        raise refuse(404, f"resource definition {quoted(resource)} not found in environment {environment}")
    if len(found) > 1:
        ids = ", ".join(map(str, found))
        raise refuse(
            409,
            f"resource definition {quoted(resource)} is ambiguous in environment {environment}: use an id of {ids}",
        )
    return DocumentPlace(environment, found[0], levels)


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
            raise refuse(404, f"level {quoted(name)} not found: environment {environment} has {_listed(declared)}")
        if name != declared[place]:
            raise refuse(
                404,
                f"unexpected level {quoted(name)}, expected {quoted(declared[place])}: "
                f"environment {environment} has {_listed(declared)}",
            )


def _listed(names: Sequence[str]) -> str:
    return f"the levels {', '.join(map(quoted, names))} in this order" if names else "no levels"
