"""Where each key of each mapping stands: a slower look at a text in which keys repeat, collide or are refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from configdb_sync.hiera.events import (
    ALIAS,
    MAPPING,
    MAPPING_END,
    SCALAR,
    SEQUENCE,
    SEQUENCE_END,
    STREAM_END,
    events_of,
)
from configdb_sync.hiera.scalar_events import PlainScalars, key_value, scalar_of
from configdb_sync.hiera.special import MERGE, ScalarError, Special

_COMPLEX = object()


@dataclass(frozen=True, slots=True)
class KeyPlace:
    """A key as it is held, the keys and indexes above it, its line (from 1). ``refused``: JSON can't carry it."""

    path: tuple[object, ...]
    key: str | Special
    line: int
    refused: bool = False

    @property
    def text(self) -> str:
        """The key as JSON has it."""
        return self.key.text if isinstance(self.key, Special) else self.key


@dataclass(frozen=True, slots=True)
class Repeat:
    """A key that one mapping names twice, as JSON sees keys."""

    first: KeyPlace
    second: KeyPlace

    def shifted(self, lines: int) -> Repeat:
        """Return the same as seen from a text that begins so many lines earlier."""
        return Repeat(*(replace(place, line=place.line + lines) for place in (self.first, self.second)))

    @property
    def collision(self) -> bool:
        """Whether Ruby tells the two apart (``1`` and ``"1"``)."""
        return self.first.key != self.second.key


@dataclass(slots=True)
class _Level:
    mapping: bool
    path: tuple[object, ...]
    count: int = 0
    pending: object = None
    seen: dict[str, KeyPlace] = field(default_factory=dict)


def keys_of(text: str, plain: PlainScalars) -> Iterator[KeyPlace]:
    """Yield every key of every mapping of a text that libyaml can parse, in file order; merge keys left out."""
    for level, place in _walk(text, plain):
        del level
        yield place


def repeats_of(text: str, plain: PlainScalars) -> Iterator[Repeat]:
    """Yield every key that stands a second time in its mapping, as JSON sees keys, with the place before it."""
    for level, place in _walk(text, plain):
        first = level.seen.get(place.text)
        level.seen[place.text] = place
        if first is not None and not place.refused:
            yield Repeat(first, place)


def _walk(text: str, plain: PlainScalars) -> Iterator[tuple[_Level, KeyPlace]]:
    anchors: dict[str, Any] = {}
    levels = [_Level(mapping=False, path=())]
    for event in _events(text):
        kind = type(event)
        if kind is MAPPING_END or kind is SEQUENCE_END:
            levels.pop()
            continue
        if kind not in {SCALAR, ALIAS, MAPPING, SEQUENCE}:
            continue
        level = levels[-1]
        value = _value(event, plain, anchors)
        step: object = level.count
        if level.mapping:
            if level.count % 2 == 0:
                place = _place(level, value, event.start_mark.line + 1)
                level.pending = place.text if place else "<<"
                if place:
                    yield level, place
            step = level.pending
        level.count += 1
        if kind is MAPPING or kind is SEQUENCE:
            path = (*level.path, step) if len(levels) > 1 else ()
            levels.append(_Level(mapping=kind is MAPPING, path=path))


def _events(text: str) -> Iterator[Any]:
    next_event = events_of(text)
    event = next_event()
    while type(event) is not STREAM_END:
        yield event
        event = next_event()


def _value(event: Any, plain: PlainScalars, anchors: dict[str, Any]) -> Any:
    if isinstance(event, ALIAS):
        return anchors.get(event.anchor, _COMPLEX)
    value: Any = _COMPLEX
    if isinstance(event, SCALAR):
        try:
            value = scalar_of(event, plain)
        except ScalarError:
            value = _COMPLEX
    if event.anchor is not None:
        anchors[event.anchor] = value
    return value


def _place(level: _Level, value: Any, line: int) -> KeyPlace | None:
    if value is MERGE:
        return None
    try:
        return KeyPlace(level.path, key_value(value), line)
    except ScalarError:
        return KeyPlace(level.path, "?", line, refused=True)
