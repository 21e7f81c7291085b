"""What a request's path below ``/environments/<id>/`` asks for. Pure; no database is needed to tell.

Compatible with tuning-box master: zero or more ``level/value/`` pairs, then ``resources/<id or name>/`` with bare
slashes in names, read from the end, so that even ``p3/x/values/y`` is a name. A segment that Python takes for an
integer is an id, unless it is in another script's digits.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Literal, TypeAlias

from configdb_sync.configdb_server.refusals import refuse
from configdb_sync.names import NAME_LIMIT

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


def is_id(number: int) -> bool:
    """Tell whether a database can hold such an id; all others are simply not there."""
    return 0 <= number <= MAX_ID


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
