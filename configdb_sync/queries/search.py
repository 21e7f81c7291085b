"""Finding keys and values in the settings of an environment's nodes (U26). Pure."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from configdb_sync.configdb.edits import KeyPath
from configdb_sync.errors import SettingsError
from configdb_sync.jsonvalues import ABSENT, Json, Slot, canonical, loads, same
from configdb_sync.masking import Masker


@dataclass(frozen=True)
class Pattern:
    """What ``find`` looks for: keys whose last parts match, each by a glob; and values, by a glob or equality.

    ``parts``: globs for the end of a key's path: ``debug`` finds ``nova.debug`` too, ``nova.*`` all that is right below
    a ``nova``. ``value``: the text of a value, or a glob of one unless ``exact``; ``typed``: the same text as JSON,
    where it is JSON.
    """

    parts: tuple[str, ...]
    value: str | None = None
    typed: Slot = ABSENT
    exact: bool = False

    def matches_key(self, path: KeyPath) -> bool:
        """Tell whether the path ends as the pattern says."""
        if len(path) < len(self.parts):
            return False
        ends = path[len(path) - len(self.parts) :]
        return all(_glob(part).fullmatch(name) for part, name in zip(self.parts, ends, strict=True))

    def matches_value(self, path: KeyPath, value: Json, masker: Masker) -> bool:
        """Tell whether the value is the one looked for. A secret is compared as a whole, never by a glob: that would
        tell it letter by letter."""
        if self.value is None:
            return True
        if self.typed is not ABSENT and same(self.typed, value):
            return True
        if isinstance(value, dict | list):
            return False
        text = value if isinstance(value, str) else canonical(value)
        if text == self.value or self.exact:
            return text == self.value
        return same(masker.shown(path, value), value) and _glob(self.value).fullmatch(text) is not None


@dataclass(frozen=True)
class Hit:
    """A key with one of its values, and the nodes that have it."""

    data_source: str
    path: KeyPath
    value: Json = field(repr=False)
    nodes: tuple[str, ...]


def parse_pattern(text: str, value: str | None = None, *, exact: bool = False) -> Pattern:
    """Return the pattern of a dotted text, whose parts may hold ``*``, ``?`` and ``[...]``.

    ``exact``: these are none in the value. Raises ``SettingsError`` for an empty part.
    """
    parts = tuple(text.split("."))
    if "" in parts:
        raise SettingsError(f"the pattern {text!r} has an empty part", way_out="like debug, nova.debug or *_password")
    return Pattern(parts, value, ABSENT if value is None else _typed(value), exact)


class Search:
    """Looks for a pattern in many documents. What is below the same object as in a document before is known."""

    def __init__(self, pattern: Pattern, masker: Masker) -> None:
        self._pattern = pattern
        self._masker = masker
        self._ends: dict[str, bool] = {}
        self._known: dict[tuple[str, str], tuple[Json, list[tuple[KeyPath, Json]]]] = {}

    def matches(self, name: str, document: Mapping[str, Json]) -> Iterator[tuple[KeyPath, Json]]:
        """Yield the keys of a data source's document that match, with their values; of a mapping that matches not what
        is below it too, unless that matches by itself."""
        for key, value in document.items():
            known = self._known.get((name, key))
            if known is None or known[0] is not value:
                known = self._known[name, key] = value, list(self._walk((), [(key, value)]))
            yield from known[1]

    def _walk(self, above: KeyPath, items: Iterable[tuple[str, Json]]) -> Iterator[tuple[KeyPath, Json]]:
        # Most keys do not match: whether one does is remembered, and its path is made only then.
        for key, value in items:
            ends = self._ends.get(key)
            if ends is None:
                ends = self._ends[key] = _glob(self._pattern.parts[-1]).fullmatch(key) is not None
            if ends:
                path = (*above, key)
                if self._pattern.matches_key(path) and self._pattern.matches_value(path, value, self._masker):
                    yield path, value
            if type(value) is dict:
                yield from self._walk((*above, key), value.items())
            elif type(value) is list:
                children = ((str(place), child) for place, child in enumerate(value))
                yield from self._walk((*above, key), children)


def grouped(found: Iterable[tuple[str, str, KeyPath, Json]]) -> list[Hit]:
    """Return hits from (node, data source, key, value): one for each value of a key, the rarest value first."""
    groups: dict[tuple[str, KeyPath], dict[str, tuple[Json, list[str]]]] = {}
    for node, data_source, path, value in found:
        by_value = groups.setdefault((data_source, path), {})
        by_value.setdefault(canonical(value), (value, []))[1].append(node)
    return [
        Hit(data_source, path, value, tuple(nodes))
        for (data_source, path), by_value in groups.items()
        for value, nodes in sorted(by_value.values(), key=lambda one: len(one[1]))
    ]


@lru_cache(maxsize=100)
def _glob(text: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(text))


def _typed(text: str) -> Slot:
    try:
        return loads(text)
    except ValueError:
        return ABSENT
