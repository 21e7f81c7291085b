"""Strong entity tags (T2): digests of what a representation depends on, without quotes. Pure."""

from __future__ import annotations

import hashlib

from configdb_sync.web.requests import Tags

_LENGTH = 40


def of_parts(*parts: object) -> str:
    """Return the tag of what these parts (texts and numbers) tell apart."""
    text = "\0".join(map(str, parts))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_LENGTH]


def of_body(body: bytes) -> str:
    """Return the tag of an answer by its bytes."""
    return hashlib.sha256(body).hexdigest()[:_LENGTH]


def matches(condition: Tags | None, *current: str) -> bool:
    """Tell whether If-Match lets a change of what has one of these tags through; none: it isn't there."""
    if condition is None:
        return True
    if condition.any:
        return bool(current)
    return bool(condition.strong.intersection(current))


def none_matches(condition: Tags | None, *current: str) -> bool:
    """Tell whether If-None-Match lets a request through."""
    if condition is None:
        return True
    if condition.any:
        return not current
    return not (condition.strong | condition.weak).intersection(current)
