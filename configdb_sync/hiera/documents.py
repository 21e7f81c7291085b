"""The nodes' documents: read as Ruby reads them, held as ConfigDB holds them, written so that Ruby reads back the same.

``Reader`` is made once per run and remembers the blocks it has parsed; ``HieraDocument`` is one file's content.
Requirements U11, U18, U19.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from configdb_sync.hiera import rewriting
from configdb_sync.hiera.blocks import MAX_BYTES, decode, link_hint, split
from configdb_sync.hiera.builder import Anchored
from configdb_sync.hiera.entries import Block, BlockCache, Blocks, KeyEntry, meaning, repeat_warning, too_long
from configdb_sync.hiera.errors import UnreadableDocumentError
from configdb_sync.hiera.events import KeyPlace, PlainScalars, Repeat
from configdb_sync.hiera.file_text import FileText, FileTexts
from configdb_sync.hiera.rewriting import KeptText, Rewrite, either
from configdb_sync.jsonvalues import Json, combine_digests, dumps, value_digest

Parsed: TypeAlias = tuple[dict[str, KeyEntry], list[str]]
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
    entries: dict[str, KeyEntry] = {}
    anchors: dict[str, Anchored] = {}
    homes: dict[str, _Cut] = {}
    repeats: list[Repeat] = []
    length = 0
    lines = _Lines(text)
    offset = len(text) - sum(map(len, pieces))
    for piece in pieces:
        try:
            block = block_of(piece, anchors)
        except UnreadableDocumentError:
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


def _repeat(lines: _Lines, entry: KeyEntry, before: KeyEntry, home: _Cut, cut: _Cut) -> Repeat | None:
    """Return the warning about a key in two pieces; None where the pieces alone don't tell its lines."""
    kinds = [(found.marks or {}).get("key") for found in (before, entry)]
    if kinds[0] != kinds[1] or any(len(block.entries) > 1 or block.repeats for block in (home.block, cut.block)):
        return None
    first, second = (KeyPlace((), entry.key, lines.before(place.offset) + 1) for place in (home, cut))
    return Repeat(first, second)


__all__ = ["MAX_BYTES", "HieraDocument", "KeptText", "Reader", "Rewrite", "created", "either"]

_BUDGET = 4 << 20
"""Characters of text and JSON of remembered blocks; grows to four times the largest document."""


class HieraDocument:
    """One file's content, never changed. What it hands out is shared with other documents: not to be changed either."""

    __slots__ = ("_digest", "_entries", "_reader", "raw", "values", "warnings")

    def __init__(self, raw: bytes, entries: dict[str, KeyEntry], warnings: Iterable[str], reader: Reader) -> None:
        self.raw = raw
        self.values: Mapping[str, Json] = {key: entry.value for key, entry in entries.items()}
        self.warnings = tuple(warnings)
        self._entries = entries
        self._reader = reader
        self._digest: str | None = None

    @property
    def key_digests(self) -> Mapping[str, str]:
        """``jsonvalues.value_digest`` of each top-level key's value."""
        return {key: entry.digest for key, entry in self._entries.items()}

    @property
    def digest(self) -> str:
        """``jsonvalues.document_digest`` of the values."""
        if self._digest is None:
            self._digest = combine_digests((key, entry.digest) for key, entry in self._entries.items())
        return self._digest

    def json_bytes(self) -> bytes:
        """Return ``values`` as compact ASCII JSON in file order, what ``jsonvalues.dumps`` gives."""
        return ("{" + ",".join([entry.member for entry in self._entries.values()]) + "}").encode("ascii")

    def type_marks(self) -> Mapping[str, Json]:
        """Return ``{"key": KIND, "value": MARKS}`` (see ``marks``) of each top-level key that holds what JSON lacks."""
        return {key: entry.marks for key, entry in self._entries.items() if entry.marks is not None}

    def rewritten(
        self,
        target: Mapping[str, Json],
        kept: Mapping[str, KeptText] | None = None,
        marks: Mapping[str, Json] | None = None,
    ) -> Rewrite:
        """Return the file's new content that holds ``target``, and the node's own texts of what was replaced.

        ``kept`` is what the last rewriting of this file returned (none: the file is as the node wrote it), ``marks``
        the type marks by top-level key for what the node's own text doesn't tell. See ``rewriting`` for the rules.
        Raises ``DocumentError`` where Ruby wouldn't read ``target`` from any text that could be written.
        """
        return rewriting.rewritten(self._reader, self.raw, target, kept or {}, marks or {})


class Reader:
    """Reads documents and remembers their blocks, within bounds; one a run. Safe to share by threads."""

    def __init__(self) -> None:
        self._plain = PlainScalars()
        self._blocks = Blocks(self._plain, _BUDGET)
        self._memory: BlockCache[Block] = BlockCache(_BUDGET)
        self._surveys = FileTexts(self._plain, _BUDGET)

    def read(self, raw: bytes) -> HieraDocument:
        """Return the document of a file's bytes.

        Raises ``DocumentError`` with the reason and the line; node and file are for the caller to add (``located``).
        """
        text = decode(raw)
        self._memory.grow(4 * len(text))
        self._blocks.parts.grow(6 * len(text))
        pieces = split(text)
        found = joined(text, pieces, self._block) if pieces is not None else None
        if found is None:
            found = self._whole(text)
        return HieraDocument(raw, *found, self)

    def file_text(self, raw: bytes) -> FileText | None:
        """Return where the top-level keys of a file stand, None for one that can only be written as a whole."""
        return self._surveys.file_text(raw)

    def _block(self, piece: str, anchors: Mapping[str, Anchored]) -> Block:
        """Return the block of a piece of a file; ``anchors`` are those of the pieces before it."""
        block = self._memory.get(piece)
        if block is not None and block.uses and block.uses <= anchors.keys():
            # What it means depends on others: remembered once more for what these anchors stand for here.
            key = (piece, *((name, meaning(anchors[name])) for name in sorted(block.uses)))
            block = self._memory.get(key)
            if block is None:
                block = self._blocks.parse(piece, anchors)
                self._memory.put(key, block, len(piece) + block.cost)
        if block is None or block.uses - anchors.keys():
            block = self._blocks.parse(piece, anchors)
            self._memory.put(piece, block, len(piece) + block.cost)
        return block

    def _whole(self, text: str) -> Parsed:
        key = ("whole", text)
        block = self._memory.get(key)
        if block is None:
            try:
                block = self._blocks.parse_whole(text)
            except UnreadableDocumentError as error:
                raise link_hint(error, text) from None
            self._memory.put(key, block, len(text) + block.cost)
        return {entry.key: entry for entry in block.entries}, [repeat_warning(repeat) for repeat in block.repeats]


def created(target: Mapping[str, Json], marks: Mapping[str, Json] | None = None) -> bytes:
    """Return a new file's content that holds ``target``; at least ``--- {}`` and a line end.

    Raises ``DocumentError`` where Ruby wouldn't read ``target`` from any text that could be written.
    """
    return rewriting.created(Reader(), target, marks or {})


def document_of(values: Mapping[str, Json]) -> HieraDocument:
    """Return the document of JSON values; nothing in it has a type that JSON lacks. It isn't for rewriting."""
    entries = {
        key: KeyEntry(key, value, f"{json.dumps(key)}:{dumps(value)}", value_digest(value), None)
        for key, value in values.items()
    }
    return HieraDocument(b"", entries, (), Reader())
