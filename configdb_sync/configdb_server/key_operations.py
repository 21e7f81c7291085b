"""Keys operations on one JSON value: ``set``, ``delete``, ``get`` by paths of keys and indexes. Pure.

Compatible with tuning-box master: parents must exist, list items go by number or numeric text, negative ones from
the end. Every fault is a ``KeyPathError`` (409). For an index that is no number, tuning-box differs.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeGuard

from configdb_sync.configdb_server.contents import check_count, checked_text
from configdb_sync.configdb_server.messages import ConfigDBRequest
from configdb_sync.errors import ConfigDBError
from configdb_sync.jsonvalues import Json, check_depth
from configdb_sync.web.refusals import refuse

_PLACE = re.compile(r"-?[0-9]{1,19}")  # no list is longer


@dataclass(eq=False)
class KeyPathError(ConfigDBError):
    """A path that doesn't lead where the operation must go. The text names the path, never a value."""


def is_paths(value: Json) -> TypeGuard[list[list[Json]]]:
    """Tell whether a body is a list of lists."""
    return isinstance(value, list) and all(isinstance(path, list) for path in value)


def set_keys(value: Json, paths: Sequence[Sequence[Json]]) -> Json:
    """Return a copy in which each path's last key holds what follows it: ``["a", "b", VALUE]``.

    Raises ``KeyPathError`` where a parent is missing or a leaf is in the way; only the last key may be new.
    """
    changed = copy.deepcopy(value)
    for path in paths:
        if len(path) < 2:
            raise KeyPathError(f"a path of set needs at least a key and a value, not {len(path)} items")
        *parents, last, new = path
        holder = _walk(changed, parents, [*parents, last])
        _put(holder, last, new, [*parents, last])
    return changed


def delete_keys(value: Json, paths: Sequence[Sequence[Json]]) -> Json:
    """Return a copy without the paths' last keys. An empty path is skipped. Raises ``KeyPathError``."""
    changed = copy.deepcopy(value)
    for path in paths:
        if not path:
            continue
        holder = _walk(changed, path[:-1], path)
        _step(holder, path[-1], path)
        del holder[_key(holder, path[-1], path)]
    return changed


def get_keys(value: Json, paths: Sequence[Sequence[Json]]) -> list[Json]:
    """Return the values that the paths lead to, in their order. Raises ``KeyPathError``."""
    return [_walk(value, path, path) for path in paths]


def _walk(value: Json, keys: Sequence[Json], path: Sequence[Json]) -> Json:
    for key in keys:
        value = _step(value, key, path)
    return value


def _step(holder: Json, key: Json, path: Sequence[Json]) -> Json:
    try:
        return holder[_key(holder, key, path)]
    except (KeyError, IndexError):
        raise KeyPathError(f"there is no {_text(key)} on the path {_text(path)}") from None


def _put(holder: Json, key: Json, new: Json, path: Sequence[Json]) -> None:
    place = _key(holder, key, path)
    try:
        holder[place] = copy.deepcopy(new)
    except IndexError:
        raise KeyPathError(f"there is no {_text(key)} on the path {_text(path)}") from None


def _key(holder: Json, key: Json, path: Sequence[Json]) -> str | int:
    if isinstance(holder, dict):
        if isinstance(key, str):
            return key
        raise KeyPathError(f"{_text(key)} on the path {_text(path)} is no text, and a mapping's keys are")
    if not isinstance(holder, list):
        raise KeyPathError(f"before {_text(key)} the path {_text(path)} ends in a leaf")
    if isinstance(key, int) and not isinstance(key, bool):
        return key
    if isinstance(key, str) and _PLACE.fullmatch(key):
        return int(key)
    raise KeyPathError(f"{_text(key)} on the path {_text(path)} is no number, and a list's places are")


def _text(value: Json) -> str:
    if isinstance(value, str):
        text = repr(value)
    elif isinstance(value, Sequence):
        text = ".".join(_short(item) for item in value)
    else:
        text = _short(value) if isinstance(value, int) else f"a {type(value).__name__}"
    return text if len(text) <= 200 else f"{text[:200]}..."


def _short(item: Json) -> str:
    if isinstance(item, int):
        return str(item) if abs(item) < 10**20 else "a huge number"
    return item if isinstance(item, str) else type(item).__name__


def read_paths(request: ConfigDBRequest) -> list[list[Json]]:
    """Return the body of a keys operation. Raises ``RefusalError`` 422 for anything but a list of lists."""
    body = request.body()
    if not is_paths(body):
        raise refuse(422, "a keys operation takes an array of paths, each an array")
    return body


def operate(operation: str, value: Json, paths: list[list[Json]]) -> Json:
    """Return what a keys operation makes of ``value``. Raises ``RefusalError`` 409."""
    operations = {"set": set_keys, "delete": delete_keys, "get": get_keys}
    try:
        return operations[operation](value, paths)
    except KeyPathError as fault:
        raise refuse(409, fault.what) from None


def checked_result(value: Json, limit: int) -> str:
    """Return the JSON text of what a keys operation made. Raises ``RefusalError`` 413, 422."""
    try:
        check_depth(value)
    except ValueError as error:
        raise refuse(422, f"the result would be {error}") from None
    text = checked_text(value)
    check_count(text, "the result")
    if len(text) > limit:
        raise refuse(413, f"the result would be larger than {limit} bytes")
    return text
