"""Files that hold secrets and are given to a command: closed to others, or refused (``architecture.md``, State)."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from configdb_sync.errors import SettingsError


def read_closed(path: Path, what: str, *, limit: int = -1, way_out: str | None = None) -> bytes:
    """Return the content of a file of mode 0600, ``limit`` bytes at most.

    Raises ``SettingsError`` if others may read or write it, or it can't be read (then ``way_out`` is said). ``what``
    names the file in it.
    """
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if mode & 0o077:
                raise SettingsError(f"{what} {path} is open to others (mode {mode:04o})", way_out=f"chmod 0600 {path}")
            return file.read(limit)
    except OSError as error:
        raise SettingsError(f"{what} {path} can't be read: {error.strerror}", way_out=way_out) from error
