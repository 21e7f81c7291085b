"""The reading of one node over the bus: a command's output goes in, the next command or the result comes out.

No I/O. An ordinary node takes one command; links to folders, more than an answer holds and files that change
meanwhile take further ones.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass, field

from configdb_sync.errors import NodeError, NodeFileError
from configdb_sync.nodes import node_files
from configdb_sync.nodes.node_files import HIERA, NOT_PLAIN, SUFFIX, NodeFile, NodeRead, ReadLimits, is_plain, shown
from configdb_sync.nodes.remote.command_output import (
    Assembly,
    CommandOutput,
    FileState,
    Listing,
    OutputError,
    as_text,
    fault,
    listed,
    next_pieces,
    split,
    unpacked,
)
from configdb_sync.nodes.remote.commands import ARGUMENTS_LIMIT, Commands, Piece, letters

NextStep = str | NodeRead | NodeError
"""A further command, or the result: what was read, or why nothing was."""


@dataclass
class NodeReading:
    """The reading of one node. ``first`` is its first command; ``take`` takes each command's output."""

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
    _hiera_yaml: bytes | None = None

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
            self._hiera_yaml = listing.hiera_yaml
            if not listing.whole:
                # The contents that came are kept; the list is read again without any.
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

    def _listed(self, listing: Listing) -> NextStep:
        base = self.commands.hiera.encode()
        if base not in self._folders and (base not in listing.entries or base in listing.unlistable):
            return NodeError(f"{HIERA} can't be listed", way_out="a node needs this folder", node=self.identity)
        self._entries += len(listing.entries)
        self._folders |= {path: state for path, state in listing.entries.items() if state.kind == "d"}
        for path in sorted({*listing.entries, *listing.targets, *listing.large}):
            if path == base or not path.startswith(base + b"/"):
                continue
            inside = as_text(path[len(base) + 1 :])
            if not is_plain(posixpath.dirname(inside)):
                # The folder is a fault already.
                continue
            if inside.endswith(SUFFIX):
                try:
                    self._take_file(inside, path, listing)
                except NodeFileError as error:
                    self._fault(inside, error)
            elif self._is_to_follow(inside, path, listing):
                self._followed.add(path)
                self._to_follow.append(path)
        if self._to_follow:
            self._roots, self._with_contents = self._next_roots(), True
            return self.commands.read(self._roots)
        return self._next()

    def _next_roots(self) -> list[bytes]:
        """Remove from the list, and return, as many folders as one command can name."""
        left, count = ARGUMENTS_LIMIT, 0
        for path in self._to_follow:
            left -= letters(as_text(path))
            if left < 0:
                break
            count += 1
        found, self._to_follow = self._to_follow[:count], self._to_follow[count:]
        return found

    def _is_to_follow(self, inside: str, path: bytes, listing: Listing) -> bool:
        """Tell whether this is a link to a folder that has to be listed too; a folder's fault is noted."""
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
            return NOT_PLAIN
        if state is None or state.kind == "l" or path in listing.unlistable:
            return "can't be listed" if state and state.kind == "d" else "can't be read: No such file or directory"
        if inside.count("/") >= self.limits.depth:
            return f"lies more than {self.limits.depth} folders deep"
        above = [self._folders[folder] for folder in _folders_of(path) if folder in self._folders]
        if linked and state.inode in {folder.inode for folder in above}:
            return "is a link to a folder that it lies in"
        if linked and (self._entries > self.limits.entries or self._requests >= self.limits.requests):
            return "was not listed: there is too much in the node's folders"
        return None

    def _take_file(self, inside: str, path: bytes, listing: Listing) -> None:
        if not is_plain(inside):
            raise NodeFileError(NOT_PLAIN)
        state = listing.entries.get(path)
        if path in listing.large or (state is not None and state.kind == "f" and state.size > self.limits.file):
            raise node_files.too_large(self.limits.file)
        target = self._target(path, listing)
        if state is None or state.kind == "l":
            raise node_files.dangling(shown(target)) if target else NodeFileError("is a link that leads nowhere")
        if state.kind != "f":
            raise NodeFileError("is not a regular file")
        if not target or not is_plain(target):
            raise NodeFileError("leads to a file whose name is not plain UTF-8 text")
        if state.size > self._room:
            raise node_files.node_too_large(self.limits.node)
        self._room -= state.size
        self._targets[inside] = target
        content = self._content(path, listing)
        if content is None:
            self._waiting[inside] = Assembly(as_text(path), self.limits.file, self.limits.tries, state.size)
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
        return as_text(found).removeprefix(self.commands.root) if found else ""

    def _add(self, inside: str, state: FileState, content: bytes, digest: str) -> None:
        target = self._targets[inside]
        self._files[inside] = NodeFile(inside, target, content, digest, state.mode, state.owner, state.group)

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
        for path, error in node_files.aliases(self._files).items():
            self._fault(path, error)
        files, faults = dict(sorted(self._files.items())), dict(sorted(self._faults.items()))
        return NodeRead(self.identity, files, faults, hiera_yaml=self._hiera_yaml)


def _folders_of(path: bytes) -> Iterator[bytes]:
    while path != b"/":
        path = posixpath.dirname(path)
        yield path
