"""Finds a file's layout: borders from libyaml's marks, indentation as the file has it, who uses whose anchors."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from yaml.error import YAMLError

from configdb_sync.hiera.decoding import BOM
from configdb_sync.hiera.dumper import Style
from configdb_sync.hiera.events import (
    ALIAS,
    DOCUMENT_END,
    MAPPING,
    MAPPING_END,
    SCALAR,
    SEQUENCE,
    SEQUENCE_END,
    STREAM_END,
    events_of,
)
from configdb_sync.hiera.layout import Layout, Place
from configdb_sync.hiera.scalar_events import PlainScalars, key_value, scalar_of
from configdb_sync.hiera.special import MERGE, ScalarError, Special

_REST_OF_LINE = re.compile(r"[ \t]*(?:#[^\n]*)?\r?(?=\n|\Z)")


def layout_of(text: str) -> Layout | None:
    """Return the layout of a text that reads as a mapping or as no keys.

    None where keys don't each stand on lines of their own: a root in flow style, ``? `` keys, several keys on a line,
    line ends that only YAML takes for such. A file like that can only be written as a whole.
    """
    bom = BOM if text.startswith(BOM) else ""
    try:
        return _Survey(text.removeprefix(BOM)).layout(bom)
    except (YAMLError, ScalarError, _NoLinesError):
        return None


class _NoLinesError(Exception):
    """A key doesn't stand on lines of its own."""


@dataclass(slots=True)
class _Found:
    key: str | None
    start: int
    end: int
    anchored: bool = False
    uses: set[int] = field(default_factory=set)


class _Survey:
    def __init__(self, text: str) -> None:
        self.text = text
        self.plain = PlainScalars()
        self.found: list[_Found] = []
        self.owners: dict[str, int] = {}
        self.keys: dict[str, Any] = {}
        # Open containers: whether they are flow, their column, and how many children they have.
        self.open: list[tuple[bool, int]] = []
        self.at_root = 0
        self.column: int | None = None
        self.tail = len(text)
        self.step: int | None = None
        self.dash: int | None = None
        self.last_key_column = 0

    def layout(self, bom: str) -> Layout:
        if "\r" in self.text.replace("\r\n", ""):
            raise _NoLinesError
        self._walk()
        starts = [*(found.start for found in self.found), self.tail]
        places = [self._place(found, stop) for found, stop in zip(self.found, starts[1:], strict=True)]
        head = self.text[: starts[0]]
        newline = "\r\n" if "\r\n" in self.text else "\n"
        style = Style(step=self.step or 2, dash=self.dash or 0, newline=newline)
        return Layout(bom + head, tuple(places), self.text[self.tail :], self.column or 0, style)

    def _place(self, found: _Found, stop: int) -> Place:
        end = found.end
        if end > found.start and self.text[end - 1] == "\n":
            # A block scalar's mark stands after its last line end.
            end -= 2 if self.text.endswith("\r\n", 0, end) else 1
        else:
            rest = _REST_OF_LINE.match(self.text, end)
            if rest is None:
                raise _NoLinesError
            end = rest.end() - (1 if self.text.endswith("\r", 0, rest.end()) else 0)
        if not found.start < end <= stop or (end < stop and self.text[end] not in "\r\n"):
            raise _NoLinesError
        return Place(
            found.key,
            self.text[found.start : end],
            self.text[end:stop],
            found.anchored,
            frozenset(found.uses),
        )

    def _walk(self) -> None:
        next_event = events_of(self.text)
        event = next_event()
        while not isinstance(event, STREAM_END):
            self._take(event)
            event = next_event()

    def _take(self, event: Any) -> None:
        if isinstance(event, (SCALAR, ALIAS, MAPPING, SEQUENCE)):
            if not self.open:
                self._root(event)
            else:
                self._child(event)
            if isinstance(event, (MAPPING, SEQUENCE)):
                self.open.append((bool(event.flow_style), event.start_mark.column))
        elif isinstance(event, (MAPPING_END, SEQUENCE_END)):
            flow, _ = self.open.pop()
            if flow and self.found:
                self.found[-1].end = event.end_mark.index
        elif isinstance(event, DOCUMENT_END) and event.explicit:
            self.tail = event.start_mark.index

    def _root(self, event: Any) -> None:
        if isinstance(event, MAPPING):
            if event.flow_style:
                raise _NoLinesError
        elif not isinstance(event, SCALAR) or event.value:
            raise _NoLinesError

    def _child(self, event: Any) -> None:
        if len(self.open) == 1:
            if self.at_root % 2 == 0:
                self._key(event)
            self.at_root += 1
        found = self.found[-1]
        if isinstance(event, ALIAS):
            found.anchored = True
            owner = self.owners.get(event.anchor)
            if owner is not None and owner != len(self.found) - 1:
                found.uses.add(owner)
        elif event.anchor is not None:
            found.anchored = True
            self.owners[event.anchor] = len(self.found) - 1
        if isinstance(event, (SCALAR, ALIAS)):
            found.end = event.end_mark.index
        elif not event.flow_style:
            self._measure(event)

    def _measure(self, event: Any) -> None:
        # Only what stands right below a top-level key tells: deeper ones are as that is.
        if len(self.open) != 1 or self.column is None:
            return
        inner = event.start_mark.column - self.column
        if isinstance(event, MAPPING):
            self.step = self.step or max(inner, 0)
        elif self.dash is None:
            self.dash = max(inner, 0)

    def _key(self, event: Any) -> None:
        start = event.start_mark.index
        line = self.text.rfind("\n", 0, start) + 1
        column = start - line
        if self.text[line:start].strip(" ") or (self.column is not None and column != self.column):
            raise _NoLinesError
        self.column = column
        self.found.append(_Found(self._key_text(event), line, line))

    def _key_text(self, event: Any) -> str | None:
        if isinstance(event, ALIAS):
            value = self.keys.get(event.anchor)
        elif isinstance(event, SCALAR):
            value = scalar_of(event, self.plain)
            if event.anchor is not None:
                self.keys[event.anchor] = value
        else:
            raise _NoLinesError
        if value is MERGE:
            return None
        key = key_value(value)
        return key.text if isinstance(key, Special) else key
