"""What Ruby's values are in Python.

``nil``, ``true``, ``false`` and Integer are None, bool and int; Array is list, Hash is dict. Text is never decoded:
whether a String's bytes are the characters that its encoding says is for the reader to judge.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from configdb_sync.mcollective.faults import MarshalError

Ruby: TypeAlias = Any
"""None, bool, int, String, Symbol, list of Ruby, or dict with String, Symbol or int keys. The writer also takes str
(a UTF-8 String), bytes (a binary String) and tuples."""

Value: TypeAlias = Any
"""What actions take and give: None, bool, int, bytes, Symbol, list and dict of these. Str is taken too, never given."""

UTF_8 = "UTF-8"
US_ASCII = "US-ASCII"

_KINDS: Mapping[type, str] = {
    type(None): "nil",
    bool: "a boolean",
    int: "an Integer",
    list: "an Array",
    dict: "a Hash",
}


@dataclass(frozen=True)
class String:
    """A Ruby String: its bytes, and the name of its encoding (None for binary)."""

    content: bytes
    encoding: str | None = None


@dataclass(frozen=True)
class Symbol:
    """A Ruby Symbol."""

    name: str


def plain(value: Ruby) -> Value:
    """Return a value as actions give it: Strings become their bytes, at every depth."""
    if isinstance(value, String):
        return value.content
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items()}
    return value


def keyed(value: Ruby) -> dict[str, Ruby]:
    """Return a Hash whose keys are Symbols (or Strings in UTF-8) by their names. Raises ``MarshalError``."""
    if not isinstance(value, dict):
        raise MarshalError(f"a Hash was due, not {kind(value)}")
    found: dict[str, Ruby] = {}
    for key, item in value.items():
        name = key.name if isinstance(key, Symbol) else text(key)
        if name in found:
            raise MarshalError("a key is there twice")
        found[name] = item
    return found


def text(value: Ruby, longest: int = 4096) -> str:
    """Return a String's text, bytes that aren't UTF-8 escaped. Raises ``MarshalError`` for anything else."""
    if not isinstance(value, String):
        raise MarshalError(f"a String was due, not {kind(value)}")
    if len(value.content) > longest:
        raise MarshalError(f"a String of {len(value.content)} bytes where {longest} do")
    return value.content.decode("utf-8", errors="backslashreplace")


def kind(value: Ruby) -> str:
    """Return the Ruby name of a value's type, for errors."""
    return _KINDS.get(type(value), f"a {type(value).__name__}")


def printable(content: bytes | str, longest: int = 300) -> str:
    """Return a peer's text fit for one line: control characters escaped, cut at ``longest`` characters."""
    line = content.decode("utf-8", errors="backslashreplace") if isinstance(content, bytes) else content
    line = " ".join(line.split())
    line = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in line[: longest + 1])
    return line if len(line) <= longest else f"{line[:longest]}..."
