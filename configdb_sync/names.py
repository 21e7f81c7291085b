"""Names: of the product's own things in ConfigDB, how all are bounded, put in order and shown. Pure."""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Iterable

NAME_LIMIT = 128
"""Characters of a name or a level value that ConfigDB stores: the width of tuning-box's columns."""

RECORDS = "records"
"""The data source that holds the product's own records of an environment (U18); it is no file and no tenant's."""

HIERARCHY = "/hierarchy"
"""The key of a node's records that holds its hierarchy (U24). All others are data sources: none has such a name."""

LevelPath = tuple[tuple[str, str], ...]
"""Hierarchy levels from the root's side with the value at each: ``(("nodes", "46"),)``; ``()`` is the root."""

_DIGEST = 32
_MATCHES = 5
_DIGITS = re.compile(r"([0-9]+)")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``did you mean a or b? `` for a misspelt name, an empty text if none that is known is close to it."""
    close = difflib.get_close_matches(name, list(known), _MATCHES)
    return f"did you mean {' or '.join(close)}? " if close else ""


def component_name(tenant: str, environment: int) -> str:
    """Return the name of the component that groups a tenant's data sources of an environment.

    ``<tenant>/<environment>``; where that is longer than ``NAME_LIMIT`` it is cut and ends in a digest of the whole.
    """
    name = f"{tenant}/{environment}"
    if len(name) <= NAME_LIMIT:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGEST]
    return f"{name[: NAME_LIMIT - _DIGEST - 1]}~{digest}"


def records_component(environment: int) -> str:
    """Return the name of the component of the product's own records; no tenant's can begin with a slash."""
    return f"/configdb-sync/{environment}"


def place_of(levels: Iterable[tuple[str, str]]) -> str:
    """Return a path as ConfigDB shows it: ``/cluster/c1/nodes/n1/``, ``/`` for the root."""
    return "/" + "".join(f"{name}/{value}/" for name, value in levels)


def levels_of(place: str) -> LevelPath:
    """Return the levels of a path that ``place_of`` made; neither their names nor their values hold a slash."""
    parts = place.strip("/").split("/") if place != "/" else []
    return tuple(zip(parts[::2], parts[1::2], strict=True))


def natural_key(identity: str) -> tuple[tuple[str | tuple[int, str], ...], str]:
    """Return a sort key that puts ``2`` before ``10``, numbers before names, and keeps ``07`` and ``7`` apart."""
    parts = _DIGITS.split(identity)
    return tuple(_number(part) if place % 2 else part for place, part in enumerate(parts)), identity


def _number(digits: str) -> tuple[int, str]:
    # Python makes no int of thousands of digits.
    plain = digits.lstrip("0")
    return len(plain), plain


def one_line(text: str, limit: int | None = None) -> str:
    """Return text that can't break out of its line: whatever isn't printable is escaped; cut at ``limit``."""
    shown = "".join(character if character.isprintable() else _escaped(character) for character in text)
    return shown if limit is None or len(shown) <= limit else f"{shown[: limit - 1]}…"


def _escaped(character: str) -> str:
    number = ord(character)
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
