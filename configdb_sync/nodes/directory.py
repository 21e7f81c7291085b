"""Nodes as a folder of trees, ``<root>/node-<id>/etc/hiera/...``, as ``rsync`` copies them from nodes.

The identity is the text after ``node-`` as it stands. It has to be the fact ``uid``, so ``node-07`` is the
node ``07`` and contradicts a ``uid`` of 7. Whatever else is beside these folders is no node. A ``node-...``
that is a symbolic link is listed and then fails: to skip it in silence would leave a node out.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from configdb_sync.errors import NodeError, NodeFileError, SettingsError
from configdb_sync.names import natural_key
from configdb_sync.nodes import node_files, tree_writing
from configdb_sync.nodes.node_files import HIERA, NodeFile, NodeRead, ReadLimits, as_file, is_plain, located, shown
from configdb_sync.nodes.tree import OPEN_FOLDER, NodeTree, ResolvedPath
from configdb_sync.nodes.tree_reading import open_regular, read_tree
from configdb_sync.nodes.writable import BASE, writable_files
from configdb_sync.settings import DEFAULT_WRITABLE

_PREFIX = "node-"
_EXPECTED = "a folder with node-<id>/etc/hiera in it is expected"


class DirectoryNodes:
    """The nodes of one environment as trees below ``root`` (``Nodes`` of ``node_files``).

    ``env`` is the environment's number, ``writable`` the setting that says which files may be written
    (``SettingsError`` for what it can't hold). ``clock`` gives seconds since the epoch.
    """

    def __init__(
        self,
        root: Path,
        *,
        env: int | None,
        writable: Sequence[str] = DEFAULT_WRITABLE,
        limits: ReadLimits | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._root = Path(os.path.normpath(root.absolute()))
        self._writable = writable_files(writable, env)
        self._limits = limits or ReadLimits()
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
            raise SettingsError(f"{root} can't be used: {error.strerror}", way_out=_EXPECTED) from error
        if not names:
            raise SettingsError(f"{root} holds no node-<id> folders", way_out=_EXPECTED)
        return sorted((shown(name.removeprefix(_PREFIX)) for name in names), key=natural_key)

    def read(self, identities: Sequence[str]) -> Iterator[NodeRead | NodeError]:
        """Yield each node when it is asked for, one held at a time."""
        for identity in identities:
            try:
                with self._tree(identity) as tree:
                    item: NodeRead | NodeError = read_tree(tree, identity, self._limits)
            except NodeError as error:
                item = error
            yield item

    def write(self, identity: str, path: str, content: bytes, expected: NodeFile | None) -> NodeFile:
        """Replace the file, or create it; see ``Nodes.write`` and ``tree_writing``."""
        with self._tree(identity) as tree, located(identity, path, "written"):
            node_files.check_path(path)
            if len(content) > self._limits.file:
                raise NodeFileError(f"would be larger than {self._limits.file} bytes")
            if expected is None:
                return self._create(tree, path, content)
            with self._live(tree, path, expected) as (place, live):
                return as_file(path, place.target, content, tree_writing.replace(place.folder, live, content))

    def remove(self, identity: str, expected: NodeFile) -> None:
        """Remove the file, and the folders that were made for it and are empty now."""
        with self._tree(identity) as tree, located(identity, expected.path, "removed"):
            node_files.check_path(expected.path)
            with self._live(tree, expected.path, expected) as (place, live):
                node_files.check_removable(expected)
                tree_writing.remove(place.folder, live)
            tree_writing.prune_folders(tree, expected.path)

    def _create(self, tree: NodeTree, path: str, content: bytes) -> NodeFile:
        try:
            tree_writing.make_folders(tree, path, self._writable.check)
            with tree.at(f"{HIERA}/{path}") as place:
                self._writable.check(place.target)
                if place.found is not None:
                    raise node_files.appeared()
                if place.linked:
                    raise node_files.dangling(place.target)
                tree_writing.clean(place.folder, self._clock(), None)
                found = tree_writing.create(place.folder, place.name, content, node_files.NEW_MODE)
                return as_file(path, place.target, content, found)
        except BaseException:
            tree_writing.prune_folders(tree, path)
            raise

    @contextlib.contextmanager
    def _live(
        self, tree: NodeTree, path: str, expected: NodeFile
    ) -> Iterator[tuple[ResolvedPath, tree_writing.OpenFile]]:
        """Yield the file, open, if it is as ``expected`` and may be written."""
        with contextlib.ExitStack() as stack:
            try:
                place = stack.enter_context(tree.at(f"{HIERA}/{path}"))
            except FileNotFoundError as error:
                raise node_files.changed() from error
            if place.target != expected.target or not place.regular:
                raise node_files.changed()
            self._check_writable(tree, place.target)
            tree_writing.clean(place.folder, self._clock(), place.found)
            descriptor = stack.enter_context(open_regular(place))
            live = tree_writing.look(descriptor, place.name, self._limits.file)
            if live.sha256 != expected.sha256:
                raise node_files.changed()
            yield place, live

    def _check_writable(self, tree: NodeTree, target: str) -> None:
        if self._writable.allows_linked(target):
            with contextlib.suppress(OSError), tree.at(BASE) as place:
                if place.target == target:
                    return
        self._writable.check(target)

    @contextlib.contextmanager
    def _tree(self, identity: str) -> Iterator[NodeTree]:
        if not identity or not is_plain(identity) or "/" in identity:
            raise NodeError("can't be the name of a node", node=shown(identity))
        try:
            root = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                top = os.open(_PREFIX + identity, OPEN_FOLDER, dir_fd=root)
            finally:
                os.close(root)
        except OSError as error:
            raise NodeError(
                f"{shown(str(self._root))}/{_PREFIX}{identity} can't be opened: {node_files.system_text(error)}",
                way_out=_EXPECTED,
                node=identity,
            ) from error
        try:
            yield NodeTree(top)
        finally:
            os.close(top)
