"""The nodes' documents: read as Ruby reads them, held as ConfigDB holds them, written so that Ruby reads back the same.

``Reader`` is made once per run and remembers the blocks it has parsed; ``HieraDocument`` is one file's content.
Requirements U11, U18, U19.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TypeAlias

from configdb_sync.hiera import rewriting
from configdb_sync.hiera.blocks import decode, link_hint, split
from configdb_sync.hiera.builder import Anchored
from configdb_sync.hiera.entries import MAX_JSON, Block, BlockCache, Blocks, KeyEntry, meaning, repeat_warning
from configdb_sync.hiera.errors import UnreadableDocumentError
from configdb_sync.hiera.events import KeyPlace, PlainScalars, Repeat
from configdb_sync.hiera.file_text import FileText, FileTexts
from configdb_sync.hiera.rewriting import KeptText, Rewrite
from configdb_sync.jsonvalues import Json, combine_digests

_BUDGET = 4 << 20
"""Characters of text and JSON of remembered blocks; grows to four times the largest document."""

_Parsed: TypeAlias = tuple[dict[str, KeyEntry], list[str]]
"""A file's entries by key, in file order, and the warnings about it."""


class HieraDocument:
    """One file's content, immutable. Its values are shared with other documents, so don't change them either."""

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
        return rewriting.rewritten(self._reader, self, target, kept or {}, marks or {})


class Reader:
    """Reads documents and remembers their blocks, within bounds. A run has one; threads may share it."""

    def __init__(self) -> None:
        self._plain = PlainScalars()
        self._blocks = Blocks(self._plain, _BUDGET)
        self._memory: BlockCache[Block] = BlockCache(_BUDGET)
        self._texts = FileTexts(self._plain, _BUDGET)

    def read(self, raw: bytes) -> HieraDocument:
        """Return the document of a file's bytes.

        Raises ``DocumentError`` with the reason and the line; the caller adds node and file (``located``).
        """
        text = decode(raw)
        self._memory.grow(4 * len(text))
        self._blocks.parts.grow(6 * len(text))
        pieces = split(text)
        found = self._joined(text, pieces) if pieces is not None else None
        if found is None:
            found = self._whole(text)
        return HieraDocument(raw, *found, self)

    def file_text(self, raw: bytes) -> FileText | None:
        """Return a file's text by top-level keys, None for one that can only be written as a whole."""
        return self._texts.file_text(raw)

    def _joined(self, text: str, pieces: list[str]) -> _Parsed | None:
        """Return what the pieces of ``text`` hold together, a later key over an earlier one.

        None where only the whole text tells: a piece that doesn't parse alone, keys that JSON can't tell apart, a
        document that is too long.
        """

        @cache
        def line_ends() -> list[int]:
            return [found.start() for found in re.finditer("\n", text)]

        def lines_before(offset: int) -> int:
            return bisect_left(line_ends(), offset)

        entries: dict[str, KeyEntry] = {}
        anchors: dict[str, Anchored] = {}
        homes: dict[str, tuple[int, Block]] = {}
        repeats: list[Repeat] = []
        length = 0
        offset = len(text) - sum(map(len, pieces))
        for piece in pieces:
            try:
                block = self._block(piece, anchors)
            except UnreadableDocumentError:
                return None
            length += block.cost
            if length > MAX_JSON:
                return None
            for entry in block.entries:
                key = entry.key
                if key in entries:
                    before, home = homes[key]
                    if not _alone(home) or not _alone(block) or _key_kind(entries[key]) != _key_kind(entry):
                        return None
                    repeats.append(Repeat(*(KeyPlace((), key, lines_before(at) + 1) for at in (before, offset))))
                entries[key] = entry
                homes[key] = offset, block
            anchors.update(block.anchors)
            if block.repeats:
                repeats.extend(repeat.shifted(lines_before(offset)) for repeat in block.repeats)
            offset += len(piece)
        return entries, [repeat_warning(repeat) for repeat in repeats]

    def _block(self, piece: str, anchors: Mapping[str, Anchored]) -> Block:
        """Return the block of a piece of a file; ``anchors`` are those of the pieces before it."""
        block = self._memory.get(piece)
        if block is not None and block.uses and block.uses <= anchors.keys():
            # Its meaning depends on other pieces: it is remembered once for each meaning of their anchors.
            key = (piece, *((name, meaning(anchors[name])) for name in sorted(block.uses)))
            block = self._memory.get(key)
            if block is None:
                block = self._blocks.parse(piece, anchors)
                self._memory.put(key, block, len(piece) + block.cost)
        if block is None or block.uses - anchors.keys():
            block = self._blocks.parse(piece, anchors)
            self._memory.put(piece, block, len(piece) + block.cost)
        return block

    def _whole(self, text: str) -> _Parsed:
        key = ("whole", text)
        block = self._memory.get(key)
        if block is None:
            try:
                block = self._blocks.parse_whole(text)
            except UnreadableDocumentError as error:
                raise link_hint(error, text) from None
            self._memory.put(key, block, len(text) + block.cost)
        return {entry.key: entry for entry in block.entries}, [repeat_warning(repeat) for repeat in block.repeats]


def _alone(block: Block) -> bool:
    """Tell whether a block holds one key once, so that its first line is the key's."""
    return len(block.entries) == 1 and not block.repeats


def _key_kind(entry: KeyEntry) -> Json:
    return (entry.marks or {}).get("key")


def created(target: Mapping[str, Json], marks: Mapping[str, Json] | None = None) -> bytes:
    """Return a new file's content that holds ``target``; at least ``--- {}`` and a line end.

    Raises ``DocumentError`` where Ruby wouldn't read ``target`` from any text that could be written.
    """
    return rewriting.created(Reader(), target, marks or {})


def document_of(values: Mapping[str, Json]) -> HieraDocument:
    """Return the document of JSON values that no file holds: no types that JSON lacks, not for rewriting."""
    return HieraDocument(b"", {key: KeyEntry.of(key, value) for key, value in values.items()}, (), Reader())
