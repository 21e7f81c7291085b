"""One regular file read whole: bounded, never a device, never half of a write that is under way."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from configdb_sync.errors import NodeError, NodeFileError
from configdb_sync.nodes import node_files
from configdb_sync.nodes.node_files import NodeFile, NodeRead
from configdb_sync.nodes.plain_names import is_plain, shown
from configdb_sync.nodes.tree import OPEN_FILE, NodeTree, OpenFolder, ResolvedPath

_TRIES = 3
_CHUNK = 1 << 20


def open_regular(place: ResolvedPath) -> int:
    """Return a descriptor (read only) of the regular file at ``place``; the caller closes it.

    Raises ``NodeFileError`` (without node and file) if nothing or something else is there, OSError otherwise.
    """
    if place.found is None:
        raise NodeFileError(f"is a link to {place.target}, which isn't there" if place.linked else "is not there")
    if not place.regular:
        raise NodeFileError("is not a regular file")
    descriptor = os.open(place.name, OPEN_FILE, dir_fd=place.folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NodeFileError("is not a regular file")
    return descriptor


def read_whole(descriptor: int, limit: int) -> tuple[bytes, os.stat_result]:
    """Return content and state of an open regular file.

    Raises ``NodeFileError`` (without node and file) for more than ``limit`` bytes and for a file that is
    being written in place, as Astute's ``uploadfile`` agent does.
    """
    for _ in range(_TRIES):
        before = os.fstat(descriptor)
        if before.st_size > limit:
            raise NodeFileError(f"is larger than {limit} bytes", way_out="no settings file is; look what it is")
        content = _read(descriptor, limit + 1)
        after = os.fstat(descriptor)
        if len(content) == after.st_size and _state(before) == _state(after):
            return content, after
    raise NodeFileError("is being written at this moment", way_out="run again")


def _read(descriptor: int, most: int) -> bytes:
    parts: list[bytes] = []
    place = 0
    while place < most:
        part = os.pread(descriptor, min(_CHUNK, most - place), place)
        if not part:
            break
        parts.append(part)
        place += len(part)
    return b"".join(parts)


def _state(found: os.stat_result) -> tuple[int, int]:
    return found.st_size, found.st_mtime_ns


MAX_DEPTH = 16
"""Folders below the hiera folder; Fuel has two levels."""

MAX_ENTRIES = 20_000
"""Entries of one node's hiera folder in all; Fuel has tens."""

_SUFFIX = ".yaml"

_Inode = tuple[int, int]


@dataclass
class _Survey:
    tree: NodeTree
    identity: str
    base: str
    file_limit: int
    room: int
    entries: int = 0
    files: dict[str, NodeFile] = field(default_factory=dict)
    node_files: dict[str, NodeFileError] = field(default_factory=dict)

    def fault(self, path: str, error: NodeFileError | OSError) -> None:
        file = shown(path)
        if isinstance(error, OSError):
            error = node_files.file_error(error, "read", node=self.identity, file=file)
        error.node, error.file = self.identity, file
        self.faults[file] = error


def survey(tree: NodeTree, identity: str, base: str, *, file_limit: int, node_limit: int) -> NodeRead:
    """Return what lies below the node folder ``base``.

    A fault's key that ends in ``/`` is a folder that could not be listed. Of several paths that lead to one
    file the file's own is read, or else the first; the others are faults: one file is one data source's.
    Raises ``NodeError`` if ``base`` itself can't be listed.
    """
    work = _Survey(tree, identity, base, file_limit, node_limit)
    _folder(work, "", ())
    _drop_aliases(work)
    return NodeRead(identity, dict(sorted(work.files.items())), dict(sorted(work.faults.items())))


def _folder(work: _Survey, prefix: str, above: tuple[_Inode, ...]) -> None:
    try:
        with work.tree.inside(f"{work.base}/{prefix}") as folder:
            names, inode = _listed(work, folder.descriptor)
            fault = _circular(inode, above)
            if fault is None:
                _files(work, folder, prefix, [name for name, _ in names if name.endswith(_SUFFIX)])
    except (OSError, NodeFileError) as error:
        if not prefix:
            why = node_files.why(error) if isinstance(error, OSError) else error.what
            raise NodeError(
                f"{work.base} can't be listed: {why}", way_out="a node needs this folder", node=work.identity
            ) from error
        work.fault(prefix, error)
        return
    if fault is not None:
        work.fault(prefix, fault)
        return
    for name, mode in names:
        path = prefix + name
        if name.endswith(_SUFFIX):
            continue
        if stat.S_ISDIR(mode) or (stat.S_ISLNK(mode) and _link_to_folder(work, path)):
            if is_plain(name):
                _folder(work, path + "/", (*above, inode))
            else:
                work.fault(path + "/", NodeFileError("has a name that is not plain UTF-8 text"))


def _circular(inode: _Inode, above: tuple[_Inode, ...]) -> NodeFileError | None:
    if inode in above:
        return NodeFileError("is a link to a folder that it lies in")
    if len(above) > MAX_DEPTH:
        return NodeFileError(f"lies more than {MAX_DEPTH} folders deep")
    return None


def _listed(work: _Survey, folder: int) -> tuple[list[tuple[str, int]], _Inode]:
    names = sorted(os.listdir(folder))
    work.entries += len(names)
    if work.entries > MAX_ENTRIES:
        raise NodeFileError(f"holds more than {MAX_ENTRIES} entries", way_out="look what fills it")
    found = os.fstat(folder)
    return [(name, _mode(folder, name)) for name in names], (found.st_dev, found.st_ino)


def _mode(folder: int, name: str) -> int:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return 0


def _link_to_folder(work: _Survey, path: str) -> bool:
    """Tell whether a link not named ``*.yaml`` leads to a folder, or to nothing, where one may have been."""
    try:
        with work.tree.at(f"{work.base}/{path}") as place:
            return place.is_folder or place.found is None
    except OSError:
        return True


def _files(work: _Survey, folder: OpenFolder, prefix: str, names: Sequence[str]) -> None:
    for name in names:
        path = prefix + name
        if not is_plain(path):
            work.fault(path, NodeFileError("has a name that is not plain UTF-8 text"))
            continue
        try:
            work.files[path] = _read_survey(work, folder, path, name)
        except (NodeFileError, OSError) as error:
            work.fault(path, error)


def _read_survey(work: _Survey, folder: OpenFolder, path: str, name: str) -> NodeFile:
    with folder.at(name) as place:
        descriptor = open_regular(place)
        try:
            content, found = read_whole(descriptor, work.file_limit)
        finally:
            os.close(descriptor)
        if len(content) > work.room:
            raise NodeFileError("is one too many: the node's files are larger than may be read of one node")
        work.room -= len(content)
        return as_file(path, place.target, content, found)


def as_file(path: str, target: str, content: bytes, found: os.stat_result) -> NodeFile:
    """Return a file as it was found."""
    return NodeFile(
        path=path,
        target=target,
        content=content,
        sha256=hashlib.sha256(content).hexdigest(),
        mode=stat.S_IMODE(found.st_mode),
        owner=found.st_uid,
        group=found.st_gid,
    )


def _drop_aliases(work: _Survey) -> None:
    for path, owner in aliases(work.base, work.files).items():
        work.fault(path, NodeFileError(f"leads to the same file as {owner}, {work.files.pop(path).target}"))


def aliases(base: str, files: Mapping[str, NodeFile]) -> dict[str, str]:
    """Return, for each path that is one too many of a file below the node folder ``base``, the path that counts."""
    owners: dict[str, str] = {}
    for path, file in sorted(files.items()):
        own = file.target == f"{base}/{path}"
        if own or file.target not in owners:
            owners[file.target] = path
    return {path: owners[file.target] for path, file in files.items() if owners[file.target] != path}
