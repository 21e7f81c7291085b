"""What ``scripts/read.sh`` prints of one node's settings files: a list of what there is, and the contents.

Names are bytes, as hostile as they come; NUL, which none can hold, ends them.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field

from configdb_sync.nodes.remote.stream import OutputError

_MAGIC = b"configdb-sync 1"
_END = b"end"
_STATE = re.compile(
    rb"(?P<kind>.) (?P<mode>[0-7]{1,4}) (?P<owner>\d{1,10}) (?P<group>\d{1,10}) (?P<size>\d{1,19}) "
    rb"(?P<stamp>\S+ \d+ \d+)"
)
_DIGEST = re.compile(rb"(?P<escaped>\\?)(?P<digest>[0-9a-f]{64}) [ *](?P<path>.+)")
_ESCAPES = {b"\\n": b"\n", b"\\r": b"\r", b"\\\\": b"\\"}


@dataclass(frozen=True)
class Entry:
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
    entries: dict[bytes, Entry]
    targets: dict[bytes, bytes]
    large: frozenset[bytes]
    unlistable: frozenset[bytes]
    digests: dict[bytes, str]
    contents: dict[bytes, bytes] = field(repr=False)


def entry(text: bytes) -> Entry:
    """Return the state that a line of ``scripts/pieces.sh`` tells. Raises ``OutputError``."""
    found = _STATE.fullmatch(text)
    if found is None:
        raise OutputError("the state of a file can't be understood")
    return _entry(found)


def _entry(found: re.Match[bytes]) -> Entry:
    kind = found["kind"].decode("latin-1")
    numbers = (int(found["mode"], 8), int(found["owner"]), int(found["group"]), int(found["size"]))
    return Entry(kind, *numbers, found["stamp"])


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
        self.entries: dict[bytes, Entry] = {}
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
