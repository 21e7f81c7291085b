"""Nodes as a folder of trees, ``<root>/node-<id>/etc/hiera/...``, as ``rsync`` brings them from nodes.

The identity is the text after ``node-``, as it stands: it has to be the fact ``uid``, so ``node-07`` is the
node ``07`` and contradicts a ``uid`` of 7. Whatever else lies beside these folders is no node. A ``node-...``
that is a symbolic link is listed and then fails: to skip it in silence would leave a node out.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from configdb_sync.errors import NodeError, NodeFileError, SettingsError
from configdb_sync.names import natural_key
from configdb_sync.nodes import faults, folders, replacing
from configdb_sync.nodes.model import NodeFile, NodeRead
from configdb_sync.nodes.names import is_plain, shown
from configdb_sync.nodes.reading import open_regular
from configdb_sync.nodes.survey import as_file, survey
from configdb_sync.nodes.tree import OPEN_FOLDER, Place, Tree
from configdb_sync.nodes.writable import BASE, writable_files
from configdb_sync.settings import DEFAULT_WRITABLE

HIERA = "/etc/hiera"
FILE_LIMIT = 32 << 20
NODE_LIMIT = 256 << 20

_PREFIX = "node-"
_EXPECTED = "a folder with node-<id>/etc/hiera in it is expected"


class DirectoryNodes:
    """The nodes of one environment as trees below ``root`` (``Nodes`` of ``nodes.model``).

    ``env`` is the environment's number, ``writable`` the setting that says which files may be written
    (``SettingsError`` for what it can't hold).
    ``file_limit`` bytes are read of one file and ``node_limit`` of one node; what is beyond is a fault.
    ``new_mode`` is the mode of files that are created: they may hold passwords, so the stricter one of Fuel's
    two. ``clock`` gives seconds since the epoch.
    """

    def __init__(
        self,
        root: Path,
        *,
        env: int | None,
        writable: Sequence[str] = DEFAULT_WRITABLE,
        file_limit: int = FILE_LIMIT,
        node_limit: int = NODE_LIMIT,
        new_mode: int = 0o640,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._root = Path(os.path.normpath(root.absolute()))
        self._writable = writable_files(writable, env)
        self._file_limit = file_limit
        self._node_limit = node_limit
        self._new_mode = new_mode
        self._clock = clock

    @property
    def place(self) -> str:
        """``directory:`` and the absolute path of the folder."""
        return f"directory:{shown(str(self._root))}"

    def identities(self) -> Sequence[str]:
        """Return the ids of all ``node-<id>`` folders, ``2`` before ``10``; ``SettingsError`` for none."""
        root = shown(str(self._root))
        try:
            with os.scandir(self._root) as entries:
                names = [
                    entry.name
                    for entry in entries
                    if entry.is_symlink() or entry.is_dir(follow_symlinks=False)
                    if entry.name.startswith(_PREFIX) and entry.name != _PREFIX
                ]
        except OSError as error:
            raise SettingsError(
                f"{shown(str(self._root))} can't be used: {error.strerror}", way_out=_EXPECTED
            ) from error
        if not names:
            raise SettingsError(f"{root} holds no node-<id> folders", way_out=_EXPECTED)
        return sorted((shown(name.removeprefix(_PREFIX)) for name in names), key=natural_key)

    def read(self, identities: Sequence[str]) -> Iterator[NodeRead | NodeError]:
        """Yield each node when it is asked for, one held at a time."""
        for identity in identities:
            yield self._read(identity)

    def _read(self, identity: str) -> NodeRead | NodeError:
        try:
            with self._tree(identity) as tree:
                return survey(tree, identity, HIERA, file_limit=self._file_limit, node_limit=self._node_limit)
        except NodeError as error:
            return error

    def write(self, identity: str, path: str, content: bytes, expected: NodeFile | None) -> NodeFile:
        """Replace the file, or create it; see ``Nodes.write`` and ``replacing``."""
        with self._tree(identity) as tree, faults.located(identity, path, "written"):
            check_path(path)
            if len(content) > self._file_limit:
                raise NodeFileError(f"would be larger than {self._file_limit} bytes")
            if expected is None:
                return self._create(tree, path, content)
            with self._live(tree, path, expected) as (place, live):
                found = replacing.replace(place.folder, live, content)
                return as_file(path, place.target, content, found)

    def remove(self, identity: str, expected: NodeFile) -> None:
        """Take the file away, and with it the folders that were made for it and hold nothing else."""
        with self._tree(identity) as tree, faults.located(identity, expected.path, "removed"):
            check_path(expected.path)
            with self._live(tree, expected.path, expected) as (place, live):
                if place.target != posixpath.join(HIERA, expected.path):
                    raise NodeFileError(f"leads to {place.target}; only a file that was created here can be removed")
                replacing.take_away(place.folder, live)
            folders.prune(tree, HIERA, expected.path)

    def _create(self, tree: Tree, path: str, content: bytes) -> NodeFile:
        try:
            folders.make(tree, HIERA, path, self._check_place)
            with tree.at(posixpath.join(HIERA, path)) as place:
                self._check_place(place.target)
                if place.found is not None:
                    raise replacing.appeared()
                if place.linked:
                    raise NodeFileError(f"is a link to {place.target}, which isn't there")
                replacing.clean(place.folder, self._clock(), None)
                found = replacing.create(place.folder, place.name, content, self._new_mode)
                return as_file(path, place.target, content, found)
        except BaseException:
            folders.prune(tree, HIERA, path)
            raise

    @contextlib.contextmanager
    def _live(self, tree: Tree, path: str, expected: NodeFile) -> Iterator[tuple[Place, replacing.Live]]:
        with self._place(tree, path) as place:
            if place.target != expected.target or not place.regular:
                raise replacing.changed()
            self._check_file(tree, place.target)
            replacing.clean(place.folder, self._clock(), place.found)
            descriptor = open_regular(place)
            try:
                live = replacing.look(descriptor, place.name, self._file_limit)
                if live.sha256 != expected.sha256:
                    raise replacing.changed()
                yield place, live
            finally:
                os.close(descriptor)

    @contextlib.contextmanager
    def _place(self, tree: Tree, path: str) -> Iterator[Place]:
        with contextlib.ExitStack() as stack:
            try:
                place = stack.enter_context(tree.at(posixpath.join(HIERA, path)))
            except FileNotFoundError as error:
                raise replacing.changed() from error
            yield place

    def _check_place(self, target: str) -> None:
        if not self._writable.allows(target):
            raise self._writable.refusal(target)

    def _check_file(self, tree: Tree, target: str) -> None:
        if self._writable.allows_linked(target):
            with contextlib.suppress(OSError), tree.at(BASE) as place:
                if place.target == target:
                    return
        self._check_place(target)

    @contextlib.contextmanager
    def _tree(self, identity: str) -> Iterator[Tree]:
        if not identity or not is_plain(identity) or "/" in identity:
            raise NodeError("is no name that a node can have", node=shown(identity))
        try:
            root = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                top = os.open(_PREFIX + identity, OPEN_FOLDER, dir_fd=root)
            finally:
                os.close(root)
        except OSError as error:
            raise NodeError(
                f"{shown(str(self._root))}/{_PREFIX}{identity} can't be opened: {faults.why(error)}",
                way_out=_EXPECTED,
                node=identity,
            ) from error
        try:
            yield Tree(top)
        finally:
            os.close(top)


def check_path(path: str) -> None:
    """Raise ``NodeFileError`` (without node and file) for what is no path of a settings file below the hiera folder."""
    steps = path.split("/")
    if not is_plain(path) or not path.endswith(".yaml") or any(step in {"", ".", ".."} for step in steps):
        raise NodeFileError("is no path of a settings file below /etc/hiera")
