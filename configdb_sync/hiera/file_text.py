"""A file as text around its top-level keys, so that single keys can be exchanged and taken back to the byte.

Where a key begins and ends is found by libyaml's marks, together with the file's indentation and its anchors.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

from yaml.error import YAMLError

from configdb_sync.hiera.blocks import BOM, split
from configdb_sync.hiera.dumper import Style
from configdb_sync.hiera.entries import BlockCache
from configdb_sync.hiera.events import (
    ALIAS,
    DOCUMENT_END,
    MAPPING,
    MAPPING_END,
    SCALAR,
    SEQUENCE,
    SEQUENCE_END,
    PlainScalars,
    each_event,
    key_value,
    scalar_of,
)
from configdb_sync.hiera.scalars import MERGE, ScalarError


@dataclass(frozen=True, slots=True)
class KeyText:
    """One top-level key in a file.

    ``text`` goes from its line's start to its last character, ``gap`` from there (its line end) to the next key.
    ``key`` is the key as JSON has it, None for a merge key. ``uses``: the places (by index) whose anchors it has
    aliases to.
    """

    key: str | None
    text: str
    gap: str
    uses: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class FileText:
    """``head``, the places and ``tail`` (from ``...`` on) make the file's text; keys stand at ``column``."""

    head: str
    places: tuple[KeyText, ...]
    tail: str
    column: int
    style: Style

    def text(self) -> str:
        """Return the file's text."""
        return self.head + "".join(place.text + place.gap for place in self.places) + self.tail

    def indexes(self, key: str) -> list[int]:
        """Return where ``key`` stands: nowhere, at one place, or at several (the last counts)."""
        return [index for index, place in enumerate(self.places) if place.key == key]

    def exchanged(self, texts: dict[int, str]) -> FileText:
        """Return the file with other texts at some places."""
        places = [replace(place, text=texts.get(index, place.text)) for index, place in enumerate(self.places)]
        return replace(self, places=tuple(places))

    def appended(self, key: str, text: str) -> FileText:
        """Return the file with one more key at its end. A file that lacks the last line end goes on lacking it."""
        before = self.places[-1].gap if self.places else self.head
        newline = self.style.newline
        if before.endswith("\n") or not (before or self.places):
            return _ended(self, before, KeyText(key, text, newline))
        return _ended(self, before + newline, KeyText(key, text, ""))

    def removed(self, index: int) -> FileText:
        """Return the file without one place: undoes ``appended`` to the byte; comments after the place stay."""
        end = self.places[index - 1].gap if index else self.head
        gap = self.places[index].gap
        if gap:
            end += gap.partition("\n")[2]
        elif end.endswith("\n"):
            end = end[:-1].removesuffix("\r")
        return _ended(replace(self, places=self.places[:index]), end, *self.places[index + 1 :])


def _ended(file: FileText, end: str, *following: KeyText) -> FileText:
    """Return the file with another text after its last place (or as its head), then the places ``following``."""
    if not file.places:
        return replace(file, head=end, places=following)
    *others, last = file.places
    return replace(file, places=(*others, replace(last, gap=end), *following))


_BLANK = " \t\r\n"
_REST_OF_LINE = re.compile(r"[ \t]*(?:#[^\n]*)?\r?(?=\n|\Z)")


class FileTexts:
    """Finds the keys in files' texts, and remembers what it has found in each piece. Safe to share by threads."""

    def __init__(self, plain: PlainScalars, budget: int) -> None:
        self._plain = plain
        self._memory: BlockCache[_PieceScan] = BlockCache(budget)

    def file_text(self, raw: bytes) -> FileText | None:
        """Return the text of a file that reads as a mapping or as no keys.

        None if some key doesn't have lines of its own: a root in flow style, ``? `` keys, several keys on a line, line
        ends that only YAML knows. Such a file can only be written as a whole.
        """
        text = raw.decode("utf-8")
        head = BOM if text.startswith(BOM) else ""
        text = text.removeprefix(BOM)
        if "\r" in text.replace("\r\n", ""):
            return None
        pieces = split(text)
        for cut in ([text[: len(text) - sum(map(len, pieces))], *pieces], ["", text]) if pieces else (["", text],):
            try:
                return self._joined(head, cut)
            except (YAMLError, ScalarError, _NoLinesError):
                continue
        return None

    def _joined(self, head: str, cut: list[str]) -> FileText:
        """Return the text that the pieces of ``cut`` make together, the first of which is no key's."""
        head += cut[0]
        tail = ""
        places: list[KeyText] = []
        owners: dict[str, int] = {}
        column = step = dash = None
        for piece in cut[1:]:
            scan = self._scanned(piece)
            starts = [*(found.start for found in scan.found), scan.tail]
            if tail or (column is not None and scan.column != column) or (places and starts[0]):
                raise _NoLinesError
            column = scan.column
            step = step or scan.step
            dash = scan.dash if dash is None else dash
            head += piece[: starts[0]]
            tail = piece[scan.tail :]
            for found, stop in zip(scan.found, starts[1:], strict=True):
                end = _end(piece, found, stop)
                uses = frozenset(owners[name] for name in found.uses if name in owners)
                owners.update(dict.fromkeys(found.defines, len(places)))
                places.append(KeyText(found.key, piece[found.start : end], piece[end:stop], uses))
        newline = "\r\n" if any("\r\n" in piece for piece in cut) else "\n"
        return FileText(head, tuple(places), tail, column or 0, Style(step or 2, dash or 0, newline))

    def _scanned(self, piece: str) -> _PieceScan:
        scan = self._memory.get(piece)
        if scan is None:
            scan = _Scanner(piece, self._plain).scan()
            self._memory.put(piece, scan, len(piece))
        return scan


class _NoLinesError(Exception):
    """A key doesn't have lines of its own."""


@dataclass(slots=True)
class _KeyFound:
    """One key in a piece of a file; ``uses`` are aliases to anchors from before it, ``defines`` its own anchors."""

    key: str | None
    start: int
    end: int
    uses: set[str] = field(default_factory=set)
    defines: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _PieceScan:
    found: list[_KeyFound]
    column: int | None
    step: int | None
    dash: int | None
    tail: int


def _end(text: str, found: _KeyFound, stop: int) -> int:
    """Return where the last line of a key ends, comments on it included, its line end not.

    Blank lines at the end of a block scalar belong to the text after it, though they may be part of its value: the text
    around a key must not change where the key ends, or its kept text wouldn't fit any more.
    """
    end = found.end
    if end > found.start and text[end - 1] == "\n":
        # A block scalar's mark stands after its last line end.
        end -= 2 if text.endswith("\r\n", 0, end) else 1
    else:
        rest = _REST_OF_LINE.match(text, end)
        if rest is None:
            raise _NoLinesError
        end = rest.end() - (1 if text.endswith("\r", 0, rest.end()) else 0)
    if text[end - 1] in _BLANK:
        content = found.start + len(text[found.start : end].rstrip(_BLANK))
        line_end = text.find("\n", content, end)
        if line_end >= 0:
            end = line_end - (1 if text[content:line_end].endswith("\r") else 0)
    if not found.start < end <= stop or (end < stop and text[end] not in "\r\n"):
        raise _NoLinesError
    return end


class _Scanner:
    def __init__(self, text: str, plain: PlainScalars) -> None:
        self.text = text
        self.plain = plain
        self.found: list[_KeyFound] = []
        self.keys: dict[str, Any] = {}
        # Of each open container whether it is in flow style, and the column of its keys if it is a mapping that tells.
        self.open: list[tuple[bool, int | None]] = []
        self.at_root = 0
        self.column: int | None = None
        self.tail = len(text)
        self.step: int | None = None
        self.dash: int | None = None

    def scan(self) -> _PieceScan:
        for event in each_event(self.text):
            self._take(event)
        return _PieceScan(self.found, self.column, self.step, self.dash, self.tail)

    def _take(self, event: Any) -> None:
        kind = type(event)
        if kind is SCALAR or kind is ALIAS:
            self._node(event)
            if self.found:
                self.found[-1].end = event.end_mark.index
        elif kind is MAPPING or kind is SEQUENCE:
            self._node(event)
            self.open.append((bool(event.flow_style), self._measured(event)))
        elif kind is MAPPING_END or kind is SEQUENCE_END:
            # The end of a block collection is marked where the next token stands, too late.
            if self.open.pop()[0] and self.found:
                self.found[-1].end = event.end_mark.index
        elif kind is DOCUMENT_END and event.explicit:
            self.tail = event.start_mark.index

    def _node(self, event: Any) -> None:
        if len(self.open) == 1:
            if self.at_root % 2 == 0:
                self._key(event)
            self.at_root += 1
        elif not self.open and (
            event.flow_style if type(event) is MAPPING else type(event) is not SCALAR or event.value
        ):
            raise _NoLinesError
        if event.anchor is None or not self.found:
            return
        found = self.found[-1]
        if type(event) is not ALIAS:
            found.defines.add(event.anchor)
        elif event.anchor not in found.defines:
            found.uses.add(event.anchor)

    def _measured(self, event: Any) -> int | None:
        """Note how a block collection is indented below its key; return the column of a mapping's own keys."""
        if event.flow_style or event.anchor is not None or event.tag is not None:
            return None  # Marked where its anchor or tag stands, not where its content does.
        column: int = event.start_mark.column
        above = self.open[-1][1] if self.open else None
        if type(event) is MAPPING:
            if above is not None and self.step is None and column > above:
                self.step = column - above
            return column
        if above is not None and self.dash is None:
            self.dash = max(column - above, 0)
        return None

    def _key(self, event: Any) -> None:
        start = event.start_mark.index
        line = self.text.rfind("\n", 0, start) + 1
        column = start - line
        if self.text[line:start].strip(" ") or (self.column is not None and column != self.column):
            raise _NoLinesError
        self.column = column
        self.found.append(_KeyFound(self._key_text(event), line, line))

    def _key_text(self, event: Any) -> str | None:
        if type(event) is ALIAS:
            value = self.keys.get(event.anchor)
        elif type(event) is SCALAR:
            value = scalar_of(event, self.plain)
            if event.anchor is not None:
                self.keys[event.anchor] = value
        else:
            raise _NoLinesError
        if value is MERGE:
            return None
        return str(key_value(value))
