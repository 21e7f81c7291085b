"""Ruby's values as JSON, and back (U19).

JSON has no Symbols, integer keys, dates and times (``docs/decisions/json-form.md``). They travel as text
(``Special.text``), and *type marks*, which are JSON too, say where they stood:

* ``"symbol"``, ``"date"``, ``"time"``: the value is one;
* ``{"keys": KIND}`` or ``{"keys": {key: KIND}}``: a mapping all of whose keys are of that kind, or those named
  (``"integer"`` too); ``"values": {key: MARKS}`` beside it: what stands below these keys;
* ``{"each": MARKS}`` or ``{"items": {"0": MARKS}}``: a list all of whose items are alike, or those at the indexes.

The way back is one rule: **a text at a marked place gets its type if that type's text is the very same text**
(``:x`` is a Symbol's, ``07`` is no integer's, ``2016-1-1`` no date's); any other stays what it is. So a new
value of an override takes the type that the node has at that place, and what is then read from the file is again the
text that ConfigDB holds. New keys and items take the type that all of their siblings share.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from configdb_sync.hiera.builder import Value
from configdb_sync.hiera.scalars import MAX_DIGITS, ScalarError, Special, resolve
from configdb_sync.jsonvalues import Json

Marks: TypeAlias = Any
"""None (nothing that JSON lacks), one of the kinds, or a dict as described above."""

_INTEGER = re.compile(rf"0|-?[1-9][0-9]{{0,{MAX_DIGITS - 1}}}")


class CollisionError(ValueError):
    """Two keys of one mapping have the same JSON text (``1`` and ``"1"``)."""


def to_json(value: Value) -> tuple[Json, Marks]:
    """Return the JSON form of what Ruby holds and its marks. Raises ``CollisionError``."""
    if isinstance(value, Special):
        return value.text, value.kind
    if isinstance(value, dict):
        return _mapping_to_json(value)
    if isinstance(value, list):
        pairs = [to_json(item) for item in value]
        return [item for item, _ in pairs], _list_marks([marks for _, marks in pairs])
    return value, None


def key_to_json(key: str | Special) -> tuple[str, str | None]:
    """Return a key's JSON text and its kind (None for a string)."""
    return (key.text, key.kind) if isinstance(key, Special) else (key, None)


def typed(value: Json, marks: Marks) -> Value:
    """Return ``value`` with the types that ``marks`` give, by the rule above; marks that don't fit are passed over.

    Raises ``CollisionError`` never: texts of different keys differ, so their keys do.
    """
    if isinstance(marks, str):
        return _special(value, marks) if isinstance(value, str) else value
    if not isinstance(marks, Mapping):
        return value
    if isinstance(value, dict):
        keys, below = marks.get("keys"), _table(marks.get("values"))
        return {typed_key(key, _key_kind(keys, key)): typed(child, below.get(key)) for key, child in value.items()}
    if isinstance(value, list):
        if "each" in marks:
            return [typed(item, marks["each"]) for item in value]
        items = _table(marks.get("items"))
        return [typed(item, items.get(str(index))) for index, item in enumerate(value)]
    return value


def typed_key(key: str, kind: object) -> str | Special:
    """Return a mapping's key with the type ``kind`` gives it, if it is that type's text."""
    found = _special(key, kind) if isinstance(kind, str) else key
    return found if isinstance(found, Special) else key


def _table(found: object) -> Mapping[str, Marks]:
    return found if isinstance(found, Mapping) else {}


def _key_kind(keys: object, key: str) -> object:
    return keys.get(key) if isinstance(keys, Mapping) else keys


def _special(text: str, kind: str) -> str | Special:
    if kind == "symbol" and text.startswith(":"):
        return Special("symbol", text)
    if kind == "integer" and _INTEGER.fullmatch(text):
        return Special("integer", text)
    if kind in {"date", "time"}:
        try:
            found = resolve(text)
        except ScalarError:
            return text
        if isinstance(found, Special) and (found.kind, found.text) == (kind, text):
            return found
    return text


def _mapping_to_json(value: dict[Any, Value]) -> tuple[Json, Marks]:
    result: dict[str, Json] = {}
    kinds: dict[str, str] = {}
    below: dict[str, Marks] = {}
    for key, child in value.items():
        text, kind = key_to_json(key)
        if text in result:
            raise CollisionError(text)
        result[text], marks = to_json(child)
        if kind is not None:
            kinds[text] = kind
        if marks is not None:
            below[text] = marks
    found: dict[str, Marks] = {}
    if kinds:
        alike = len(kinds) == len(result) and len(set(kinds.values())) == 1
        found["keys"] = next(iter(kinds.values())) if alike else kinds
    if below:
        found["values"] = below
    return result, found or None


def _list_marks(items: list[Marks]) -> Marks:
    if not any(marks is not None for marks in items):
        return None
    if all(marks == items[0] for marks in items):
        return {"each": items[0]}
    return {"items": {str(index): marks for index, marks in enumerate(items) if marks is not None}}
