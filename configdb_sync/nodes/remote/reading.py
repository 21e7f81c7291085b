"""One node's reading, from the first command to what was read: what was printed goes in, the next command comes out.

No I/O. One command does for an ordinary node; links to folders, more than an answer holds and files that change
meanwhile take further ones.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass, field

from configdb_sync.errors import NodeError, NodeFileError
from configdb_sync.nodes.node_files import NodeFile, NodeRead, ReadLimits
from configdb_sync.nodes.plain_names import is_plain, shown
from configdb_sync.nodes.remote.commands import ARGUMENTS_LIMIT, HIERA, Commands, Piece, letters
from configdb_sync.nodes.remote.output import (
    Assembly,
    CommandOutput,
    FileState,
    Listing,
    OutputError,
    fault,
    listed,
    next_pieces,
    split,
    unpacked,
)
from configdb_sync.nodes.tree_reading import aliases

NextStep = str | NodeRead | NodeError
"""A further command, or the end: what was read, or why nothing was."""

_SUFFIX = ".yaml"
_NOT_PLAIN = "has a name that is not plain UTF-8 text"


@dataclass
class Reading:
    """How far the reading of one node is."""

    identity: str
    commands: Commands
    limits: ReadLimits = field(default_factory=ReadLimits)
    _asked: list[Piece] | None = None
    _waiting: dict[str, Assembly] = field(default_factory=dict)
    _files: dict[str, NodeFile] = field(default_factory=dict)
    _faults: dict[str, NodeFileError] = field(default_factory=dict)
    _targets: dict[str, str] = field(default_factory=dict)
    _folders: dict[bytes, FileState] = field(default_factory=dict)
    _roots: list[bytes] = field(default_factory=list)
    _with_contents: bool = True
    _early: dict[bytes, tuple[str, bytes]] = field(default_factory=dict)
    _followed: set[bytes] = field(default_factory=set)
    _to_follow: list[bytes] = field(default_factory=list)
    _room: int = 0
    _entries: int = 0
    _requests: int = 0

    def __post_init__(self) -> None:
        self._roots = [self.commands.hiera.encode()]
        self._room = self.limits.node

    def first(self) -> str:
        """Return the first command."""
        return self.commands.read(self._roots)

    def take(self, output: CommandOutput) -> NextStep:
        """Take what the last command left and return what comes next."""
        self._requests += 1
        why = fault(output)
        if why is not None:
            return self._unreadable(why)
        try:
            if self._asked is not None:
                return self._pieces(self._asked, output.stdout)
            stream = unpacked(output.stdout, self.limits.stream)
            listing = listed(stream.content, contents=self._with_contents)
            if not listing.whole:
                # What came of contents is kept; the list comes again without any.
                self._early = {path: (listing.digests[path], found) for path, found in listing.contents.items()}
                self._with_contents = False
                return self.commands.read(self._roots, contents=False)
            return self._listed(listing)
        except OutputError as error:
            return self._unreadable(str(error))

    def _unreadable(self, why: str) -> NodeError:
        return NodeError(f"its settings files can't be read: {why}", way_out="run again", node=self.identity)

    def _fault(self, path: str, error: NodeFileError) -> None:
        file = shown(path)
        error.node, error.file = self.identity, file
        self._faults[file] = error
        self._files.pop(path, None)

    # The listing

    def _listed(self, listing: Listing) -> NextStep:
        base = self.commands.hiera.encode()
        if base not in self._folders and (base not in listing.entries or base in listing.unlistable):
            return NodeError(f"{HIERA} can't be listed", way_out="a node needs this folder", node=self.identity)
        self._entries += len(listing.entries)
        self._folders |= {path: state for path, state in listing.entries.items() if state.kind == "d"}
        for path in sorted({*listing.entries, *listing.targets, *listing.large}):
            if path == base or not path.startswith(base + b"/"):
                continue
            inside = _text(path[len(base) + 1 :])
            if not is_plain(posixpath.dirname(inside)):
                # The folder is a fault already.
                continue
            if inside.endswith(_SUFFIX):
                self._entry(inside, path, listing)
            elif self._is_to_follow(inside, path, listing):
                self._followed.add(path)
                self._to_follow.append(path)
        if self._to_follow:
            self._roots, self._with_contents = self._next_roots(), True
            return self.commands.read(self._roots)
        return self._next()

    def _next_roots(self) -> list[bytes]:
        """Take off the list as many folders as one command can name."""
        left, count = ARGUMENTS_LIMIT, 0
        for path in self._to_follow:
            left -= letters(_text(path))
            if left < 0:
                break
            count += 1
        found, self._to_follow = self._to_follow[:count], self._to_follow[count:]
        return found

    def _is_to_follow(self, inside: str, path: bytes, listing: Listing) -> bool:
        """Tell whether this is a link to a folder that has to be listed too; what is wrong with a folder is noted."""
        state = listing.entries.get(path)
        if state is not None and state.kind not in {"d", "l"}:
            return False
        linked = path in listing.targets and path not in self._followed
        why = self._folder_fault(inside, path, listing, linked=linked)
        if why is not None:
            self._fault(inside + "/", NodeFileError(why))
        return linked and why is None

    def _folder_fault(self, inside: str, path: bytes, listing: Listing, *, linked: bool) -> str | None:
        state = listing.entries.get(path)
        if not is_plain(inside):
            return _NOT_PLAIN
        if state is None or state.kind == "l" or path in listing.unlistable:
            return "can't be listed" if state and state.kind == "d" else "can't be read: No such file or directory"
        if inside.count("/") >= self.limits.depth:
            return f"lies more than {self.limits.depth} folders deep"
        if linked and state.inode in {above.inode for above in self._above(path)}:
            return "is a link to a folder that it lies in"
        if linked and (self._entries > self.limits.entries or self._requests >= self.limits.requests):
            return "was not listed: there is too much in the node's folders"
        return None

    def _above(self, path: bytes) -> list[FileState]:
        return [self._folders[folder] for folder in _folders_of(path) if folder in self._folders]

    def _entry(self, inside: str, path: bytes, listing: Listing) -> None:
        try:
            self._one(inside, path, listing)
        except NodeFileError as error:
            self._fault(inside, error)

    def _one(self, inside: str, path: bytes, listing: Listing) -> None:
        if not is_plain(inside):
            raise NodeFileError(_NOT_PLAIN)
        state = listing.entries.get(path)
        if path in listing.large or (state is not None and state.kind == "f" and state.size > self.limits.file):
            raise NodeFileError(
                f"is larger than {self.limits.file} bytes", way_out="no settings file is; look what it is"
            )
        target = self._target(path, listing)
        if state is None or state.kind == "l":
            raise NodeFileError(
                f"is a link to {shown(target)}, which isn't there" if target else "is a link that leads nowhere"
            )
        if state.kind != "f":
            raise NodeFileError("is not a regular file")
        if not target or not is_plain(target):
            raise NodeFileError("leads to a file whose name is not plain UTF-8 text")
        if state.size > self._room:
            raise NodeFileError("is one too many: the node's files are larger than may be read of one node")
        self._room -= state.size
        self._targets[inside] = target
        content = self._content(path, listing)
        if content is None:
            self._waiting[inside] = Assembly(_text(path), self.limits.file, self.limits.tries, state.size)
        else:
            self._add(inside, state, content, listing.digests[path])

    def _content(self, path: bytes, listing: Listing) -> bytes | None:
        if path in listing.contents:
            return listing.contents[path]
        digest, content = self._early.pop(path, ("", b""))
        return content if digest and digest == listing.digests.get(path) else None

    def _target(self, path: bytes, listing: Listing) -> str:
        """Return where a file really lies, as the node sees it; empty if a link leads nowhere."""
        if path in listing.targets:
            found = listing.targets[path]
        else:
            folder = next((above for above in _folders_of(path) if listing.targets.get(above)), path)
            found = listing.targets.get(folder, b"").rstrip(b"/") + path[len(folder) :]
        return _text(found).removeprefix(self.commands.root) if found else ""

    def _add(self, inside: str, state: FileState, content: bytes, digest: str) -> None:
        self._files[inside] = NodeFile(
            path=inside,
            target=self._targets[inside],
            content=content,
            sha256=digest,
            mode=state.mode,
            owner=state.owner,
            group=state.group,
        )

    # The pieces

    def _pieces(self, asked: list[Piece], stdout: bytes) -> NextStep:
        by_path = {assembly.path: assembly for assembly in self._waiting.values()}
        for piece, lines in zip(asked, split(stdout, len(asked)), strict=True):
            by_path[piece.path].take(piece, lines)
        for inside, assembly in list(self._waiting.items()):
            if assembly.open:
                continue
            del self._waiting[inside]
            if assembly.content is not None and assembly.state is not None:
                self._add(inside, assembly.state, assembly.content, assembly.digest)
            else:
                self._fault(inside, assembly.fault or NodeFileError("is not there any more"))
        return self._next()

    def _next(self) -> NextStep:
        if self._requests >= self.limits.requests:
            for inside in [*self._waiting]:
                self._fault(inside, NodeFileError("was not read: the node's files took too many requests"))
            self._waiting.clear()
        if self._waiting:
            self._asked = next_pieces(self._waiting.values())
            return self.commands.pieces(self._asked)
        for path, owner in aliases(HIERA, self._files).items():
            target = self._files[path].target
            self._fault(path, NodeFileError(f"leads to the same file as {owner}, {target}"))
        return NodeRead(self.identity, dict(sorted(self._files.items())), dict(sorted(self._faults.items())))


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _folders_of(path: bytes) -> Iterator[bytes]:
    while path != b"/":
        path = posixpath.dirname(path)
        yield path
