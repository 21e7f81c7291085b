"""From the pieces of a file, each parsed alone, to what the file holds; or the verdict that they can't be joined."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from configdb_sync.hiera.builder import Anchored
from configdb_sync.hiera.entries import Block, Entry, repeat_warning, too_long
from configdb_sync.hiera.faults import UnreadableError
from configdb_sync.hiera.keylines import KeyPlace, Repeat

Parsed: TypeAlias = tuple[dict[str, Entry], list[str]]
"""A file's entries by key, in file order, and the warnings about it."""

BlockOf: TypeAlias = Callable[[str, Mapping[str, Anchored]], Block]


@dataclass(frozen=True, slots=True)
class _Cut:
    offset: int
    block: Block


class _Lines:
    """Counts the lines before a place in a text; the text is looked through at the first question."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._ends: list[int] | None = None

    def before(self, offset: int) -> int:
        if self._ends is None:
            self._ends = [found.start() for found in re.finditer("\n", self._text)]
        return bisect_left(self._ends, offset)


def joined(text: str, pieces: list[str], block_of: BlockOf) -> Parsed | None:
    """Return what the pieces of ``text`` hold together, a later key over an earlier one.

    None where only the whole text tells: a piece that doesn't parse alone, keys that JSON can't tell apart, too much.
    """
    entries: dict[str, Entry] = {}
    anchors: dict[str, Anchored] = {}
    homes: dict[str, _Cut] = {}
    repeats: list[Repeat] = []
    length = 0
    lines = _Lines(text)
    offset = len(text) - sum(map(len, pieces))
    for piece in pieces:
        try:
            block = block_of(piece, anchors)
        except UnreadableError:
            return None
        length += block.cost
        if too_long(length):
            return None
        cut = _Cut(offset, block)
        for entry in block.entries:
            if entry.key in entries:
                repeat = _repeat(lines, entry, entries[entry.key], homes[entry.key], cut)
                if repeat is None:
                    return None
                repeats.append(repeat)
            entries[entry.key] = entry
            homes[entry.key] = cut
        anchors.update(block.anchors)
        if block.repeats:
            repeats.extend(repeat.shifted(lines.before(offset)) for repeat in block.repeats)
        offset += len(piece)
    return entries, [repeat_warning(repeat) for repeat in repeats]


def _repeat(lines: _Lines, entry: Entry, before: Entry, home: _Cut, cut: _Cut) -> Repeat | None:
    """Return the warning about a key in two pieces; None where the pieces alone don't tell its lines."""
    kinds = [(found.marks or {}).get("key") for found in (before, entry)]
    if kinds[0] != kinds[1] or any(len(block.entries) > 1 or block.repeats for block in (home.block, cut.block)):
        return None
    first, second = (KeyPlace((), entry.key, lines.before(place.offset) + 1) for place in (home, cut))
    return Repeat(first, second)
