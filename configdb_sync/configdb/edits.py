"""Changes of one key of a document (U16). Pure: they return a new document and change nothing in place.

ConfigDB merges whole top-level keys. A change below one therefore writes the whole *block*, the value of that
top-level key, as it stands where the change is made, with the one leaf set.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TypeAlias

from configdb_sync.errors import SettingsError
from configdb_sync.jsonvalues import Document, Json, same
from configdb_sync.names import did_you_mean

KeyPath: TypeAlias = tuple[str, ...]
"""Keys from a document's top level down; an item of a list by its index, as text."""


ALL_OVERRIDES = "`configdb-sync overrides` lists the overrides of an environment"
"""The way out for whoever looks for an override in the wrong place."""


class NoSuchKeyError(SettingsError):
    """The key that was named isn't there, or what is on its way can't hold it."""


class NotOverriddenError(SettingsError):
    """The key whose override was to be removed has none."""


def parse_key(text: str) -> KeyPath:
    """Return the path of ``a.b``, or of a JSON list of texts for keys that hold dots: ``["DEFAULT/x", "a.b"]``.

    Raises ``SettingsError`` for an empty key or a list of something else.
    """
    if text.startswith("["):
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, list) or not found or not all(isinstance(part, str) for part in found):
            raise SettingsError(f"key {text!r} is no JSON list of texts", way_out='like ["DEFAULT/x", "a.b"]')
        return tuple(found)
    path = tuple(text.split("."))
    if "" in path:
        raise SettingsError(f"key {text!r} has an empty part", way_out='for keys with dots: ["a.b", "c"]')
    return path


def shown_key(path: Sequence[str]) -> str:
    """Return the text of a path that ``parse_key`` reads back."""
    plain = bool(path) and all(part and "." not in part for part in path) and not path[0].startswith("[")
    return ".".join(path) if plain else json.dumps(list(path), ensure_ascii=False)


def get(document: Document, path: KeyPath) -> Json:
    """Return the value at ``path``; ``NoSuchKeyError`` if there is none."""
    here: Json = document
    for depth, part in enumerate(path):
        if isinstance(here, dict) and part in here:
            here = here[part]
        elif isinstance(here, list) and (index := _index(here, part)) is not None:
            here = here[index]
        else:
            raise NoSuchKeyError(f"there is no key {shown_key(path[: depth + 1])}", way_out=_offer(here, part))
    return here


def has(document: Document, path: KeyPath) -> bool:
    """Tell whether there is a value at ``path``."""
    try:
        get(document, path)
    except NoSuchKeyError:
        return False
    return True


def put(document: Document, beneath: Document, path: KeyPath, value: Json) -> dict[str, Json]:
    """Return ``document`` with ``value`` at ``path``.

    A change below a top-level key that ``document`` doesn't hold begins with the block that ``beneath`` has there: what
    is seen now at that place (the effective data), so that its other leaves stay. Mappings on the way are made where
    they are missing; an index must be there. Raises ``NoSuchKeyError`` where a text, a number or null is in the way.
    """
    top, rest = path[0], path[1:]
    if not rest:
        return {**document, top: value}
    block = document[top] if top in document else beneath.get(top, {})
    return {**document, top: _set(block, rest, value, path)}


def drop(document: Document, path: KeyPath) -> dict[str, Json]:
    """Return ``document`` without the key at ``path``; ``NoSuchKeyError`` if it isn't there."""
    get(document, path)
    return dict(_without(document, path))


def free(overrides: Document, beneath: Document, path: KeyPath) -> dict[str, Json]:
    """Return ``overrides`` without the override at ``path``.

    ``beneath`` is what is seen there without these overrides. Below a top-level key the leaf gets the value of
    ``beneath`` again, or goes if that has none; a block that then is as beneath goes whole. Raises
    ``NotOverriddenError``.
    """
    top, rest = path[0], path[1:]
    if top not in overrides:
        raise NotOverriddenError(f"{shown_key(path)} isn't overridden", way_out=_overridden(overrides))
    if not rest:
        return dict(_without(overrides, path))
    if not has(overrides, path):
        if not has(beneath, path):
            raise NotOverriddenError(
                f"{shown_key(path)} isn't overridden, there is no such key", way_out=_overridden(overrides)
            )
        try:
            freed: Json = _set(overrides[top], rest, get(beneath, path), path)
        except NoSuchKeyError:
            raise NotOverriddenError(
                f"{top} is overridden as a whole, by something that holds no {shown_key(path)}",
                way_out=f"rm-override --key {shown_key((top,))} takes that override",
            ) from None
    elif has(beneath, path):
        if same(get(overrides, path), get(beneath, path)):
            raise NotOverriddenError(
                f"the override of {top} leaves {shown_key(path)} as it is",
                way_out=_leaves(overrides[top], beneath.get(top), top),
            )
        freed = _set(overrides[top], rest, get(beneath, path), path)
    else:
        freed = _pruned(overrides, beneath, path)
    if (top in beneath and same(freed, beneath[top])) or (top not in beneath and freed in ({}, [])):
        return dict(_without(overrides, (top,)))
    return {**overrides, top: freed}


def changed_leaves(before: Json, after: Json, path: KeyPath = ()) -> list[KeyPath]:
    """Return the paths at which two values differ, as deep as both are mappings, in the order of their keys."""
    if isinstance(before, dict) and isinstance(after, dict):
        keys = [*before, *(key for key in after if key not in before)]
        return [
            leaf
            for key in keys
            for leaf in (
                changed_leaves(before[key], after[key], (*path, key))
                if key in before and key in after
                else [(*path, key)]
            )
        ]
    return [] if same(before, after) else [path]


def _set(block: Json, rest: KeyPath, value: Json, path: KeyPath) -> Json:
    if not rest:
        return value
    part, deeper = rest[0], rest[1:]
    if isinstance(block, dict):
        return {**block, part: _set(block.get(part, {}), deeper, value, path)}
    if isinstance(block, list) and (index := _index(block, part)) is not None:
        return [*block[:index], _set(block[index], deeper, value, path), *block[index + 1 :]]
    place = path[: len(path) - len(rest)]
    kind = "a list without that index" if isinstance(block, list) else "no mapping"
    raise NoSuchKeyError(f"{shown_key(path)} can't be set: {shown_key(place)} is {kind}", way_out=_offer(block))


def _without(here: Json, path: KeyPath) -> Json:
    part, rest = path[0], path[1:]
    if isinstance(here, dict):
        if rest:
            return {**here, part: _without(here[part], rest)}
        return {key: value for key, value in here.items() if key != part}
    index = int(part)
    return [*here[:index], *([_without(here[index], rest)] if rest else []), *here[index + 1 :]]


def _pruned(overrides: Document, beneath: Document, path: KeyPath) -> Json:
    """Return the block without the leaf, and without the mappings that only that leaf had made necessary."""
    document: Json = _without(overrides, path)
    for end in range(len(path) - 1, 1, -1):
        parent = path[:end]
        if has(beneath, parent) or get(document, parent) != {}:
            break
        document = _without(document, parent)
    return document[path[0]]


def _index(items: list[Json], part: str) -> int | None:
    if part.isascii() and part.isdigit() and len(part) < 10 and int(part) < len(items):
        return int(part)
    return None


def _offer(here: Json, wanted: str = "") -> str:
    if isinstance(here, dict):
        keys = sorted(here)
        listed = ", ".join(keys[:12]) + (", ..." if len(keys) > 12 else "")
        return f"{did_you_mean(wanted, keys)}the keys there: {listed}" if keys else "there are no keys"
    if isinstance(here, list):
        return f"a list of {len(here)}: an index counts from 0" if here else "the list there is empty"
    return "what is there holds no keys"


def _overridden(overrides: Document) -> str:
    return (
        f"overridden there: {', '.join(sorted(overrides))}"
        if overrides
        else f"nothing is overridden there; {ALL_OVERRIDES}"
    )


def _leaves(block: Json, beneath: Json, top: str) -> str:
    leaves = [shown_key((top, *leaf)) for leaf in changed_leaves(beneath, block)]
    return f"overridden there: {', '.join(leaves[:12])}" if leaves else f"rm-override --key {top} takes the block"
