"""Builds from libyaml's events the values that Ruby would have.

Both Psych and PyYAML use libyaml, so the syntax is the same to the byte; what scalars, tags, merge keys,
aliases and duplicate keys mean is Psych's (``docs/decisions/own-yaml-builder.md``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from yaml._yaml import CParser
from yaml.error import MarkedYAMLError, YAMLError
from yaml.reader import ReaderError

from configdb_sync.hiera.errors import UnreadableDocumentError, fault, printable
from configdb_sync.hiera.events import (
    ALIAS,
    MAPPING,
    MAPPING_END,
    MAPPING_TAGS,
    SCALAR,
    SEQUENCE,
    SEQUENCE_END,
    SEQUENCE_TAGS,
    STREAM_END,
    PlainScalars,
    TagError,
    key_value,
    keys_of,
    scalar_of,
)
from configdb_sync.hiera.scalars import MERGE, ScalarError, Special
from configdb_sync.jsonvalues import MAX_DEPTH

Value: TypeAlias = Any
"""A value of Ruby's: JSON's kinds, with ``Special`` as scalars and keys too. Shared by aliases, never changed."""

MAX_EXPANSION = 1 << 21
"""Characters that all aliases of one text may stand for; more is refused as an alias bomb."""

_STR_ONLY = frozenset({str})
_UNKNOWN = object()


@dataclass(frozen=True, slots=True)
class Anchored:
    """An anchor's value, its size in characters when written out, its height, and whether it holds a ``Special``."""

    value: Value
    size: int
    height: int
    special: bool


@dataclass(frozen=True, slots=True)
class Built:
    """One text's value.

    ``empty``: no value at all. ``special``: it holds a ``Special``. ``repeats``: a mapping names a key twice.
    ``anchors``: those that the text defines, as they are at its end. ``uses``: those that it uses from elsewhere.
    """

    value: Value
    empty: bool = False
    special: bool = False
    repeats: bool = False
    anchors: Mapping[str, Anchored] = field(default_factory=dict)
    uses: frozenset[str] = frozenset()


def build(text: str, plain: PlainScalars, anchors: Mapping[str, Anchored] | None = None) -> Built:
    """Return the value of a text of one document (without a BOM). ``anchors`` are those that stand before the text.

    Raises ``UnreadableDocumentError`` for what libyaml or Ruby refuses, for several documents, for tags and scalars
    that JSON can't carry, for aliases into themselves, and for nesting or expansion beyond the bounds.
    """
    builder = _Builder(text, plain, anchors or {})
    try:
        return builder.build()
    except YAMLError as error:
        raise syntax_fault(error, text) from None


def syntax_fault(error: YAMLError, text: str) -> UnreadableDocumentError:
    """Return the error for what libyaml refuses in ``text``; libyaml's messages quote no content."""
    if isinstance(error, MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        reason = ", ".join(str(part) for part in (error.context, error.problem) if part)
        return fault(reason or "not YAML", line=mark.line + 1 if mark else None)
    if isinstance(error, ReaderError):
        before = text.encode("utf-8", "replace")[: max(int(error.position), 0)]
        return fault(str(error.reason), line=before.count(b"\n") + 1)
    return fault("not YAML")


class _Builder:
    """Collects each container's children in one flat list and makes the container when it ends."""

    def __init__(self, text: str, plain: PlainScalars, anchors: Mapping[str, Anchored]) -> None:
        self.next_event: Callable[[], Any] = CParser(text).get_event
        self.text = text
        self.plain = plain
        self.children: list[Value] = []
        # For each open container: its parent's children, its start event, the expansion and the depth found before.
        self.open: list[tuple[list[Value], Any, int, int]] = []
        self.earlier_anchors = anchors
        # An anchor whose container is still open stands for that container's start event.
        self.anchors: dict[str, Any] = {}
        self.uses: set[str] = set()
        self.expansion = 0
        self.deepest = 0
        self.special = False
        self.repeats = False

    def build(self) -> Built:
        self.next_event()  # The stream's start; what it holds is settled by the next one.
        if type(self.next_event()) is STREAM_END:
            return Built(None, empty=True)
        first = self.next_event()
        self._walk(first)
        event = self.next_event()
        if type(event) is not STREAM_END:
            raise fault("a second document begins; only one can be a node's settings", line=event.start_mark.line + 1)
        value = MERGE.text if self.children[0] is MERGE else self.children[0]
        empty = isinstance(first, SCALAR) and first.implicit[0] and first.tag is None and not first.value
        return Built(value, empty and value is None, self.special, self.repeats, self.anchors, frozenset(self.uses))

    def _walk(self, event: Any) -> None:
        # The hot loop: known plain scalars and quoted ones are resolved right here.
        next_event = self.next_event
        known = self.plain.known
        while True:
            kind = type(event)
            if kind is SCALAR:
                value: Value = _UNKNOWN
                if event.implicit[1]:
                    text = event.value
                    if text != "<<" and "\0" not in text:
                        value = text
                elif event.tag is None:
                    value = known.get(event.value, _UNKNOWN)
                if value is _UNKNOWN:
                    value = self._scalar(event)
                if event.anchor is not None:
                    self._anchor(event, value)
                self.children.append(value)
            elif kind is MAPPING or kind is SEQUENCE:
                self._start(event)
            elif kind is MAPPING_END or kind is SEQUENCE_END:
                self._end(event)
            elif kind is ALIAS:
                self._alias(event)
            else:
                return
            event = next_event()

    def _path(self) -> list[object]:
        path: list[object] = []
        levels = [level[0] for level in self.open[1:]] + [self.children] if self.open else []
        for (_, start, _, _), children in zip(self.open, levels, strict=True):
            if type(start) is SEQUENCE:
                path.append(len(children))
            elif len(children) % 2:
                path.append(children[-1])
        return path

    def _fault(self, event: Any, reason: str) -> UnreadableDocumentError:
        return fault(reason, line=event.start_mark.line + 1, path=self._path())

    def _tag_fault(self, event: Any) -> UnreadableDocumentError:
        return self._fault(event, f"the tag {printable(event.tag)} stands for what JSON can't carry")

    def _scalar(self, event: Any) -> Value:
        try:
            value = scalar_of(event, self.plain)
        except TagError:
            raise self._tag_fault(event) from None
        except ScalarError as error:
            raise self._fault(event, f"the value {error}") from None
        if isinstance(value, Special):
            self.special = True
        return value

    def _start(self, event: Any) -> None:
        allowed = MAPPING_TAGS if type(event) is MAPPING else SEQUENCE_TAGS
        if event.tag not in allowed:
            raise self._tag_fault(event)
        depth = len(self.open) + 1
        if depth > MAX_DEPTH:
            raise self._fault(event, f"nested more than {MAX_DEPTH} levels deep")
        self.open.append((self.children, event, self.expansion, self.deepest))
        self.children = []
        if event.anchor is not None:
            self.anchors[event.anchor] = event
            self.deepest = depth
        elif depth > self.deepest:
            self.deepest = depth

    def _end(self, event: Any) -> None:
        start = self.open[-1][1]
        value = self._mapping(start) if type(start) is MAPPING else self._sequence()
        parent, _, expansion, deepest = self.open.pop()
        name = start.anchor
        if name is not None:
            size = event.end_mark.index - start.start_mark.index + self.expansion - expansion
            if self.anchors[name] is start:
                self.anchors[name] = Anchored(value, size, self.deepest - len(self.open), self.special)
            self.deepest = max(deepest, self.deepest)
        self.children = parent
        parent.append(value)

    def _anchor(self, event: Any, value: Value) -> None:
        size = event.end_mark.index - event.start_mark.index
        self.anchors[event.anchor] = Anchored(value, size, 0, self.special)

    def _alias(self, event: Any) -> None:
        found = self.anchors.get(event.anchor)
        if found is None:
            found = self.earlier_anchors.get(event.anchor)
            if found is None:
                raise self._fault(event, "an alias to an anchor that isn't there")
            self.uses.add(event.anchor)
            self.special = self.special or found.special
        if not isinstance(found, Anchored):
            raise self._fault(event, "an alias into itself")
        self.expansion += found.size + 1
        if self.expansion > MAX_EXPANSION:
            raise self._fault(event, f"its aliases stand for more than {MAX_EXPANSION} characters")
        depth = len(self.open) + found.height
        if depth > MAX_DEPTH:
            raise self._fault(event, f"nested more than {MAX_DEPTH} levels deep")
        self.deepest = max(self.deepest, depth)
        value = found.value
        if isinstance(value, list) and self._is_merge_value():
            # Ruby merges a sequence that is written there, not one that an alias stands for.
            self.children[-1] = MERGE.text
        self.children.append(value)

    def _is_merge_value(self) -> bool:
        within_mapping = bool(self.open) and type(self.open[-1][1]) is MAPPING
        return within_mapping and len(self.children) % 2 == 1 and self.children[-1] is MERGE

    def _sequence(self) -> list[Value]:
        if self.special and MERGE in self.children:
            return [MERGE.text if child is MERGE else child for child in self.children]
        return self.children

    def _mapping(self, start: Any) -> dict[Any, Value]:
        keys = self.children[::2]
        values = self.children[1::2]
        if not _STR_ONLY.issuperset(map(type, keys)):
            keys = self._keys(keys, start)
        if self.special:
            values = [MERGE.text if value is MERGE else value for value in values]
            if MERGE in keys:
                return self._merged(keys, values)
        mapping = dict(zip(keys, values, strict=True))
        if len(mapping) != len(keys):
            self.repeats = True
        return mapping

    def _keys(self, keys: list[Value], start: Any) -> list[Value]:
        self.special = True
        try:
            return [key_value(key) for key in keys]
        except ScalarError as error:
            self.children = []
            path = self._path()
            line = next((key.line for key in keys_of(self.text, self.plain) if key.refused), None)
            raise fault(f"the mapping {error}", line=line or start.start_mark.line + 1, path=path) from None

    def _merged(self, keys: list[Value], values: list[Value]) -> dict[Any, Value]:
        # In Ruby whatever stands later wins, a merge like a plain key; what can't be merged is a plain key ``<<``.
        mapping: dict[Any, Value] = {}
        seen: set[Value] = set()
        for key, value in zip(keys, values, strict=True):
            if key is not MERGE:
                self.repeats = self.repeats or key in seen
                seen.add(key)
                mapping[key] = value
            elif isinstance(value, dict):
                mapping.update(value)
            elif isinstance(value, list) and all(isinstance(item, dict) for item in value):
                combined: dict[Any, Value] = {}
                for item in reversed(value):
                    combined.update(item)
                mapping.update(combined)
            else:
                mapping[MERGE.text] = value
        return mapping
