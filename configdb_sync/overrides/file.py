"""Overrides as a file under version control: its form, read strictly and written readably (U28). Pure.

The JSON Schema of the form is ``overrides.schema.json`` beside this module.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

import yaml

from configdb_sync.configdb.edits import KeyPath, parse_key, shown_key
from configdb_sync.errors import SettingsError
from configdb_sync.jsonvalues import Json, check_depth

VERSION = 1
_FIELDS = ("level", "data_source", "key", "value", "reason", "until")
_WAY_OUT = "the form is described in docs/overrides-file.md"


@dataclass(frozen=True)
class Reference:
    """A value that does not stand in the file: the text of a file (without its last line end) or of a variable."""

    kind: str
    name: str


@dataclass(frozen=True)
class Wanted:
    """One override of a file. ``level``: as ``--level`` takes it (``nodes=node-2``), empty for the whole environment."""

    level: str
    data_source: str
    path: KeyPath
    value: Json | Reference = field(repr=False)
    reason: str | None = None
    until: str | None = None

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
    return OverridesFile(own, environment, _apart([_wanted(entry, place) for place, entry in enumerate(entries, 1)]))


def _apart(found: list[Wanted]) -> tuple[Wanted, ...]:
    seen: dict[tuple[str, str], list[KeyPath]] = {}
    for one in found:
        beside = seen.setdefault((one.level, one.data_source), [])
        for path in beside:
            depth = min(len(path), len(one.path))
            if path[:depth] == one.path[:depth]:
                raise SettingsError(f"{one.named} is given twice, or once within another", way_out="keep one of them")
        beside.append(one.path)
    return tuple(found)


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
    key = entry["key"]
    try:
        path = parse_key(json.dumps(key) if isinstance(key, list) else key)
    except (SettingsError, TypeError, AttributeError):
        raise SettingsError(f"{where}: key {key!r} is no dotted text or list of texts", way_out=_WAY_OUT) from None
    level = "" if texts["level"] in {None, "/"} else texts["level"]
    value = _value(entry["value"], where)
    return Wanted(level or "", texts["data_source"] or "", path, value, texts["reason"], texts["until"])


def _value(value: Json, where: str) -> Json | Reference:
    if isinstance(value, dict) and len(value) == 1:
        (kind, name), *_ = value.items()
        if kind in {"file", "env"} and isinstance(name, str):
            return Reference(kind, name)
        if kind == "literal":
            value = value["literal"]
    _check_json(value, where)
    return value


def _check_json(value: Json, where: str) -> None:
    try:
        check_depth(value)
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise SettingsError(
            f"{where}: the value holds what JSON doesn't, such as a date", way_out="put dates in quotes"
        ) from None


def _check_fields(mapping: Mapping[str, Json], known: set[str], where: str) -> None:
    unknown = sorted(str(name) for name in mapping if name not in known)
    if unknown:
        raise SettingsError(
            f"{where} has an unknown field {unknown[0]}", way_out=f"known are {', '.join(sorted(known))}"
        )


class _Loader(yaml.CSafeLoader):
    """Refuses a key that a mapping has twice, of which one would be lost."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        if len(set(keys)) < len(keys):
            raise yaml.constructor.ConstructorError(None, None, "a key stands twice", node.start_mark)
        return super().construct_mapping(node, deep=deep)


def _loaded(text: str) -> Json:
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe one
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise SettingsError(f"the overrides file can't be read{line}", way_out="is it YAML?") from None
    except RecursionError:
        raise SettingsError("the overrides file is nested too deeply", way_out=_WAY_OUT) from None


def write(content: OverridesFile) -> str:
    """Return the text of a file, which ``read`` reads back; entries by level, data source and key."""
    entries = sorted(content.overrides, key=lambda one: (one.level, one.data_source, one.path))
    whole = {
        "version": VERSION,
        "name": content.name,
        **({} if content.environment is None else {"environment": content.environment}),
        "overrides": [_entry(one) for one in entries],
    }
    return yaml.dump(whole, Dumper=yaml.SafeDumper, sort_keys=False, allow_unicode=True, width=100)


def _entry(one: Wanted) -> dict[str, Json]:
    value = one.value
    if isinstance(value, Reference):
        value = {value.kind: value.name}
    elif isinstance(value, dict) and len(value) == 1 and next(iter(value)) in {"file", "env", "literal"}:
        value = {"literal": value}
    plain = {
        "level": one.level or "/",
        "data_source": one.data_source,
        "key": shown_key(one.path) if not shown_key(one.path).startswith("[") else list(one.path),
        "value": value,
        "reason": one.reason,
        "until": one.until,
    }
    return {name: value for name, value in plain.items() if value is not None or name == "value"}


def resolved(wanted: Iterable[Wanted], file: Callable[[str], str], env: Callable[[str], str | None]) -> list[Wanted]:
    """Return the overrides with their references' texts in place. ``file`` reads a file by its name as written.

    Raises ``SettingsError`` for a variable that isn't set; what ``file`` raises.
    """
    found = []
    for one in wanted:
        value = one.value
        if isinstance(value, Reference):
            if value.kind == "file":
                value = file(value.name).removesuffix("\n")
            else:
                text = env(value.name)
                if text is None:
                    raise SettingsError(f"{one.named}: the variable {value.name} is not set", way_out="set it")
                value = text
        found.append(Wanted(one.level, one.data_source, one.path, value, one.reason, one.until))
    return found


def time_text(moment: datetime) -> str:
    """Return a time as a file has it."""
    return re.sub(r":00(?=\+)", "", moment.astimezone(UTC).isoformat(timespec="seconds"), count=1)
