"""What a node's commands print, as values. Pure; whatever a node prints is a value or an ``OutputError``.

``unpacked`` undoes the base64 of gzip that all reading commands print, ``listed`` reads what ``scripts/read.sh`` prints
of the settings files, ``split`` and ``Assembly`` what ``scripts/pieces.sh`` prints of files that did not fit in there.
Names are hostile bytes; NUL, which none can hold, ends them.
"""

from __future__ import annotations

import binascii
import errno
import hashlib
import os
import re
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from configdb_sync.errors import NodeFileError
from configdb_sync.nodes import node_files
from configdb_sync.nodes.node_files import HIERA_YAML_LIMIT, shown
from configdb_sync.nodes.remote.commands import ARGUMENTS_LIMIT, PIECES_LIMIT, Piece, letters

_SHOWN = 200
_TIMED_OUT = frozenset({124, 137})
_NOT_STARTED = 42
_ON_NODES = {
    errno.EROFS: "its file system is read-only on the node",
    errno.EACCES: "check on the node what denies it: attributes (lsattr), SELinux, a network file system",
    errno.EPERM: "check on the node what denies it: attributes (lsattr), SELinux, a network file system",
}
_WAYS_OUT = {os.strerror(number): way_out for number, way_out in (node_files.WAYS_OUT | _ON_NODES).items()}

_GZIP = 31
_MAGIC = b"configdb-sync 1"
_END = b"end"
_STATE = re.compile(
    rb"(?P<kind>.) (?P<mode>[0-7]{1,4}) (?P<owner>\d{1,10}) (?P<group>\d{1,10}) (?P<size>\d{1,19}) "
    rb"(?P<stamp>\S+ \d+ \d+)"
)
_DIGEST = re.compile(rb"(?P<escaped>\\?)(?P<digest>[0-9a-f]{64}) [ *](?P<path>.+)")
_ESCAPES = {b"\\n": b"\n", b"\\r": b"\r", b"\\\\": b"\\"}

_LINES = 5
_NUMBERS = 30
"""What offset and length take in a command at most."""
_OVERHEAD = 600
"""What a piece takes in an answer besides its content, with room to spare."""


class OutputError(ValueError):
    """A node printed what its command can't have printed. The text is ours alone and holds nothing of it."""


@dataclass(frozen=True)
class CommandOutput:
    """The outputs of the agent ``execute_shell_command``."""

    stdout: bytes = field(repr=False)
    stderr: bytes = field(repr=False)
    code: int


def fault(output: CommandOutput) -> str | None:
    """Return why a command didn't run to its end, None if it did."""
    if output.code == 0:
        return None
    if output.code in _TIMED_OUT:
        return "its command took too long and was ended"
    if output.code == _NOT_STARTED and not output.stdout and not output.stderr:
        return "its command could not be started (exit code 42)"
    said = last_words(output.stderr)
    return f"its command failed (exit code {output.code})" + (f": {said}" if said else "")


def last_words(stderr: bytes) -> str:
    """Return the last line of an error output, escaped and cut."""
    lines = as_text(stderr).strip().splitlines()
    text = shown(lines[-1]) if lines else ""
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def system_words(stderr: bytes) -> tuple[str, str | None]:
    """Return the system's error in a program's last error line (``No space left on device``), and what to do."""
    words = re.sub(r"^.*: ", "", last_words(stderr)) or "no reason given"
    return words, _WAYS_OUT.get(words)


def as_text(content: bytes) -> str:
    """Return bytes from a node as Python holds names of files: what is no UTF-8 is kept."""
    return content.decode("utf-8", "surrogateescape")


@dataclass(frozen=True)
class Stream:
    """What was printed, and whether that is all (``whole``) or only the beginning."""

    content: bytes = field(repr=False)
    whole: bool


def decoded(text: bytes) -> bytes:
    """Return the bytes that a text in base64 stands for. Raises ``OutputError``."""
    try:
        return binascii.a2b_base64(text, strict_mode=True) if text else b""
    except binascii.Error:
        raise OutputError("what it printed is not base64") from None


def unpacked(text: bytes, most: int) -> Stream:
    """Return the bytes that were printed, at most ``most`` of them. Raises ``OutputError``."""
    packed = decoded(text)
    unpacker = zlib.decompressobj(_GZIP)
    try:
        content = unpacker.decompress(packed, most)
    except zlib.error:
        raise OutputError("what it printed is not compressed as it should be") from None
    if unpacker.unused_data:
        raise OutputError("what it printed continues after its end")
    return Stream(content, unpacker.eof)


@dataclass(frozen=True)
class FileState:
    """``kind`` is find's letter, links followed (``f``, ``d``; ``l`` for a link that leads nowhere).

    ``stamp`` (time of change of the content, device, inode) and the rest tell one state of a file from another.
    """

    kind: str
    mode: int
    owner: int
    group: int
    size: int
    stamp: bytes

    @property
    def inode(self) -> bytes:
        """Device and inode: which file or folder it is, by whatever path."""
        return self.stamp.split(b" ", 1)[1]


def _file_state(text: bytes) -> FileState:
    found = _STATE.fullmatch(text)
    if found is None:
        raise OutputError("the state of a file can't be understood")
    kind = found["kind"].decode("latin-1")
    numbers = (int(found["mode"], 8), int(found["owner"]), int(found["group"]), int(found["size"]))
    return FileState(kind, *numbers, found["stamp"])


@dataclass
class Listing:
    """What lies below some folders, by absolute path on the machine.

    ``targets``: where links and the folders themselves lead, empty if nowhere. ``digests``: sha256 in hex of the
    regular files named ``*.yaml``; ``contents``: those that were printed and have their digest. ``large``: files beyond
    the limit. ``unlistable``: folders that can't be read. ``whole``: whether the listing came to its end.
    ``hiera_yaml``: the node's, None if there is none or it is too large.
    """

    whole: bool = False
    entries: dict[bytes, FileState] = field(default_factory=dict)
    targets: dict[bytes, bytes] = field(default_factory=dict)
    large: set[bytes] = field(default_factory=set)
    unlistable: set[bytes] = field(default_factory=set)
    digests: dict[bytes, str] = field(default_factory=dict)
    contents: dict[bytes, bytes] = field(default_factory=dict, repr=False)
    hiera_yaml: bytes | None = field(default=None, repr=False)


def listed(content: bytes, *, contents: bool = True) -> Listing:
    """Return what a stream lists.

    ``contents``: whether contents are in it. Then what is behind them can be lost, where they are cut or a file changed
    while it was read. Raises ``OutputError`` for what no command of ours prints.
    """
    return _ListingParser(content, contents=contents).parse()


class _ListingParser:
    def __init__(self, content: bytes, *, contents: bool) -> None:
        self._content = content
        self._place = 0
        self._with_contents = contents
        self._found = Listing()

    def parse(self) -> Listing:
        if self._record() != _MAGIC:
            raise OutputError("its answer doesn't begin as it should")
        self._hiera_yaml()
        try:
            while not (self._place + len(_END) == len(self._content) and self._content.endswith(_END)):
                self._item()
        except OutputError:
            if not self._found.digests or not self._with_contents:
                raise
            # Behind contents that aren't what was listed, records can't be told from contents.
            return self._found
        self._found.whole = True
        return self._found

    def _record(self, end: bytes = b"\0") -> bytes:
        place = self._content.find(end, self._place)
        if place < 0:
            raise OutputError("it has more files than one answer can list, or printed only a part")
        record = self._content[self._place : place]
        self._place = place + 1
        return record

    def _hiera_yaml(self) -> None:
        if self._content.startswith(b"h ", self._place):
            content = decoded(self._record()[2:])
            self._found.hiera_yaml = content if len(content) <= HIERA_YAML_LIMIT else None

    def _item(self) -> None:
        record = self._record()
        tag, rest = record[:2], record[2:]
        state, slash, path = rest.partition(b" /")
        if record == b"s":
            self._section()
        elif tag == b"f " and slash:
            self._found.entries[b"/" + path] = _file_state(state)
        elif tag == b"t " and rest.startswith(b"/"):
            self._found.targets[rest] = self._record().removesuffix(b"\n.")
        elif tag == b"x " and rest.startswith(b"/"):
            self._found.large.add(rest)
        elif tag == b"u " and rest.startswith(b"/"):
            self._found.unlistable.add(rest)
        else:
            raise OutputError("its answer has an unknown record")

    def _section(self) -> None:
        """Parse the digests of files and, behind them, their contents."""
        paths = []
        while line := self._record(b"\n"):
            paths.append(self._digest(line))
        for path in paths if self._with_contents else ():
            end = self._place + self._found.entries[path].size
            content = self._content[self._place : end]
            if hashlib.sha256(content).hexdigest() == self._found.digests[path]:
                self._found.contents[path] = content
            self._place = end

    def _digest(self, line: bytes) -> bytes:
        found = _DIGEST.fullmatch(line)
        if found is None:
            raise OutputError("its answer has a digest that can't be understood")
        path = found["path"]
        if found["escaped"]:
            path = re.sub(rb"\\[nr\\]", lambda match: _ESCAPES[match[0]], path)
        if path not in self._found.entries:
            raise OutputError("its answer has a digest of a file that it doesn't list")
        digest = found["digest"].decode("ascii")
        if self._found.digests.setdefault(path, digest) != digest:
            raise OutputError("its answer has two digests of one file")
        return path


@dataclass
class Assembly:
    """A file that is read in pieces: ``path`` on the machine; ``content`` or ``fault`` is set at its end.

    ``most``: bytes that it may have. ``tries``: how often to begin anew when it changes meanwhile.
    """

    path: str
    most: int
    tries: int
    size: int
    state: FileState | None = None
    digest: str = ""
    parts: list[bytes] = field(default_factory=list)
    got: int = 0
    content: bytes | None = None
    fault: NodeFileError | None = None

    @property
    def open(self) -> bool:
        """Whether pieces of it are missing still."""
        return self.content is None and self.fault is None

    def take(self, piece: Piece, lines: Sequence[bytes]) -> None:
        """Take the lines that were printed for ``piece``. Raises ``OutputError``."""
        before, digest, packed, after, said = lines
        if not before:
            self._fail(NodeFileError("is not there any more"))
            return
        state = _file_state(before)
        if state.kind != "f":
            self._fail(NodeFileError("is not a regular file"))
        elif state.size > self.most:
            self._fail(node_files.too_large(self.most))
        elif said:
            words, way_out = system_words(decoded(said))
            self._fail(NodeFileError(f"can't be read: {words}", way_out=way_out))
        elif not after or _file_state(after) != state or (piece.offset and self.state != state):
            self._begin_anew()
        else:
            self._add(piece, state, digest, packed)

    def _add(self, piece: Piece, state: FileState, digest: bytes, packed: bytes) -> None:
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
            self._begin_anew()

    def _begin_anew(self) -> None:
        self.tries -= 1
        self.parts, self.got, self.state = [], 0, None
        if self.tries <= 0:
            self.fault = node_files.unsteady()

    def _fail(self, error: NodeFileError) -> None:
        self.fault, self.parts = error, []


def next_pieces(files: Iterable[Assembly]) -> list[Piece]:
    """Return what to ask for next: pieces of as many files as fit in one command and one answer."""
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
