"""Files that hold secrets and are given to a command: closed to others, or refused."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from configdb_sync.errors import SettingsError


def is_trusted(found: os.stat_result) -> bool:
    """Tell whether a file, folder or link belongs to this user or to root."""
    return found.st_uid in {0, os.geteuid()}


@contextlib.contextmanager
def open_closed(path: Path, what: str, *, way_out: str | None = None) -> Iterator[IO[bytes]]:
    """Yield a file of mode 0600 of this user or root, opened for reading. ``what`` names it in errors.

    Raises ``SettingsError`` if others may read or write it, if it or the link to it is another user's, or if it can't
    be read (then ``way_out`` is said).
    """
    try:
        if not is_trusted(path.lstat()):
            raise SettingsError(f"{what} {path} belongs to another user", way_out=f"chown it: {path}")
        with path.open("rb") as file:
            # What is read is what is looked at, whatever takes the name meanwhile.
            found = os.fstat(file.fileno())
            mode = stat.S_IMODE(found.st_mode)
            if not is_trusted(found):
                raise SettingsError(f"{what} {path} belongs to user {found.st_uid}", way_out=f"chown it: {path}")
            if mode & 0o077:
                raise SettingsError(f"{what} {path} is open to others (mode {mode:04o})", way_out=f"chmod 0600 {path}")
            yield file
    except OSError as error:
        raise SettingsError(f"{what} {path} can't be read: {error.strerror}", way_out=way_out) from error


def read_closed(path: Path, what: str, *, limit: int = -1, way_out: str | None = None) -> bytes:
    """Return the content of a file as ``open_closed`` opens it, ``limit`` bytes at most. Raises ``SettingsError``."""
    with open_closed(path, what, way_out=way_out) as file:
        return file.read(limit)
