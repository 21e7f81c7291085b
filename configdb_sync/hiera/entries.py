"""Top-level keys with their value, JSON, digest and type marks, made once per distinct block of text."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from configdb_sync.hiera.blocks import split_body
from configdb_sync.hiera.builder import Anchored, Value, build
from configdb_sync.hiera.errors import UnreadableDocumentError, fault, path_text, printable
from configdb_sync.hiera.events import PlainScalars, Repeat, repeats_of
from configdb_sync.hiera.marks import CollisionError, key_to_json, to_json
from configdb_sync.jsonvalues import Json, canonical, dumps

T = TypeVar("T")

_CUT_FROM = 6000
"""A piece of at least so many characters is cut further; parsing a smaller one is faster than cutting it."""

_DEEPEST_CUT = 4

MAX_JSON = 1 << 26
"""Longest JSON text of one document, in bytes; only aliases and escapes could make one."""


class BlockCache(Generic[T]):
    """Remembers values by key as long as the sum of their costs stays within ``budget``. Safe for threads.

    The least recently used go first.
    """

    def __init__(self, budget: int) -> None:
        self.cost = 0
        self._budget = budget
        self._held: OrderedDict[Hashable, tuple[T, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> T | None:
        """Return the value remembered for ``key``, or None."""
        with self._lock:
            found = self._held.get(key)
            if found is None:
                return None
            self._held.move_to_end(key)
            return found[0]

    def put(self, key: Hashable, value: T, cost: int) -> None:
        """Remember ``value``, then forget what is over the budget, ``value`` itself if need be."""
        with self._lock:
            self.cost += cost - self._held.pop(key, (None, 0))[1]
            self._held[key] = value, cost
            while self.cost > self._budget:
                self.cost -= self._held.popitem(last=False)[1][1]

    def grow(self, budget: int) -> None:
        """Raise the budget to ``budget`` if it is lower."""
        with self._lock:
            self._budget = max(self._budget, budget)


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """One top-level key. ``member`` is ``"key":value`` in JSON, ``marks`` None or ``{"key": KIND, "value": MARKS}``."""

    key: str
    value: Json
    member: str
    digest: str
    marks: Json

    @classmethod
    def of(cls, key: str, value: Json, marks: Json = None) -> KeyEntry:
        """Return the entry of a JSON value."""
        return _part(key, value).entry(marks)


@dataclass(frozen=True, slots=True)
class Block:
    """The keys of one piece of a file, the repeated keys (lines count from the piece's first), and its anchors.

    ``anchors`` are those that it defines for the pieces after it, ``uses`` those that it uses from pieces before it.
    """

    entries: tuple[KeyEntry, ...]
    repeats: tuple[Repeat, ...] = ()
    anchors: Mapping[str, Anchored] = field(default_factory=dict)
    uses: frozenset[str] = frozenset()

    @property
    def cost(self) -> int:
        """Characters of JSON held."""
        return sum(len(entry.member) for entry in self.entries)


@dataclass(frozen=True, slots=True)
class _Part:
    """A key's value (or an item, key None) within a block, with both JSON texts for joining."""

    key: str | None
    value: Json
    text: str
    canonical: str

    def entry(self, marks: Json = None) -> KeyEntry:
        digest = hashlib.sha256(self.canonical.encode("ascii")).hexdigest()
        return KeyEntry(self.key or "", self.value, f"{json.dumps(self.key)}:{self.text}", digest, marks)


def _part(key: str | None, value: Json) -> _Part:
    text = dumps(value)
    plain = canonical(value) if isinstance(value, dict | list) else text
    return _Part(key, value, text, text if plain == text else plain)


class _NotApartError(Exception):
    """A piece has another meaning alone than within the whole, or is of a kind that isn't joined."""


class Blocks:
    """Parses blocks and remembers their parts: of a block with one new leaf only the part around it is parsed."""

    def __init__(self, plain: PlainScalars, budget: int) -> None:
        self.plain = plain
        self.parts: BlockCache[tuple[_Part, ...]] = BlockCache(budget)

    def parse(self, text: str, anchors: Mapping[str, Anchored] | None = None) -> Block:
        """Return the block for a text whose root is a mapping; cut into parts where it is large.

        ``anchors`` are those of the pieces before it. Raises ``UnreadableDocumentError``: for a piece of a file this
        only says that the file must be read as a whole.
        """
        if len(text) >= _CUT_FROM:
            try:
                return Block(tuple(part.entry() for part in self._joined(text, _DEEPEST_CUT)))
            except (_NotApartError, UnreadableDocumentError):
                pass
        return self.parse_whole(text, anchors)

    def parse_whole(self, text: str, anchors: Mapping[str, Anchored] | None = None) -> Block:
        """Return the block for a text whose root is a mapping (or that holds no value at all), parsed in one piece."""
        built = build(text, self.plain, anchors)
        if built.empty:
            return Block(())
        if not isinstance(built.value, dict):
            kind = "a list" if isinstance(built.value, list) else "a single value"
            raise fault(f"it is {kind}, not a mapping of keys to values", line=_first_line(text))
        try:
            entries = _entries(built.value, special=built.special)
        except CollisionError as error:
            for repeat in repeats_of(text, self.plain):
                if repeat.collision:
                    raise _collision_fault(repeat) from None
            raise fault(f"JSON has one key {printable(str(error))} for two that Ruby tells apart") from None
        repeats = tuple(repeats_of(text, self.plain)) if built.repeats else ()
        return Block(entries, repeats, built.anchors, built.uses)

    def _joined(self, text: str, cuts: int) -> tuple[_Part, ...]:
        body = split_body(text) if cuts else None
        if body is None or len(body.pieces) < 2:
            raise _NotApartError
        parts = [part for piece in body.pieces for part in self._parts(piece, cuts - 1, mapping=body.mapping)]
        key = self.plain.resolve(body.key)
        if not isinstance(key, str):
            raise _NotApartError
        value: Json
        if body.mapping:
            value = {part.key: part.value for part in parts}
            if len(value) != len(parts):
                raise _NotApartError
            text = "{" + ",".join([f"{json.dumps(part.key)}:{part.text}" for part in parts]) + "}"
            parts.sort(key=lambda part: part.key or "")
            plain = "{" + ",".join([f"{json.dumps(part.key)}:{part.canonical}" for part in parts]) + "}"
        else:
            value = [part.value for part in parts]
            text = "[" + ",".join([part.text for part in parts]) + "]"
            plain = "[" + ",".join([part.canonical for part in parts]) + "]"
        return (_Part(key, value, text, text if plain == text else plain),)

    def _parts(self, text: str, cuts: int, *, mapping: bool) -> tuple[_Part, ...]:
        found = self.parts.get(text)
        if found is None:
            found = self._parse_parts(text, cuts)
            cost = len(text) + sum(len(part.text) + len(part.canonical) for part in found)
            self.parts.put(text, found, cost)
        if any((part.key is not None) is not mapping for part in found):
            raise _NotApartError
        return found

    def _parse_parts(self, text: str, cuts: int) -> tuple[_Part, ...]:
        if len(text) >= _CUT_FROM:
            try:
                return self._joined(text, cuts)
            except (_NotApartError, UnreadableDocumentError):
                pass
        built = build(text, self.plain)
        if built.special or built.repeats or built.empty or built.anchors:
            raise _NotApartError
        if isinstance(built.value, dict):
            return tuple(_part(key, value) for key, value in built.value.items())
        if isinstance(built.value, list):
            return tuple(_part(None, value) for value in built.value)
        raise _NotApartError


def repeat_warning(repeat: Repeat) -> str:
    """Return the warning about a key that stands twice in its mapping."""
    name = path_text((*repeat.second.path, repeat.second.text))
    return f"key {name} stands twice, in lines {repeat.first.line} and {repeat.second.line}; the last one counts"


def meaning(anchored: Anchored) -> str:
    """Return a digest of what an anchor stands for, types included.

    Raises ``UnreadableDocumentError`` if JSON can't tell its keys apart.
    """
    try:
        found = to_json(anchored.value) if anchored.special else (anchored.value, None)
    except CollisionError:
        raise fault("an anchor stands for two keys that JSON can't tell apart") from None
    return hashlib.sha256(canonical(list(found)).encode("ascii")).hexdigest()


def _entries(values: Mapping[str, Value], *, special: bool) -> tuple[KeyEntry, ...]:
    entries: dict[str, KeyEntry] = {}
    length = 0
    for key, value in values.items():
        name, child, marks = key, value, None
        if special:
            name, kind = key_to_json(key)
            if name in entries:
                raise CollisionError(name)
            child, below = to_json(value)
            marks = {step: mark for step, mark in (("key", kind), ("value", below)) if mark is not None} or None
        part = _part(name, child)
        length += len(part.text)
        if length > MAX_JSON:
            raise fault(f"its data takes more than {MAX_JSON} bytes as JSON")
        entries[name] = part.entry(marks)
    return tuple(entries.values())


def _collision_fault(repeat: Repeat) -> UnreadableDocumentError:
    return fault(
        f"the key {printable(repeat.second.text)} also stands in line {repeat.first.line} as a key of another type; "
        "JSON has one for both",
        line=repeat.second.line,
        path=repeat.second.path,
    )


def _first_line(text: str) -> int:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#") and line.strip() != "---":
            return number
    return 1
