"""Files that did not come whole with the listing, put together of pieces."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from configdb_sync.errors import NodeFileError
from configdb_sync.nodes.remote.commands import ARGUMENTS_LIMIT, PIECES_LIMIT, Piece, letters
from configdb_sync.nodes.remote.listing import Entry, entry
from configdb_sync.nodes.remote.output import system_words
from configdb_sync.nodes.remote.stream import OutputError, decoded, unpacked

_LINES = 5
_NUMBERS = 30
"""What offset and length take in a command at most."""
_OVERHEAD = 600
"""What a piece takes in an answer besides its content, with room to spare."""


@dataclass
class Assembly:
    """One file on its way: ``path`` on the machine; ``done`` or ``fault`` is set when it has come to its end."""

    path: str
    most: int
    tries: int
    size: int
    state: Entry | None = None
    digest: str = ""
    parts: list[bytes] = field(default_factory=list)
    got: int = 0
    content: bytes | None = None
    fault: NodeFileError | None = None

    @property
    def open(self) -> bool:
        """Whether something of it is missing still."""
        return self.content is None and self.fault is None

    def again(self) -> None:
        """Begin anew, since the file changed meanwhile; give up after so many times."""
        self.tries -= 1
        self.parts, self.got, self.state = [], 0, None
        if self.tries <= 0:
            self.fault = NodeFileError("is being written at this moment", way_out="run again")

    def take(self, piece: Piece, lines: Sequence[bytes]) -> None:
        """Take the lines that were printed for ``piece``. Raises ``OutputError``."""
        before, digest, packed, after, said = lines
        if not before:
            self._failed("is not there any more")
            return
        state = entry(before)
        if state.kind != "f":
            self._failed("is not a regular file")
        elif state.size > self.most:
            self._failed(f"is larger than {self.most} bytes", "no settings file is; look what it is")
        elif said:
            words, way_out = system_words(decoded(said))
            self._failed(f"can't be read: {words}", way_out)
        elif not after or entry(after) != state or (piece.offset and self.state != state):
            self.again()
        else:
            self._add(piece, state, digest, packed)

    def _add(self, piece: Piece, state: Entry, digest: bytes, packed: bytes) -> None:
        if not piece.offset:
            self.state, self.digest, self.size = state, digest.decode("ascii", "replace"), state.size
        stream = unpacked(packed, piece.length)
        if not stream.whole:
            raise OutputError("a piece of a file is not whole")
        self.parts.append(stream.content)
        self.got += len(stream.content)
        if self.got < state.size and len(stream.content) == piece.length:
            return
        content = b"".join(self.parts)
        if self.got == state.size and hashlib.sha256(content).hexdigest() == self.digest:
            self.content, self.parts = content, []
        else:
            self.again()

    def _failed(self, what: str, way_out: str | None = None) -> None:
        self.fault, self.parts = NodeFileError(what, way_out=way_out), []


def next_pieces(files: Iterable[Assembly]) -> list[Piece]:
    """Return what to ask for next: of as many files as go into one command and one answer."""
    asked: list[Piece] = []
    room, left = PIECES_LIMIT, ARGUMENTS_LIMIT
    for file in files:
        length = min(max(file.size - file.got, 1), room)
        left -= letters(file.path) + _NUMBERS
        if asked and (left < 0 or length <= 0):
            break
        asked.append(Piece(file.path, file.got, length))
        room -= length + _OVERHEAD
    return asked


def split(stdout: bytes, count: int) -> list[list[bytes]]:
    """Return the lines printed for each of ``count`` pieces. Raises ``OutputError``."""
    lines = stdout.split(b"\n")
    if len(lines) != count * _LINES + 1:
        raise OutputError("its answer has other pieces of files than it was asked for")
    return [lines[place : place + _LINES] for place in range(0, count * _LINES, _LINES)]
