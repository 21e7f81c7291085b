"""Overrides as a file under version control: its form, read strictly and written readably (U28). Pure.

The JSON Schema of the form is ``overrides.schema.json`` beside this module.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import Any

from configdb_sync.configdb import typed
from configdb_sync.configdb.edits import KeyPath, parse_key, shown_key
from configdb_sync.errors import SettingsError
from configdb_sync.jsonvalues import Json
from configdb_sync.masking import is_secret_path

VERSION = 1
_FIELDS = ("level", "data_source", "key", "value", "reason", "until", "new_key")
_KINDS = ("file", "env")
_LITERAL = "literal"
_WAY_OUT = "the form is described in docs/overrides-file.md"


@dataclass(frozen=True)
class Reference:
    """A value that is elsewhere: the text of another file (without its last line end) or of a variable."""

    kind: str
    name: str
    type_name: str = "str"
    """How the text is read: one of ``typed.TYPES``."""


@dataclass(frozen=True)
class Wanted:
    """One override of a file. ``level``: as ``--level`` takes it (``nodes=2``), empty for the whole environment."""

    level: str
    data_source: str
    path: KeyPath
    value: Json | Reference = field(repr=False)
    reason: str | None = None
    until: str | None = None
    new_key: bool = False
    """Whether it is meant that no node of the level has the key."""

    @property
    def named(self) -> str:
        """What an error calls it."""
        return f"{shown_key(self.path)} of {self.data_source} at {self.level or 'the whole environment'}"


@dataclass(frozen=True)
class OverridesFile:
    """The content of a file. ``name`` tells it from others in the notes: ``--prune`` removes what a file of this name
    put there. ``environment``: None if the command line names it."""

    name: str
    environment: int | None
    overrides: tuple[Wanted, ...]


def read(text: str, name: str) -> OverridesFile:
    """Return the content of a file; ``name`` is used if it doesn't name itself.

    Raises ``SettingsError`` that names the entry and the field.
    """
    whole = _loaded(text)
    if not isinstance(whole, dict):
        raise SettingsError("the overrides file is no mapping", way_out=_WAY_OUT)
    _check_fields(whole, {"version", "name", "environment", "overrides"}, "the overrides file")
    if whole.get("version") != VERSION or isinstance(whole["version"], bool):
        raise SettingsError(
            f"the overrides file has version {whole.get('version')!r}", way_out=f"this program reads version {VERSION}"
        )
    environment = whole.get("environment")
    if environment is not None and (type(environment) is not int or environment < 1):
        raise SettingsError(f"environment {environment!r} is no environment's number", way_out=_WAY_OUT)
    entries = whole.get("overrides")
    if not isinstance(entries, list):
        raise SettingsError("the overrides file has no list of overrides", way_out=_WAY_OUT)
    own = whole.get("name", name)
    if not isinstance(own, str) or not own or not own.isprintable():
        raise SettingsError(f"name {own!r} is no name", way_out=_WAY_OUT)
    return OverridesFile(own, environment, apart(_wanted(entry, place) for place, entry in enumerate(entries, 1)))


def apart(overrides: Iterable[Wanted]) -> tuple[Wanted, ...]:
    """Return the overrides. Raises ``SettingsError`` if two of one level and data source have a key in common."""
    found = tuple(overrides)
    seen: dict[tuple[str, str], list[KeyPath]] = {}
    for one in found:
        beside = seen.setdefault((one.level, one.data_source), [])
        for path in beside:
            depth = min(len(path), len(one.path))
            if path[:depth] == one.path[:depth]:
                raise SettingsError(f"{one.named} is given twice, or once within another", way_out="keep one of them")
        beside.append(one.path)
    return found


def _wanted(entry: Json, place: int) -> Wanted:
    where = f"entry {place} of the overrides"
    if not isinstance(entry, dict):
        raise SettingsError(f"{where} is no mapping", way_out=_WAY_OUT)
    _check_fields(entry, set(_FIELDS), where)
    for name in ("data_source", "key", "value"):
        if name not in entry:
            raise SettingsError(f"{where} has no {name}", way_out=_WAY_OUT)
    texts: dict[str, str | None] = {}
    for name in ("level", "data_source", "reason", "until"):
        value = entry.get(name)
        if isinstance(value, datetime | date):
            value = value.isoformat()
        if value is not None and not isinstance(value, str):
            raise SettingsError(f"{where}: {name} is no text", way_out=_WAY_OUT)
        texts[name] = value
    new_key = entry.get("new_key", False)
    if not isinstance(new_key, bool):
        raise SettingsError(f"{where}: new_key is neither true nor false", way_out=_WAY_OUT)
    key = entry["key"]
    try:
        path = parse_key(json.dumps(key) if isinstance(key, list) else key)
    except (SettingsError, TypeError, AttributeError):
        raise SettingsError(f"{where}: key {key!r} is no dotted text or list of texts", way_out=_WAY_OUT) from None
    level = "" if texts["level"] in {None, "/"} else texts["level"]
    value = _value(entry["value"], where)
    return Wanted(level or "", texts["data_source"] or "", path, value, texts["reason"], texts["until"], new_key)


def _value(value: Json, where: str) -> Json | Reference:
    kind = _reference_kind(value)
    if kind is not None:
        name, type_name = value[kind], value.get("type", "str")
        if not isinstance(name, str) or type_name not in typed.TYPES:
            raise SettingsError(
                f"{where}: the reference {{{kind}: ...}} has no name, or an unknown type",
                way_out=f"types are {', '.join(typed.TYPES)}; a mapping that is no reference stands below {_LITERAL}",
            )
        return Reference(kind, name, type_name)
    if isinstance(value, dict) and value.keys() == {_LITERAL}:
        value = value[_LITERAL]
    try:
        typed.check_json(value)
    except ValueError as error:
        raise SettingsError(f"{where}: the value can't be used: {error}", way_out="put dates in quotes") from None
    return value


def _reference_kind(value: Json) -> str | None:
    """Return ``file`` or ``env`` for a mapping that has the form of a reference."""
    found = [kind for kind in _KINDS if isinstance(value, dict) and value.keys() - {"type"} == {kind}]
    return found[0] if found else None


def _check_fields(mapping: Mapping[str, Json], known: set[str], where: str) -> None:
    unknown = sorted(str(name) for name in mapping if name not in known)
    if unknown:
        raise SettingsError(
            f"{where} has an unknown field {unknown[0]}", way_out=f"known are {', '.join(sorted(known))}"
        )


def _loaded(text: str) -> Any:
    try:
        return typed.load_yaml(text)
    except ValueError as error:
        raise SettingsError(f"the overrides file can't be read: {error}", way_out=_WAY_OUT) from None


def write(content: OverridesFile) -> str:
    """Return the text of a file, which ``read`` reads back; entries by level, data source and key."""
    entries = sorted(content.overrides, key=lambda one: (one.level, one.data_source, one.path))
    whole = {
        "version": VERSION,
        "name": content.name,
        **({} if content.environment is None else {"environment": content.environment}),
        "overrides": [_entry(one) for one in entries],
    }
    return f"{typed.text(whole, 'yaml')}\n"


def _entry(one: Wanted) -> dict[str, Json]:
    value = one.value
    if isinstance(value, Reference):
        value = {value.kind: value.name, **({} if value.type_name == "str" else {"type": value.type_name})}
    elif _reference_kind(value) is not None or (isinstance(value, dict) and value.keys() == {_LITERAL}):
        value = {_LITERAL: value}
    plain = {
        "level": one.level or "/",
        "data_source": one.data_source,
        "key": shown_key(one.path) if not shown_key(one.path).startswith("[") else list(one.path),
        "value": value,
        "reason": one.reason,
        "until": one.until,
        "new_key": one.new_key or None,
    }
    return {name: value for name, value in plain.items() if value is not None or name == "value"}


def secret_files(wanted: Iterable[Wanted]) -> frozenset[str]:
    """Return the names of the files that secrets are in: no other user may read them."""
    return frozenset(
        one.value.name
        for one in wanted
        if isinstance(one.value, Reference) and one.value.kind == "file" and is_secret_path(one.path)
    )


def resolved(wanted: Iterable[Wanted], file: Callable[[str], str], env: Callable[[str], str | None]) -> list[Wanted]:
    """Return the overrides with their references' values in place. ``file`` reads a file by its name as written.

    Raises ``SettingsError`` for a variable that isn't set, for a text that is not of its type, and for a value that no
    node's file can hold; what ``file`` raises.
    """
    return [_resolved(one, file, env) for one in wanted]


def _resolved(one: Wanted, file: Callable[[str], str], env: Callable[[str], str | None]) -> Wanted:
    value = one.value
    if isinstance(value, Reference):
        text = file(value.name) if value.kind == "file" else env(value.name)
        if text is None:
            raise SettingsError(f"{one.named}: the variable {value.name} is not set", way_out="set it")
        try:
            value = typed.parse(text.removesuffix("\n") if value.type_name == "str" else text, value.type_name)
        except SettingsError as error:
            raise SettingsError(f"{one.named}: {error.what}", way_out="see the type of the reference") from None
    typed.check_texts([*one.path, value])
    return replace(one, value=value)
