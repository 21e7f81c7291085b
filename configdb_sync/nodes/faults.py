"""What the operating system says, as errors of this product with node, file and way out."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator

from configdb_sync.errors import NodeFileError
from configdb_sync.nodes.names import shown

WAYS_OUT = {
    errno.EROFS: "its file system is read-only: copy the trees to a place that can be written",
    errno.EACCES: "run as root or as the owner of the tree",
    errno.EPERM: "run as root or as the owner of the tree, and look for an immutable flag (lsattr)",
    errno.ENOSPC: "make room on its file system",
    errno.EDQUOT: "raise the quota or make room",
    errno.ELOOP: "its links lead in a circle, or a folder was replaced by a link just now",
    errno.ENOTDIR: "something on its way is no folder",
}


def why(error: OSError) -> str:
    """Return the system's own words for an error."""
    return os.strerror(error.errno) if error.errno else str(error)


def file_error(error: OSError, doing: str, *, node: str, file: str) -> NodeFileError:
    """Return the error for a file that couldn't be ``doing`` (``read``, ``written``, ``removed``)."""
    return NodeFileError(
        f"can't be {doing}: {why(error)}",
        way_out=WAYS_OUT.get(error.errno or 0),
        node=node,
        file=file,
    )


@contextlib.contextmanager
def located(identity: str, path: str, doing: str) -> Iterator[None]:
    """Give every error of the block its node and file; an OSError becomes a ``NodeFileError``."""
    file = shown(path)
    try:
        yield
    except NodeFileError as error:
        error.node, error.file = identity, file
        raise
    except OSError as error:
        raise file_error(error, doing, node=identity, file=file) from error
