"""Looking a key up as Hiera does: layers in order, merge behaviours, dotted keys, interpolation (U24). Pure.

The rules are those of Puppet's ``lookup`` function, which for a single value are Hiera 3's too: the root key is looked
up and merged first, the rest of a dotted key then leads into the result. ``deep`` is what ``hiera_hash`` gives with
``merge_behavior: deeper``, as Fuel's ``hiera.yaml`` has it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from configdb_sync.jsonvalues import ABSENT, Document, Json, Slot, canonical

Key: TypeAlias = "tuple[str | int, ...]"
"""A dotted key in segments; the first one is text, a later integer stands for the item of a list."""

_SEGMENTS = re.compile(r"""(\s*"[^"]+"\s*|\s*'[^']+'\s*|[^'".]+)""")
_INDEX = re.compile(r"[+-]?[0-9]+", re.ASCII)
_EXPRESSION = re.compile(r"%\{([^}]*)\}")
_METHOD = re.compile(r"""(\w+)\((?:"([^"]+)"|'([^']+)')\)""", re.ASCII)
_EMPTY = frozenset({"", "::", '""', "''", '"::"', "'::'"})
_DEEPEST = 50


class Merge(Enum):
    """A merge behaviour, by Puppet's name."""

    FIRST = "first"
    UNIQUE = "unique"
    HASH = "hash"
    DEEP = "deep"


class HieraLookupError(ValueError):
    """Hiera would fail: values that can't be merged, a key that isn't well formed, interpolation without an end."""


@dataclass(frozen=True)
class Layer:
    """One document of the hierarchy; ``name`` is what an error calls it."""

    name: str
    document: Document = field(repr=False)


@dataclass(frozen=True)
class Answer:
    """What a lookup gives. ``layers``: places in the sequence of layers that hold the root key, in Hiera's order;
    with ``Merge.FIRST`` only the first of them gave the value. ``unknown``: variables that were interpolated as
    an empty text because nothing is known of them."""

    found: bool
    value: Json = field(repr=False)
    layers: tuple[int, ...]
    unknown: frozenset[str] = frozenset()


def parse_key(text: str) -> Key:
    """Return the segments of a dotted key; quotes hold dots together (``"a.b".c``). Raises ``HieraLookupError``."""
    if not re.search(r"""['".]""", text):
        return (text,)
    parts = _SEGMENTS.split(text)
    segments = parts[1::2]
    # Between two segments is a dot, and nothing else; at the ends there is nothing.
    if not segments or parts[0] or parts[-1] or any(between != "." for between in parts[2:-1:2]):
        raise HieraLookupError(f'the key {text!r} is not well formed: write a.b, or "a.b" for a key with a dot')
    return tuple(_segment(part.strip(), first=not place) for place, part in enumerate(segments))


def _segment(text: str, *, first: bool) -> str | int:
    if text[:1] in {'"', "'"}:
        return text[1:-1]
    return int(text) if _INDEX.fullmatch(text) and not first and len(text) < 10 else text


def lookup(
    key: Key, layers: Sequence[Layer], merge: Merge = Merge.FIRST, scope: Mapping[str, Json] | None = None
) -> Answer:
    """Return what Hiera answers for ``key`` from layers in its order, the one asked first coming first.

    ``scope``: the variables that interpolation knows, without ``::``. Raises ``HieraLookupError``.
    """
    return _Lookup(layers, scope or {}).look_up(key, merge)


def interpolate(value: Json, scope: Mapping[str, Json]) -> tuple[Json, frozenset[str]]:
    """Return a value with the variables of ``scope`` put in, and the names of variables that it lacks.

    Raises ``HieraLookupError``, also where the value asks for another key.
    """
    context = _Lookup((), scope)
    return context.interpolated(value), context.unknown


class _Lookup:
    def __init__(self, layers: Sequence[Layer], scope: Mapping[str, Json]) -> None:
        self._layers = layers
        self._scope = scope
        self._unknown: set[str] = set()
        self._depth = 0

    @property
    def unknown(self) -> frozenset[str]:
        """The variables that were asked for and that the scope lacks."""
        return frozenset(self._unknown)

    def look_up(self, key: Key, merge: Merge) -> Answer:
        root = str(key[0])
        places = [place for place, layer in enumerate(self._layers) if root in layer.document]
        if not places:
            return Answer(False, None, ())
        taken = places[:1] if merge is Merge.FIRST else places
        values = [(self._layers[place].name, self.interpolated(self._layers[place].document[root])) for place in taken]
        value = _dig(key[1:], _merged(root, values, merge, single=len(self._layers) == 1))
        found = value is not ABSENT
        return Answer(found, value if found else None, tuple(places), self.unknown)

    def interpolated(self, value: Json) -> Json:
        if isinstance(value, str):
            return self._text(value) if "%{" in value else value
        if isinstance(value, list):
            return [self.interpolated(item) for item in value]
        if isinstance(value, dict):
            return {self._key_text(key): self.interpolated(item) for key, item in value.items()}
        return value

    def _key_text(self, key: str) -> str:
        value = self.interpolated(key)
        return value if isinstance(value, str) else _as_text(value)

    def _text(self, subject: str) -> Json:
        if self._depth > _DEEPEST:
            raise HieraLookupError(f"the interpolation of {_EXPRESSION.findall(subject)[:1]} has no end")
        self._depth += 1
        try:
            return self._replaced(subject)
        finally:
            self._depth -= 1

    def _replaced(self, subject: str) -> Json:
        parts, end = [], 0
        for match in _EXPRESSION.finditer(subject):
            expression = match[1].strip()
            value: Json = ""
            if expression not in _EMPTY:
                method = _METHOD.fullmatch(expression)
                if method and method[1] == "alias":
                    if match[0] != subject:
                        raise HieraLookupError(f"alias({method[2] or method[3]}) must be the whole text of its value")
                    return self._other(method[2] or method[3])
                value = self._value(expression, method)
            parts += [subject[end : match.start()], _as_text(value)]
            end = match.end()
        return "".join(parts) + subject[end:]

    def _value(self, expression: str, method: re.Match[str] | None) -> Json:
        if method is None:
            return self.interpolated(self._variable(expression))
        argument = method[2] or method[3]
        if method[1] == "literal":
            return argument
        if method[1] == "scope":
            return self.interpolated(self._variable(argument))
        if method[1] in {"hiera", "lookup"}:
            return self._other(argument)
        raise HieraLookupError(f"{method[1]}() is no interpolation function of Hiera")

    def _other(self, key: str) -> Json:
        return self.look_up(parse_key(key), Merge.FIRST).value

    def _variable(self, name: str) -> Json:
        key = parse_key(name)
        root = str(key[0]).removeprefix("::")
        if root not in self._scope:
            self._unknown.add(root)
            return ""
        value = _dig(key[1:], self._scope[root])
        return "" if value is ABSENT else value


def _dig(key: Key, value: Json) -> Slot:
    """Return the value that the segments lead to, or ``ABSENT``."""
    for segment in key:
        if value is None:
            return ABSENT
        if isinstance(segment, int) and isinstance(value, list):
            if not 0 <= segment < len(value):
                return ABSENT
        elif not isinstance(value, dict):
            raise HieraLookupError(f"the segment {segment!r} of the key leads into a value that is no mapping")
        elif segment not in value:
            return ABSENT
        value = value[segment]
    return value


def _as_text(value: Json) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else canonical(value)


def _merged(root: str, values: Sequence[tuple[str, Json]], merge: Merge, *, single: bool) -> Json:
    if merge is Merge.FIRST:
        return values[0][1]
    behaviour = _BEHAVIOURS[merge]
    name, first = values[0]
    if merge is Merge.UNIQUE:
        # Puppet drops repeated items of a list that nothing is merged with only in a hierarchy of one file.
        whole: Json = _flat(_union(first) if single and isinstance(first, list) else first)
    else:
        whole = first
    for other_name, other in values[1:]:
        for where, value in ((name, whole), (other_name, other)):
            if merge is Merge.HASH and not isinstance(value, dict):
                raise HieraLookupError(f"{root} in {where} is no mapping, so it can't be merged by hash")
            if merge is Merge.UNIQUE and isinstance(value, dict | None):
                raise HieraLookupError(f"{root} in {where} is no list or single value, so it can't be merged by unique")
        whole, name = behaviour(whole, other), other_name
    return whole


def _flat(value: Json) -> list[Json]:
    if not isinstance(value, list):
        return [value]
    return [inner for item in value for inner in (_flat(item) if isinstance(item, list) else [item])]


def _union(*lists: list[Json]) -> list[Json]:
    found: dict[str, Json] = {}
    for one in lists:
        for item in one:
            found.setdefault(canonical(item), item)
    return list(found.values())


def _unique(upper: Json, lower: Json) -> Json:
    return _union(_flat(upper), _flat(lower))


def _hash(upper: Json, lower: Json) -> Json:
    return {**lower, **upper}


def _deep(upper: Json, lower: Json) -> Json:
    """Return ``upper`` laid over ``lower`` as the library deep_merge does, with its peculiarities: lists are joined
    without repetition, also one that only ``upper`` has, and an empty mapping replaces nothing."""
    if upper is None:
        return lower
    if lower is None or lower is False:
        return upper
    if isinstance(upper, dict):
        if not upper:
            return lower
        keys = iter(upper)
        if isinstance(lower, dict):
            whole = dict(lower)
        else:
            # The first key finds a value that is no mapping and is replaced with all others, which are then merged
            # into themselves.
            whole = dict(upper)
            next(keys)
        for key in keys:
            beneath = whole.get(key)
            whole[key] = _deep(upper[key], upper[key] if beneath is None or beneath is False else beneath)
        return whole
    if isinstance(upper, list) and isinstance(lower, list):
        return _union(lower, upper)
    return upper


_BEHAVIOURS: Mapping[Merge, Callable[[Json, Json], Json]] = {
    Merge.UNIQUE: _unique,
    Merge.HASH: _hash,
    Merge.DEEP: _deep,
}
