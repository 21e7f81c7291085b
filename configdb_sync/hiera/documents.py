"""The nodes' documents: read as Ruby reads them, held as ConfigDB holds them, rewritten so that Ruby reads what was meant.

``Reader`` is made once per run and remembers the blocks it has parsed; ``HieraDocument`` is one file's content.
Requirements U11, U18, U19; ``architecture.md``, Writing to nodes safely and Speed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from configdb_sync.hiera import rewriting
from configdb_sync.hiera.blocks import split
from configdb_sync.hiera.decoding import MAX_BYTES, decode, link_hint
from configdb_sync.hiera.entries import (
    Block,
    Blocks,
    Entry,
    repeat_warning,
    too_long,
)
from configdb_sync.hiera.faults import DocumentFault
from configdb_sync.hiera.memory import Memory
from configdb_sync.hiera.rewriting import Rewrite
from configdb_sync.hiera.scalar_events import PlainScalars
from configdb_sync.jsonvalues import Json, combine_digests

__all__ = ["MAX_BYTES", "HieraDocument", "Reader", "Rewrite", "created"]

_BUDGET = 4 << 20
"""Characters of text and JSON of remembered blocks; grows to four times the largest document."""


class HieraDocument:
    """One file's content, never changed. What it hands out is shared with other documents: not to be changed either."""

    __slots__ = ("_digest", "_entries", "_reader", "raw", "values", "warnings")

    def __init__(
        self, raw: bytes, entries: dict[str, Entry], warnings: Iterable[str], reader: Reader
    ) -> None:
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
        """Return for each top-level key with what JSON lacks ``{"key": KIND, "value": MARKS}`` (see ``marks``), as JSON."""
        return {key: entry.marks for key, entry in self._entries.items() if entry.marks is not None}

    def rewritten(
        self,
        target: Mapping[str, Json],
        kept: Mapping[str, str] | None = None,
        marks: Mapping[str, Json] | None = None,
    ) -> Rewrite:
        """Return the file's new content that holds ``target``, and the node's own texts of what was replaced.

        ``kept`` is what the last rewriting of this file returned (none: the file is as the node wrote it), ``marks``
        the type marks by top-level key for what the node's own text doesn't tell. See ``rewriting`` for the rules.
        Raises ``DocumentError`` where Ruby wouldn't read ``target`` from any text that could be written.
        """
        return rewriting.rewritten(self._reader.read, self.raw, target, kept or {}, marks or {})


class Reader:
    """Reads documents and remembers their blocks, within bounds; one a run. Safe to share by threads."""

    def __init__(self) -> None:
        self._plain = PlainScalars()
        self._blocks = Blocks(self._plain, _BUDGET)
        self._memory: Memory[Block] = Memory(_BUDGET)

    def read(self, raw: bytes) -> HieraDocument:
        """Return the document of a file's bytes.

        Raises ``DocumentError`` with the reason and the line; node and file are for the caller to add (``located``).
        """
        text = decode(raw)
        self._memory.grow(4 * len(text))
        self._blocks.parts.grow(4 * len(text))
        pieces = split(text)
        found = self._of_pieces(raw, pieces) if pieces is not None else None
        return found or self._whole(raw, text)

    def _of_pieces(self, raw: bytes, pieces: list[str]) -> HieraDocument | None:
        entries: dict[str, Entry] = {}
        length = 0
        for piece in pieces:
            try:
                block = self._block(piece, piece)
            except DocumentFault:
                return None
            length += block.cost
            if block.repeats or too_long(length):
                return None
            for entry in block.entries:
                if entry.key in entries:
                    return None
                entries[entry.key] = entry
        return HieraDocument(raw, entries, (), self)

    def _block(self, key: object, text: str, *, whole: bool = False) -> Block:
        block = self._memory.get(key)
        if block is None:
            block = self._blocks.parse_whole(text) if whole else self._blocks.parse(text)
            self._memory.put(key, block, len(text) + block.cost)
        return block

    def _whole(self, raw: bytes, text: str) -> HieraDocument:
        try:
            block = self._block(("whole", text), text, whole=True)
        except DocumentFault as error:
            raise link_hint(error, text) from None
        return HieraDocument(
            raw, {entry.key: entry for entry in block.entries}, map(repeat_warning, block.repeats), self
        )


def created(target: Mapping[str, Json], marks: Mapping[str, Json] | None = None) -> bytes:
    """Return a new file's content that holds ``target``; at least ``--- {}`` and a line end.

    Raises ``DocumentError`` where Ruby wouldn't read ``target`` from any text that could be written.
    """
    return rewriting.created(Reader().read, target, marks or {})
