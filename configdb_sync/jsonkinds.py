"""Of what kind a JSON value is, for those who read peers' answers and say what is wrong with them."""

from __future__ import annotations

from typing import Any

from configdb_sync.jsonvalues import Json

_KINDS = {dict: "an object", list: "a list", str: "a text", bool: "a truth value", type(None): "missing or null"}


def kind_of(value: Json) -> str:
    """Return the kind of a value in words."""
    return _KINDS.get(type(value), "a number")


def an_object(value: Any, what: str) -> dict[str, Json]:
    """Return an object; ValueError names ``what`` was to be one."""
    if not isinstance(value, dict):
        raise ValueError(f"{what} is an object, this is {kind_of(value)}")
    return value


def a_list(value: Any, what: str) -> list[Json]:
    """Return a list; ValueError names ``what`` was to be one."""
    if not isinstance(value, list):
        raise ValueError(f"{what} is {kind_of(value)}, not a list")
    return value
