"""Values as a user types and reads them: text with a named type in, text in a named format out (U16). Pure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

import yaml

from configdb_sync import jsonvalues
from configdb_sync.configdb.edits import shown_key
from configdb_sync.errors import SettingsError
from configdb_sync.jsonvalues import Json, is_unicode

FORMATS = ("plain", "json", "yaml")


def _int(text: str) -> int:
    if not re.fullmatch(r"[+-]?\d{1,4000}", text.strip(), re.ASCII):
        raise ValueError("not a whole number of at most 4000 digits")
    return int(text)


def _float(text: str) -> float:
    if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text.strip(), re.ASCII):
        raise ValueError("not a decimal number")
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("out of range")
    return number


def _bool(text: str) -> bool:
    try:
        return {"true": True, "1": True, "false": False, "0": False}[text.strip().lower()]
    except KeyError:
        raise ValueError("neither true, false, 1 nor 0") from None


def _str(text: str) -> str:
    return text


def _null(text: str) -> None:
    if text.strip() not in {"", "null"}:
        raise ValueError("null takes no value")


class _Once(yaml.CSafeLoader):
    """Refuses a key that a mapping has twice: of what a person wrote, one of both would be lost."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in seen:
                    # The key is not shown: what is read may be a secret.
                    raise ValueError(f"a mapping has a key twice, line {key.start_mark.line + 1}")
                seen.add((key.tag, key.value))
        return super().construct_mapping(node, deep=deep)


def _json(text: str) -> Json:
    return jsonvalues.loads(text, once=True)


def load_yaml(text: str) -> Any:
    """Return what a YAML text holds, dates and keys of any type included.

    Raises ``ValueError`` for what is no YAML, for a mapping that has a key twice, and for too deep nesting.
    """
    try:
        return yaml.load(text, Loader=_Once)  # noqa: S506 - a safe one
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise ValueError(f"not YAML{f', line {mark.line + 1}' if mark else ''}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None


def check_json(value: Any) -> None:
    """Raise ``ValueError`` if a value holds what JSON doesn't, or is nested too deeply."""
    jsonvalues.check_depth(value)
    if not all(map(_is_json, _nodes(value))):
        raise ValueError(
            "it holds what JSON doesn't: dates, binary data, keys that aren't text, or numbers that are none"
        )


def _yaml(text: str) -> Json:
    value = load_yaml(text)
    check_json(value)
    return value


_READERS: Mapping[str, Callable[[str], Json]] = {
    "null": _null,
    "int": _int,
    "float": _float,
    "str": _str,
    "bool": _bool,
    "json": _json,
    "yaml": _yaml,
}
TYPES = tuple(_READERS)


_TAKES = {
    "null": "null takes no value",
    "int": "int takes digits, such as 5",
    "float": "float takes digits, such as 0.5",
    "bool": "bool takes true or false",
    "json": 'json takes texts in quotes: "x"',
    "yaml": 'yaml takes what a file may hold: [1, "x"]',
}


def parse(text: str, kind: str, what: str = "the value") -> Json:
    """Return the value of ``text`` read as ``kind`` (one of ``TYPES``).

    Raises ``SettingsError`` that calls the value ``what`` and doesn't show it.
    """
    try:
        return _READERS[kind](text)
    except json.JSONDecodeError as error:
        reason = f"not JSON, line {error.lineno}, column {error.colno}"
    except ValueError as error:
        reason = str(error)
    raise SettingsError(f"{what} can't be read as {kind}: {reason}", way_out=f"{_TAKES[kind]}; see --type")


def check_texts(value: Json) -> None:
    """Raise ``SettingsError`` if a text or a key holds what no file and no database can hold; it doesn't show it."""
    for node in _nodes(value):
        for found in (*node, node) if isinstance(node, dict) else (node,):
            if isinstance(found, str) and ("\0" in found or not is_unicode(found)):
                raise SettingsError(
                    "the value or key holds the character NUL or half of a surrogate pair",
                    way_out="no file can hold it",
                )


def text(value: Json, form: str) -> str:
    """Return the text of ``value`` in a format of ``FORMATS``; plain is a text as it is, and JSON of all else."""
    if form == "yaml":
        return (
            yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False)
            .removesuffix("...\n")
            .removesuffix("\n")
        )
    if form == "plain" and isinstance(value, str) and is_unicode(value):
        return value
    found = json.dumps(value, indent=2, ensure_ascii=False)
    return found if is_unicode(found) else json.dumps(value, indent=2)


def lookup_text(found: Mapping[str, tuple[Json, str]], form: str) -> str:
    """Return the text of keys, their values and the levels that gave them; plain is one line a key."""
    if form != "plain":
        return text({key: list(pair) for key, pair in found.items()}, form)
    return "\n".join(f"{level}\t{key}\t{_line(value)}" for key, (value, level) in found.items())


def shown_path(path: Sequence[str]) -> str:
    """Return a path fit for a terminal, readable by ``edits.parse_key`` where it is printable."""
    shown = shown_key(path)
    return "".join(character if character.isprintable() else "?" for character in shown)


def leaves(value: Json, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Json]]:
    """Yield each leaf of mappings and lists with its path."""
    if isinstance(value, dict):
        for key, child in value.items():
            yield from leaves(child, (*path, key))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from leaves(child, (*path, str(index)))
    else:
        yield path, value


class _Dumper(yaml.SafeDumper):
    """Writes a repeated value in full each time, without anchors."""

    def ignore_aliases(self, data: object) -> bool:
        """Return True."""
        del data
        return True


def _line(value: Json) -> str:
    found = json.dumps(value, ensure_ascii=False)
    return found if is_unicode(found) else json.dumps(value)


def _nodes(value: Json) -> Iterator[Json]:
    yield value
    if isinstance(value, dict):
        for key, child in value.items():
            if not isinstance(key, str):
                yield {key}  # a set is no JSON
            yield from _nodes(child)
    elif isinstance(value, list):
        for child in value:
            yield from _nodes(child)


def _is_json(value: Json) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, (bool, int, str, list, dict))
