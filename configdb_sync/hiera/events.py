"""libyaml's events, which Psych builds on too: the parser, what one scalar means, and the lines of keys.

Scalars that are quoted, plain or tagged mean what they mean to Psych's visitor.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from yaml import events
from yaml._yaml import CParser
from yaml.events import ScalarEvent

from configdb_sync.hiera.scalars import MERGE, Scalar, ScalarError, Special, resolve, to_float

# Any: PyYAML's stubs call every mark and anchor optional, which they are not where they are used here.
SCALAR: Any = events.ScalarEvent
ALIAS: Any = events.AliasEvent
MAPPING: Any = events.MappingStartEvent
MAPPING_END: Any = events.MappingEndEvent
SEQUENCE: Any = events.SequenceStartEvent
SEQUENCE_END: Any = events.SequenceEndEvent
DOCUMENT_END: Any = events.DocumentEndEvent
STREAM_END: Any = events.StreamEndEvent


def each_event(text: str) -> Iterator[Any]:
    """Yield the events of a text (without a BOM), ``STREAM_END`` left out. Raises ``yaml.YAMLError``."""
    next_event = CParser(text).get_event
    while type(event := next_event()) is not STREAM_END:
        yield event


_CORE = "tag:yaml.org,2002:"
_STRINGS = frozenset({_CORE + "str", "!str"})
_FLOATS = frozenset({_CORE + "float", "!float"})
_SYMBOLS = frozenset({"!ruby/sym", "!ruby/symbol"})
# Psych ignores these tags and goes by the scalar itself.
_BY_CONTENT = frozenset({"!", *(_CORE + name for name in ("int", "bool", "null", "timestamp", "merge", "value"))})

MAPPING_TAGS = frozenset({None, "!", _CORE + "map"})
SEQUENCE_TAGS = frozenset({None, "!", _CORE + "seq"})

_LONGEST_KNOWN = 64
_MOST_KNOWN = 20_000


class TagError(ScalarError):
    """A tag for values that JSON can't carry."""


class PlainScalars:
    """Remembers what plain scalars mean: every file has the same few thousand. Threads may share it."""

    def __init__(self) -> None:
        self.known: dict[str, Scalar] = {}

    def resolve(self, text: str) -> Scalar:
        """Return what Ruby reads for a plain scalar; raises ``ScalarError`` as ``scalars.resolve`` does."""
        # None is a value too, and another thread may empty the dictionary at any time.
        value = self.known.get(text, MERGE)
        if value is not MERGE:
            return value
        value = resolve(text)
        # Specials stay out: the builder relies on JSON having every scalar in ``known``.
        if len(text) <= _LONGEST_KNOWN and not isinstance(value, Special):
            if len(self.known) >= _MOST_KNOWN:
                self.known.clear()
            self.known[text] = value
        return value


def scalar_of(event: ScalarEvent, plain: PlainScalars) -> Scalar:
    """Return the value of one scalar event; raises ``ScalarError`` (``TagError`` for its tag)."""
    text: str = event.value
    tag: str | None = event.tag
    if tag in _STRINGS:
        return _without_nul(text)
    if event.implicit[1]:
        # A quoted ``<<`` is a merge key too; only the tag of strings makes it a string.
        return MERGE if text == MERGE.text else _without_nul(text)
    if tag is None or tag in _BY_CONTENT:
        return _without_nul(plain.resolve(text))
    if tag in _SYMBOLS:
        return _without_nul(Special("symbol", ":" + text))
    if tag in _FLOATS:
        return to_float(text)
    raise TagError(tag)


def _without_nul(value: Scalar) -> Scalar:
    """Return ``value``; ``ScalarError`` if it holds NUL, which no database and no XML carries."""
    text = value.text if isinstance(value, Special) else value
    if isinstance(text, str) and "\0" in text:
        raise ScalarError("holds the character NUL")
    return value


def key_value(value: object) -> str | Special:
    """Return a mapping's key as it is held: a string, or a ``Special`` for integers, Symbols, dates and times.

    Raises ``ScalarError`` for keys that JSON can't carry: true, false, null, floats and collections.
    """
    if isinstance(value, str | Special):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return Special("integer", str(value))
    raise ScalarError("has a key that is neither a string nor an integer, Symbol, date or time")


_COMPLEX = object()


@dataclass(frozen=True, slots=True)
class KeyPlace:
    """A key, the keys and indexes above it, and its line (from 1). ``refused``: JSON can't carry it."""

    path: tuple[object, ...]
    key: str | Special
    line: int
    refused: bool = False

    @property
    def text(self) -> str:
        """The key as JSON has it."""
        return str(self.key)


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
    """Return every key of every mapping of a text that libyaml can parse, in file order; merge keys left out."""
    return (place for _, place in _walk(text, plain))


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
    for event in each_event(text):
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
