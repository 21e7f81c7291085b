"""What ConfigDB holds, as values, and how they are read from its JSON (``docs/configdb-api.md``). Pure.

Readers take hostile input: what isn't as it must be is a ``ValueError`` with a text that shows no content.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, TypeAlias

from configdb_sync.configdb import edits
from configdb_sync.configdb.edits import KeyPath
from configdb_sync.http.json_bodies import a_list, an_object, kind_of, texts
from configdb_sync.jsonvalues import Json
from configdb_sync.names import LevelPath, place_of

VALUES = "values"
OVERRIDES = "overrides"


class ServerKind(Enum):
    """Which ConfigDB server answers, by what it can do."""

    EMBEDDED = "configdb-sync"
    MASTER = "tuning-box master"
    LEGACY = "tuning-box 0.1.0"


@dataclass(frozen=True)
class Definition:
    """A resource definition: what the product calls a data source."""

    id: int
    name: str
    component_id: int | None


@dataclass(frozen=True)
class Component:
    """A named group of definitions."""

    id: int
    name: str
    definitions: tuple[Definition, ...]


@dataclass(frozen=True)
class Environment:
    """An environment: the ids of its components and its hierarchy levels, the first nearest the root.

    ``made``: the server has just created it at our request, so it holds no document yet.
    """

    id: int
    components: tuple[int, ...]
    levels: tuple[str, ...]
    made: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class Etags:
    """Digests (``jsonvalues.document_digest``) of one data source's documents at one level."""

    values: str
    overrides: str
    effective: str


@dataclass(frozen=True)
class ChangeAuthor:
    """Who changes something and why: named to the server on every changing request (U17).

    ``run`` is ``req-<uuid4>``; ``author`` a user's name; ``comment`` free text. The last two may hold any Unicode.
    """

    run: str | None = None
    author: str | None = None
    comment: str | None = None


@dataclass(frozen=True)
class DocumentVersion:
    """One version of a document. ``time`` is ISO 8601 in UTC; ``digest`` as in ``Etags``."""

    number: int
    time: str
    author: str | None
    run: str | None
    comment: str | None
    digest: str


@dataclass(frozen=True)
class KeyEffect:
    """Whether an override of a key does anything: ``full``, ``partial``, ``none``; and why (``equal``, ``hidden``).

    ``hidden_by``: how many deeper levels have the key. ``data_source``: the one from which Puppet reads the key
    instead, which no server tells; then the reason is ``other data source``.
    """

    key: str
    effect: str
    reason: str | None
    hidden_by: int
    data_source: str | None = None


@dataclass(frozen=True)
class OverrideNote:
    """The overrides of one data source at one place (``/`` or ``/nodes/46/``), by whom and when."""

    data_source: str
    place: str
    version: int
    time: str | None
    author: str | None
    run: str | None
    comment: str | None
    keys: tuple[KeyEffect, ...]


@dataclass(frozen=True)
class DocumentAddress:
    """One data source at one level of one environment. ``innermost``: it is the level of a single node."""

    env: int
    levels: LevelPath
    data_source: str
    definition: int
    innermost: bool

    @property
    def level_text(self) -> str:
        """``/`` or ``/nodes/46/``."""
        return place_of(self.levels)


@dataclass(frozen=True)
class DocumentEdit:
    """A document before and after a change; equal when there was nothing to do.

    ``kind`` is ``VALUES`` or ``OVERRIDES``; ``reason`` says why where the user gave no comment.
    """

    place: DocumentAddress
    kind: str
    before: dict[str, Json] = field(repr=False)
    after: dict[str, Json] = field(repr=False)
    reason: str | None = None

    @property
    def leaves(self) -> list[KeyPath]:
        """The keys that changed."""
        return edits.changed_leaves(self.before, self.after)


ChangeObserver: TypeAlias = Callable[[DocumentEdit], None]
"""Is called with a change that was made."""


def document(value: Json) -> dict[str, Json]:
    """Return a document: a JSON object that isn't an error in disguise (a status of its own, or Keystone's shape)."""
    if not isinstance(value, dict):
        raise ValueError(f"a document is an object, the server holds {kind_of(value)}")
    status = value.get("status")
    if value.keys() <= {"message", "status", "msg"} and isinstance(status, int) and status >= 400:
        raise ValueError(f"the body is an error of status {status}")
    error = value.get("error")
    if (
        value.keys() == {"error"}
        and isinstance(error, dict)
        and isinstance(error.get("code"), int)
        and "message" in error
    ):
        raise ValueError(f"the body is an error of code {error['code']}")
    return value


def definition(value: Json) -> Definition:
    """Return a resource definition."""
    owner = an_object(value, "a resource definition").get("component_id")
    return Definition(_id(value, "id"), _text(value, "name"), None if owner is None else _id(value, "component_id"))


def component(value: Json) -> Component:
    """Return a component with its definitions, by id."""
    listed = a_list(an_object(value, "a component").get("resource_definitions"), "resource_definitions")
    definitions = sorted(map(definition, listed), key=lambda one: one.id)
    return Component(_id(value, "id"), _text(value, "name"), tuple(definitions))


def components(value: Json) -> list[Component]:
    """Return the list of components."""
    return [component(item) for item in a_list(value, "the list of components")]


def definitions(value: Json) -> list[Definition]:
    """Return a list of definitions."""
    return [definition(item) for item in a_list(value, "the list of resource definitions")]


def environment(value: Json) -> Environment:
    """Return an environment."""
    ids = a_list(an_object(value, "an environment").get("components"), "components")
    levels = texts(value.get("hierarchy_levels"), "hierarchy_levels")
    if not all(_is_id(item) for item in ids):
        raise ValueError("components holds something else than ids")
    return Environment(_id(value, "id"), tuple(ids), levels)


def made_environment(value: Json) -> Environment:
    """Return an environment from the answer to the request that created it."""
    return replace(environment(value), made=True)


def environments(value: Json) -> list[Environment]:
    """Return a list of environments."""
    return [environment(item) for item in a_list(value, "the list of environments")]


def level_values(value: Json) -> tuple[str, ...]:
    """Return the values that an environment's hierarchy level has, of an answer about that level."""
    return texts(an_object(value, "a hierarchy level").get("values"), "values")


def lookup(value: Json) -> dict[str, tuple[Json, str]]:
    """Return each top-level key's value and the level that gave it, of ``show_lookup``."""
    found: dict[str, tuple[Json, str]] = {}
    for key, pair in an_object(value, "a lookup").items():
        if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[1], str):
            raise ValueError("a lookup holds pairs of a value and a level")
        found[key] = (pair[0], pair[1])
    return found


def etags(value: Json) -> dict[int, Etags]:
    """Return the digests of all documents at a level, by definition id."""
    found = {}
    for key, item in an_object(value, "the digests").items():
        if not key.isdigit():
            raise ValueError("the digests are not by definition id")
        an_object(item, "the digests of a data source")
        found[int(key)] = Etags(_text(item, "values"), _text(item, "overrides"), _text(item, "effective"))
    return found


def versions(value: Json) -> list[DocumentVersion]:
    """Return the versions of a document."""
    return [
        DocumentVersion(
            _id(an_object(item, "a version"), "version"),
            _text(item, "time"),
            _maybe_text(item, "author"),
            _maybe_text(item, "run"),
            _maybe_text(item, "comment"),
            _text(item, "digest"),
        )
        for item in a_list(value, "a history")
    ]


def override_notes(value: Json) -> list[OverrideNote]:
    """Return the overrides of an environment."""
    return [_override_note(an_object(item, "an override")) for item in a_list(value, "the overrides")]


def _override_note(value: dict[str, Json]) -> OverrideNote:
    data_source = _text(an_object(value.get("resource_definition"), "a resource definition"), "name")
    time, author, run, comment = (_maybe_text(value, name) for name in ("time", "author", "run", "comment"))
    keys = [
        KeyEffect(key, _text(effect, "effect"), _maybe_text(effect, "reason"), _id(effect, "hidden_by"))
        for key, item in an_object(value.get("keys"), "the keys of an override").items()
        for effect in [an_object(item, "an effect")]
    ]
    place, number = _text(value, "place"), _id(value, "version")
    return OverrideNote(data_source, place, number, time, author, run, comment, tuple(keys))


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _id(value: dict[str, Json], name: str) -> int:
    found = value.get(name)
    if not isinstance(found, int) or not _is_id(found):
        raise ValueError(f"{name} is {kind_of(found)}, not a whole number")
    return found


def _text(value: dict[str, Json], name: str) -> str:
    found = value.get(name)
    if not isinstance(found, str):
        raise ValueError(f"{name} is {kind_of(found)}, not a text")
    return found


def _maybe_text(value: dict[str, Json], name: str) -> str | None:
    return None if value.get(name) is None else _text(value, name)
