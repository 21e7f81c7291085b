"""Checks of the file system: files with secrets are closed to other users, and no other user controls a path."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from configdb_sync.errors import SettingsError

_MOST_LINKS = 40


def is_trusted(found: os.stat_result) -> bool:
    """Tell whether a file, folder or link belongs to this user or to root."""
    return found.st_uid in {0, os.geteuid()}


@contextlib.contextmanager
def open_closed(path: Path, what: str, *, way_out: str) -> Iterator[IO[bytes]]:
    """Yield a file of mode 0600 of this user or root, opened for reading. ``what`` names it in errors.

    Raises ``SettingsError`` if others may read or write it, if it or the link to it is another user's, or if it can't
    be read (then ``way_out`` is said).
    """
    with contextlib.ExitStack() as stack:
        try:
            if not is_trusted(path.lstat()):
                raise SettingsError(f"{what} {path} belongs to another user", way_out=f"chown it: {path}")
            file = stack.enter_context(path.open("rb"))
            # What is read is what is looked at, whatever takes the name meanwhile.
            found = os.fstat(file.fileno())
            mode = stat.S_IMODE(found.st_mode)
            if not is_trusted(found):
                raise SettingsError(f"{what} {path} belongs to user {found.st_uid}", way_out=f"chown it: {path}")
            if mode & 0o077:
                raise SettingsError(f"{what} {path} is open to others (mode {mode:04o})", way_out=f"chmod 0600 {path}")
        except OSError as error:
            raise _unreadable(path, what, error, way_out) from error
        # What its user meets with is theirs to tell: a broken archive is an OSError, too.
        yield file


def read_closed(path: Path, what: str, *, limit: int = -1, way_out: str) -> bytes:
    """Return the content of a file as ``open_closed`` opens it, ``limit`` bytes at most. Raises ``SettingsError``."""
    with open_closed(path, what, way_out=way_out) as file:
        try:
            return file.read(limit)
        except OSError as error:
            raise _unreadable(path, what, error, way_out) from error


@contextlib.contextmanager
def new_closed(path: Path) -> Iterator[IO[bytes]]:
    """Yield a new file of mode 0600; the disk has it when the block ends. Raises ``OSError``, also if it is there."""
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def _unreadable(path: Path, what: str, error: OSError, way_out: str) -> SettingsError:
    return SettingsError(f"{what} {path} can't be read: {error.strerror}", way_out=way_out)


def unsafe_way(path: Path) -> str | None:
    """Return how another user can say where an absolute path leads, as far as it exists; None if nobody can.

    A link of another user leads to it, or a folder on the way is one in which others may rename what is in it.
    """
    here, left, links = Path("/"), [*path.parts[1:]], 0
    while left:
        name = left.pop(0)
        if name == "..":
            here = here.parent
            continue
        if here != Path("/") and _open_to_others(found := here.stat()):
            mode = stat.S_IMODE(found.st_mode)
            return f"others can replace what is in {here} (of user {found.st_uid}, mode {mode:04o})"
        try:
            found = (here / name).lstat()
        except FileNotFoundError:
            return None
        if not stat.S_ISLNK(found.st_mode):
            here = here / name
            continue
        links += 1
        if not is_trusted(found):
            return f"{here / name} is a link of user {found.st_uid}"
        if links > _MOST_LINKS:
            return f"{here / name} is one link too many"
        target = (here / name).readlink()
        here = Path("/") if target.is_absolute() else here
        left = [*target.parts[target.is_absolute() :], *left]
    return None


def _open_to_others(found: os.stat_result) -> bool:
    """Tell whether another user may rename what is in a folder. In a sticky one only an entry's owner may."""
    if not is_trusted(found):
        # The folder's own owner may, which a user must live with, and root need not.
        return os.geteuid() == 0
    by_group = found.st_mode & stat.S_IWGRP and found.st_gid not in {0, os.getegid()}
    return bool((by_group or found.st_mode & stat.S_IWOTH) and not found.st_mode & stat.S_ISVTX)
