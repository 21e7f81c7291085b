"""Writes values as YAML text that every Psych reads back as exactly these values.

Strings are double-quoted on one line, whatever they hold; everything else is plain. Tests with Ruby show that no other
style keeps every type and text (Y03, Y04, Y12). Unprintable characters are escaped: raw U+2028 and U+0085 would fold
to a space.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from configdb_sync.hiera.builder import Value
from configdb_sync.hiera.errors import fault
from configdb_sync.hiera.scalars import ScalarError, Special, check_integer, resolve
from configdb_sync.jsonvalues import MAX_DEPTH, Json

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_PLAIN_SYMBOL = re.compile(r":[A-Za-z_][A-Za-z0-9_]*[?!]?")
_PLAIN_STRING = re.compile(r"[ !#-\[\]-~]*")
_LONGEST_SIMPLE_KEY = 900  # libyaml looks for the colon within 1024 characters.
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


@dataclass(frozen=True, slots=True)
class Style:
    """How a file indents: columns per mapping level, and a list's dash relative to its key; its line end."""

    step: int = 2
    dash: int = 0
    newline: str = "\n"


def block(key: str | Special, value: Value, style: Style, column: int = 0) -> str:
    """Return one key with its value as lines from ``column`` on, the last line end left out."""
    return style.newline.join(" " * column + line for line in _pair(key, value, style))


def check(value: Json) -> None:
    """Raise ``DocumentError`` unless YAML and JSON can both carry ``value``; names the place, never the value."""
    _check(value, [])


def scalar(value: Value) -> str:
    """Return a scalar's YAML text."""
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, Special):
        return _special(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _float(value)
    return str(value)


def _pair(key: str | Special, value: Value, style: Style) -> Iterator[str]:
    name = _key(key)
    if len(name) > _LONGEST_SIMPLE_KEY:
        yield f"? {name}"
        name = ""
    if isinstance(value, dict) and value:
        yield f"{name}:"
        for child, below in value.items():
            for line in _pair(child, below, style):
                yield " " * style.step + line
    elif isinstance(value, list) and value:
        yield f"{name}:"
        for line in _items(value, style):
            yield " " * style.dash + line
    else:
        yield f"{name}: {_leaf(value)}"


def _items(items: list[Value], style: Style) -> Iterator[str]:
    for item in items:
        lead = "- "
        for line in _item(item, style):
            yield lead + line
            lead = "  "


def _item(item: Value, style: Style) -> Iterator[str]:
    if isinstance(item, dict) and item:
        for key, value in item.items():
            yield from _pair(key, value, style)
    elif isinstance(item, list) and item:
        yield from _items(item, style)
    else:
        yield _leaf(item)


def _leaf(value: Value) -> str:
    if isinstance(value, dict):
        return "{}"
    if isinstance(value, list):
        return "[]"
    return scalar(value)


def _key(key: str | Special) -> str:
    if isinstance(key, Special):
        return _special(key)
    if key == "<<":
        return '!!str "<<"'  # Quoted alone Ruby still takes it for a merge key.
    if _PLAIN_KEY.fullmatch(key) and resolve(key) == key:
        return key
    return _quoted(key)


def _special(value: Special) -> str:
    if value.kind == "symbol" and not _PLAIN_SYMBOL.fullmatch(value.text):
        return f"!ruby/symbol {_quoted(value.text[1:])}"
    return value.text


def _float(value: float) -> str:
    text = repr(value)
    mantissa, exponent, power = text.partition("e")
    # Ruby takes 1e+16 for a string: a float needs its dot.
    return text if not exponent or "." in mantissa else f"{mantissa}.0e{power}"


def _quoted(text: str) -> str:
    if _PLAIN_STRING.fullmatch(text):
        return f'"{text}"'
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character: str) -> str:
    known = _ESCAPES.get(character)
    if known:
        return known
    if character.isprintable():
        return character
    code = ord(character)
    if code <= 0xFF:
        return f"\\x{code:02X}"
    return f"\\u{code:04X}" if code <= 0xFFFF else f"\\U{code:08X}"


def _check(value: Json, path: list[object]) -> None:
    if len(path) > MAX_DEPTH + 1 or (len(path) > MAX_DEPTH and isinstance(value, dict | list)):
        raise fault(f"nested more than {MAX_DEPTH} levels deep")
    if isinstance(value, dict):
        for key, child in value.items():
            if not isinstance(key, str):
                raise fault("a key that JSON doesn't have", path=[*path, key])
            _check_text(key, path)
            path.append(key)
            _check(child, path)
            path.pop()
    elif isinstance(value, list):
        for index, child in enumerate(value):
            path.append(index)
            _check(child, path)
            path.pop()
    else:
        _check_scalar(value, path)


def _check_scalar(value: Json, path: list[object]) -> None:
    if isinstance(value, str):
        _check_text(value, path)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise fault("the value is no number that JSON can carry", path=path)
    elif isinstance(value, int) and not isinstance(value, bool):
        try:
            check_integer(value)
        except ScalarError as error:
            raise fault(f"the value {error}", path=path) from None
    elif value is not None and not isinstance(value, bool):
        raise fault("the value is of a kind that JSON doesn't have", path=path)


def _check_text(text: str, path: list[object]) -> None:
    if "\0" in text:
        raise fault("the value or key holds the character NUL", path=path)
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise fault("the value or key holds half of a surrogate pair", path=path) from None
