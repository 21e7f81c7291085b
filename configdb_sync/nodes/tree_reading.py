"""Reads one node's tree: every ``*.yaml`` below the hiera folder, each one read or a fault.

A file is read whole: bounded, never a device, never half of a write that is in progress.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from configdb_sync.errors import NodeError, NodeFileError
from configdb_sync.nodes import node_files
from configdb_sync.nodes.node_files import (
    HIERA,
    HIERA_YAML,
    HIERA_YAML_LIMIT,
    NOT_PLAIN,
    SUFFIX,
    NodeFile,
    NodeRead,
    ReadLimits,
    is_plain,
    shown,
)
from configdb_sync.nodes.tree import OPEN_FILE, NodeTree, OpenFolder, ResolvedPath, look

_TRIES = 3
_CHUNK = 1 << 20

_Inode = tuple[int, int]


@contextmanager
def open_regular(place: ResolvedPath) -> Iterator[int]:
    """Yield a descriptor (read only) of the regular file at ``place``.

    Raises ``NodeFileError`` (without node and file) if nothing or something else is there, OSError otherwise.
    """
    if place.found is None:
        raise node_files.dangling(place.target) if place.linked else NodeFileError("is not there")
    if not place.regular:
        raise NodeFileError("is not a regular file")
    descriptor = os.open(place.name, OPEN_FILE, dir_fd=place.folder)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NodeFileError("is not a regular file")
        yield descriptor
    finally:
        os.close(descriptor)


def read_whole(descriptor: int, limit: int) -> tuple[bytes, os.stat_result]:
    """Return content and state of an open regular file.

    Raises ``NodeFileError`` (without node and file) for more than ``limit`` bytes and for a file that is
    being written in place, as Astute's ``uploadfile`` agent does.
    """
    for _ in range(_TRIES):
        before = os.fstat(descriptor)
        if before.st_size > limit:
            raise node_files.too_large(limit)
        content = _read(descriptor, limit + 1)
        after = os.fstat(descriptor)
        same = (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
        if len(content) == after.st_size and same:
            return content, after
    raise node_files.unsteady()


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


def read_tree(tree: NodeTree, identity: str, limits: ReadLimits) -> NodeRead:
    """Return what lies below the node's hiera folder, and its ``hiera.yaml``.

    A fault's key that ends in ``/`` is a folder that could not be listed. Raises ``NodeError`` if the hiera folder
    itself can't be listed.
    """
    reading = _TreeReading(tree, identity, limits)
    reading.folder("", ())
    for path, error in node_files.aliases(reading.files).items():
        del reading.files[path]
        reading.fault(path, error)
    files, faults = dict(sorted(reading.files.items())), dict(sorted(reading.faults.items()))
    return NodeRead(identity, files, faults, hiera_yaml=_read_hiera_yaml(tree))


def _read_hiera_yaml(tree: NodeTree) -> bytes | None:
    for path in HIERA_YAML:
        try:
            with tree.at(path) as place:
                if not place.regular:
                    continue
                with open_regular(place) as descriptor:
                    return read_whole(descriptor, HIERA_YAML_LIMIT)[0]
        except NodeFileError:
            return None
        except OSError:
            continue
    return None


class _TreeReading:
    def __init__(self, tree: NodeTree, identity: str, limits: ReadLimits) -> None:
        self.files: dict[str, NodeFile] = {}
        self.faults: dict[str, NodeFileError] = {}
        self._tree = tree
        self._identity = identity
        self._limits = limits
        self._room = limits.node
        self._entries = 0

    def fault(self, path: str, error: NodeFileError | OSError) -> None:
        file = shown(path)
        if isinstance(error, OSError):
            error = node_files.file_error(error, "read", node=self._identity, file=file)
        error.node, error.file = self._identity, file
        self.faults[file] = error

    def folder(self, prefix: str, above: tuple[_Inode, ...]) -> None:
        """Read what lies in a folder and below it; ``above`` are the folders that it lies in."""
        try:
            with self._tree.inside(f"{HIERA}/{prefix}") as folder:
                names, inode = self._listed(folder.descriptor, above)
                self._read_files(folder, prefix, [name for name, _ in names if name.endswith(SUFFIX)])
        except (OSError, NodeFileError) as error:
            if prefix:
                self.fault(prefix, error)
                return
            why = node_files.system_text(error) if isinstance(error, OSError) else error.what
            raise NodeError(
                f"{HIERA} can't be listed: {why}", way_out="a node needs this folder", node=self._identity
            ) from error
        for name, mode in names:
            path = prefix + name
            if name.endswith(SUFFIX):
                continue
            if stat.S_ISDIR(mode) or (stat.S_ISLNK(mode) and self._leads_to_folder(path)):
                if is_plain(name):
                    self.folder(path + "/", (*above, inode))
                else:
                    self.fault(path + "/", NodeFileError(NOT_PLAIN))

    def _listed(self, folder: int, above: tuple[_Inode, ...]) -> tuple[list[tuple[str, int]], _Inode]:
        """Return the names in a folder with their modes, and its inode. Raises ``NodeFileError`` if it is too much."""
        names = sorted(os.listdir(folder))
        self._entries += len(names)
        if self._entries > self._limits.entries:
            raise NodeFileError(f"holds more than {self._limits.entries} entries", way_out="check what fills it")
        found = os.fstat(folder)
        inode = (found.st_dev, found.st_ino)
        if inode in above:
            raise NodeFileError("is a link to a folder that it lies in")
        if len(above) > self._limits.depth:
            raise NodeFileError(f"lies more than {self._limits.depth} folders deep")
        return [(name, _mode(folder, name)) for name in names], inode

    def _leads_to_folder(self, path: str) -> bool:
        """Tell whether a link not named ``*.yaml`` leads to a folder, or to nothing, where one may have been."""
        try:
            with self._tree.at(f"{HIERA}/{path}") as place:
                return place.is_folder or place.found is None
        except OSError:
            return True

    def _read_files(self, folder: OpenFolder, prefix: str, names: Sequence[str]) -> None:
        for name in names:
            path = prefix + name
            try:
                if not is_plain(path):
                    raise NodeFileError(NOT_PLAIN)
                self.files[path] = self._read_file(folder, path, name)
            except (NodeFileError, OSError) as error:
                self.fault(path, error)

    def _read_file(self, folder: OpenFolder, path: str, name: str) -> NodeFile:
        with folder.at(name) as place:
            with open_regular(place) as descriptor:
                content, found = read_whole(descriptor, self._limits.file)
            if len(content) > self._room:
                raise node_files.node_too_large(self._limits.node)
            self._room -= len(content)
            return node_files.as_file(path, place.target, content, found)


def _mode(folder: int, name: str) -> int:
    found = look(folder, name)
    return 0 if found is None else found.st_mode
