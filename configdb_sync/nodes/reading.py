"""One regular file read whole: bounded, never a device, never half of a write that is under way."""

from __future__ import annotations

import os
import stat

from configdb_sync.errors import NodeFileError
from configdb_sync.nodes.tree import OPEN_FILE, Place

_TRIES = 3
_CHUNK = 1 << 20


def open_regular(place: Place) -> int:
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
