"""What a command left behind on a node, and what is wrong with it."""

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
from configdb_sync.nodes.node_files import WAYS_OUT
from configdb_sync.nodes.plain_names import shown
from configdb_sync.nodes.remote.commands import ARGUMENTS_LIMIT, PIECES_LIMIT, Piece, letters

_SHOWN = 200
_TIMED_OUT = frozenset({124, 137})
_NOT_STARTED = 42
_ON_NODES = {
    errno.EROFS: "its file system is read-only on the node",
    errno.EACCES: "look on the node for what denies it: attributes (lsattr), SELinux, a network file system",
    errno.EPERM: "look on the node for what denies it: attributes (lsattr), SELinux, a network file system",
}
_WAYS_OUT = {os.strerror(number): way_out for number, way_out in (WAYS_OUT | _ON_NODES).items()}


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
    """Return the last line of an error output, made harmless and cut."""
    lines = stderr.decode("utf-8", "surrogateescape").strip().splitlines()
    text = shown(lines[-1]) if lines else ""
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def system_words(stderr: bytes) -> tuple[str, str | None]:
    """Return what the system said in a program's last error line (``No space left on device``), and the way out."""
    words = re.sub(r"^.*: ", "", last_words(stderr)) or "it doesn't say why"
    return words, _WAYS_OUT.get(words)


_GZIP = 31


class OutputError(ValueError):
    """A node printed what its command can't have printed. The text is ours alone and holds nothing of it."""


@dataclass(frozen=True)
class Stream:
    """``content``, and whether it is all there was (``whole``) or the begin of it."""

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
        raise OutputError("what it printed goes on after its end")
    return Stream(content, unpacker.eof)


_MAGIC = b"configdb-sync 1"
_END = b"end"
_STATE = re.compile(
    rb"(?P<kind>.) (?P<mode>[0-7]{1,4}) (?P<owner>\d{1,10}) (?P<group>\d{1,10}) (?P<size>\d{1,19}) "
    rb"(?P<stamp>\S+ \d+ \d+)"
)
_DIGEST = re.compile(rb"(?P<escaped>\\?)(?P<digest>[0-9a-f]{64}) [ *](?P<path>.+)")
_ESCAPES = {b"\\n": b"\n", b"\\r": b"\r", b"\\\\": b"\\"}


@dataclass(frozen=True)
class FileState:
    """A state: ``kind`` is find's letter, links followed (``f``, ``d``; ``l`` for a link that leads nowhere).

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


@dataclass(frozen=True)
class Listing:
    """What lies below some folders, by absolute path on the machine.

    ``targets``: where links and the folders themselves lead, empty if nowhere. ``digests``: sha256 in hex of the
    regular files named ``*.yaml``. ``contents``: what has come of these and has its digest. ``whole``: whether this is
    all there is to list.
    """

    whole: bool
    entries: dict[bytes, FileState]
    targets: dict[bytes, bytes]
    large: frozenset[bytes]
    unlistable: frozenset[bytes]
    digests: dict[bytes, str]
    contents: dict[bytes, bytes] = field(repr=False)


def entry(text: bytes) -> FileState:
    """Return the state that a line of ``scripts/pieces.sh`` tells. Raises ``OutputError``."""
    found = _STATE.fullmatch(text)
    if found is None:
        raise OutputError("the state of a file can't be understood")
    return _entry(found)


def _entry(found: re.Match[bytes]) -> FileState:
    kind = found["kind"].decode("latin-1")
    numbers = (int(found["mode"], 8), int(found["owner"]), int(found["group"]), int(found["size"]))
    return FileState(kind, *numbers, found["stamp"])


def listed(content: bytes, *, contents: bool = True) -> Listing:
    """Return what a stream lists.

    ``contents``: whether contents are in it. Then what is behind them can be lost, where they are cut or a file changed
    while it was read. Raises ``OutputError`` for what no command of ours prints.
    """
    work = _Parser(content, contents=contents)
    whole = work.all()
    found = (frozenset(work.large), frozenset(work.unlistable), work.digests, work.contents)
    return Listing(whole, work.entries, work.targets, *found)


class _Parser:
    def __init__(self, content: bytes, *, contents: bool) -> None:
        self._content = content
        self._place = 0
        self._with_contents = contents
        self.entries: dict[bytes, FileState] = {}
        self.targets: dict[bytes, bytes] = {}
        self.large: set[bytes] = set()
        self.unlistable: set[bytes] = set()
        self.digests: dict[bytes, str] = {}
        self.contents: dict[bytes, bytes] = {}

    def all(self) -> bool:
        """Take everything; tell whether it came to its end."""
        if self._record() != _MAGIC:
            raise OutputError("its answer doesn't begin as it should")
        try:
            while not self._ended():
                self._one()
        except OutputError:
            if not self.digests or not self._with_contents:
                raise
            # Behind contents that aren't what was listed there is no telling records from them.
            return False
        return True

    def _ended(self) -> bool:
        return self._place + len(_END) == len(self._content) and self._content.endswith(_END)

    def _record(self, end: bytes = b"\0") -> bytes:
        place = self._content.find(end, self._place)
        if place < 0:
            raise OutputError("it has more files than one answer can list, or printed only a part")
        record = self._content[self._place : place]
        self._place = place + 1
        return record

    def _one(self) -> None:
        record = self._record()
        tag, rest = record[:2], record[2:]
        if record == b"s":
            self._section()
        elif not rest.startswith(b"/"):
            self._entry(tag, rest)
        elif tag == b"t ":
            self.targets[rest] = self._record().removesuffix(b"\n.")
        elif tag == b"x ":
            self.large.add(rest)
        elif tag == b"u ":
            self.unlistable.add(rest)
        else:
            raise OutputError("its answer has a record that no command of ours prints")

    def _entry(self, tag: bytes, rest: bytes) -> None:
        state, slash, path = rest.partition(b" /")
        found = _STATE.fullmatch(state)
        if tag != b"f " or not slash or found is None:
            raise OutputError("its answer has a record that no command of ours prints")
        self.entries[b"/" + path] = _entry(found)

    def _section(self) -> None:
        paths = []
        while line := self._record(b"\n"):
            paths.append(self._digest(line))
        for path in paths if self._with_contents else ():
            end = self._place + self.entries[path].size
            content = self._content[self._place : end]
            if hashlib.sha256(content).hexdigest() == self.digests[path]:
                self.contents[path] = content
            self._place = end

    def _digest(self, line: bytes) -> bytes:
        found = _DIGEST.fullmatch(line)
        if found is None:
            raise OutputError("its answer has a digest that can't be understood")
        path = found["path"]
        if found["escaped"]:
            path = re.sub(rb"\\[nr\\]", lambda match: _ESCAPES[match[0]], path)
        if path not in self.entries:
            raise OutputError("its answer has a digest of a file that it doesn't list")
        digest = found["digest"].decode("ascii")
        if self.digests.setdefault(path, digest) != digest:
            raise OutputError("its answer has two digests of one file")
        return path


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
    state: FileState | None = None
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
