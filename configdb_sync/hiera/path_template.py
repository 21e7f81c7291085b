"""Paths with Hiera's placeholders, such as ``override/node/%{::fqdn}``, and the path that a node's facts make of one.

Supported are variables: ``%{fqdn}``, ``%{::fqdn}`` and dotted paths into facts (``%{network_metadata.vips.0}``).
Hiera's functions (``%{hiera('x')}``) are refused when a path is declared. Where Hiera takes an unknown
variable for an empty text, there is no path here: half of a path is the name of another file.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from configdb_sync.jsonvalues import Json

_PLACEHOLDER = re.compile(r"%\{\s*(?:::)?([^{}]*?)\s*\}")
_VARIABLE = re.compile(r"[A-Za-z_]\w*(?:\.\w[\w-]*)*", re.ASCII)
_NOT_IN_NAMES = frozenset({"Cc", "Cs", "Zl", "Zp"})


@dataclass(frozen=True)
class Template:
    """A path in parts: literal texts at even places, names of facts at odd ones."""

    parts: tuple[str, ...]

    @property
    def facts(self) -> tuple[str, ...]:
        """The names of the facts, in order."""
        return self.parts[1::2]

    @property
    def literal_length(self) -> int:
        """The number of literal characters."""
        return sum(map(len, self.parts[::2]))

    def __str__(self) -> str:
        return "".join(f"%{{{part}}}" if place % 2 else part for place, part in enumerate(self.parts))


@lru_cache(maxsize=1024)
def parse(text: str) -> Template:
    """Return the parts of a path. Raises ValueError that names the wrong placeholder and the reason."""
    parts = _PLACEHOLDER.split(text)
    for name in parts[1::2]:
        if not _VARIABLE.fullmatch(name):
            raise ValueError(f"%{{{name}}} is no variable; Hiera's functions can't be used here")
    if any("%{" in literal for literal in parts[::2]):
        raise ValueError("a placeholder isn't closed")
    return Template(tuple(parts))


def expand(template: Template, facts: Mapping[str, Json]) -> str:
    """Return the path for a node with these facts. Raises ValueError with the reason if there is none.

    The text of the error names the fact, never its value: a fact may be a password.
    """
    parts = list(template.parts)
    for place in range(1, len(parts), 2):
        parts[place] = _text_of(parts[place], facts)
    path = "".join(parts)
    if any(step in {"", ".", ".."} for step in path.split("/")):
        raise ValueError(f"{template} would leave its folder on this node")
    return path


def has_odd_characters(text: str) -> bool:
    """Tell whether ``text`` holds control characters, line ends or surrogates."""
    return any(unicodedata.category(char) in _NOT_IN_NAMES for char in text)


def _text_of(name: str, facts: Mapping[str, Json]) -> str:
    value = _look_up(name, facts)
    if value is None:
        raise ValueError(f"the node has no fact {name}")
    if isinstance(value, bool):
        value = "true" if value else "false"
    elif isinstance(value, int):
        value = str(value)
    if not isinstance(value, str):
        raise ValueError(f"the fact {name} is no text or integer")
    if not value or value in {".", ".."} or "/" in value or "\\" in value or has_odd_characters(value):
        raise ValueError(f"the fact {name} can't be part of a file's name")
    return value


def _look_up(name: str, facts: Mapping[str, Json]) -> Json:
    if name in facts:
        return facts[name]
    value: Json = facts
    for step in name.split("."):
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, list) and step.isascii() and step.isdigit() and len(step) < 10:
            value = value[int(step)] if int(step) < len(value) else None
        else:
            return None
    return value
