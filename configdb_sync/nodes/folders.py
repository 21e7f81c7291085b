"""Folders below ``/etc/hiera`` that are made for a new file, and go again with the last one that needed them.

A folder that we made holds an empty file ``.configdb-sync.folder``: so a new master too knows it as ours.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import stat
from collections.abc import Callable

from configdb_sync.errors import NodeFileError
from configdb_sync.nodes.replacing import like_folder, settle
from configdb_sync.nodes.tree import OPEN_FOLDER, Place, Tree

MARK = ".configdb-sync.folder"


def make(tree: Tree, base: str, path: str, check: Callable[[str], None]) -> None:
    """Make each missing folder on the way from the node folder ``base`` to the file ``path`` below it.

    They get owner, group and mode of the folder that they are made in. ``check`` is asked about the absolute
    path of each and raises if it mustn't be made. Raises ``NodeFileError`` (without node and file) if
    something else is in the way, OSError otherwise.
    """
    for parent in _parents(path):
        with tree.at(posixpath.join(base, parent)) as place:
            if place.is_folder:
                continue
            if place.found is not None or place.linked:
                raise NodeFileError(f"can't be created: {place.target} is in the way and is no folder")
            check(place.target)
            _make_one(place)


def prune(tree: Tree, base: str, path: str) -> None:
    """Take away the folders on the way to the file ``path`` that we made and that hold nothing any more."""
    for parent in reversed(_parents(path)):
        try:
            with tree.at(posixpath.join(base, parent)) as place:
                if not place.is_folder or place.linked or not _remove_one(place):
                    return
        except OSError:
            return


def _parents(path: str) -> list[str]:
    steps = path.split("/")[:-1]
    return ["/".join(steps[: count + 1]) for count in range(len(steps))]


def _make_one(place: Place) -> None:
    with contextlib.suppress(FileExistsError):
        os.mkdir(place.name, 0o700, dir_fd=place.folder)
        made = os.open(place.name, OPEN_FOLDER, dir_fd=place.folder)
        try:
            like_folder(made, place.folder)
            os.fchmod(made, stat.S_IMODE(os.fstat(place.folder).st_mode))
            os.close(os.open(MARK, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=made))
            settle(made)
            settle(place.folder)
        finally:
            os.close(made)


def _remove_one(place: Place) -> bool:
    folder = os.open(place.name, OPEN_FOLDER, dir_fd=place.folder)
    try:
        if os.listdir(folder) != [MARK]:  # noqa: PTH208  a descriptor, no path
            return False
        os.unlink(MARK, dir_fd=folder)
    finally:
        os.close(folder)
    os.rmdir(place.name, dir_fd=place.folder)
    settle(place.folder)
    return True
