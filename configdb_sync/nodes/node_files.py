"""What a node is to the rest of the product, and what every way to reach nodes must do.

Paths are POSIX paths below the node's hiera folder (``override/plugins.yaml`` is ``/etc/hiera/override/plugins.yaml``);
they come from nodes and are hostile until checked.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from configdb_sync.errors import NodeError, NodeFileError
from configdb_sync.nodes.plain_names import shown


@dataclass(frozen=True)
class NodeFile:
    """One file as it was read: its bytes and what must stay as it is when it is written.

    ``target`` is the absolute path on the node that links lead to (``/etc/fuel/cluster/16/astute.yaml`` for
    ``astute.yaml``). ``sha256`` is of ``content``.
    """

    path: str
    target: str
    content: bytes = field(repr=False)
    sha256: str
    mode: int
    owner: int
    group: int


@dataclass(frozen=True)
class NodeRead:
    """What was read of one node. ``faults`` holds what could not be read, by path.

    A path in ``faults`` that ends in ``/`` is a folder that could not be listed: a file below it may be there, so it
    must not be taken for missing. Odd characters in these paths are escaped. No path is in both mappings.
    """

    identity: str
    files: Mapping[str, NodeFile]
    faults: Mapping[str, NodeFileError]

    def fault_of(self, path: str) -> NodeFileError | None:
        """Return why the file ``path`` could not be read, or a folder that it would be in; None if neither is so."""
        steps = path.split("/")
        folders = ("/".join(steps[:count]) + "/" for count in range(1, len(steps)))
        return next((self.faults[place] for place in (path, *folders) if place in self.faults), None)


@dataclass(frozen=True)
class NodeLeftOut(NodeRead):
    """A node that isn't worked on in this run, though it is no fault: ``why`` tells. Nothing was read of it."""

    why: str
    fqdn: str | None


class Nodes(Protocol):
    """One way to reach the nodes of an environment (U8, U10)."""

    @property
    def place(self) -> str:
        """A text that names where these nodes are, the same at every run (``directory:/srv/trees``)."""

    def identities(self) -> Sequence[str]:
        """Return the identities of all nodes there, in a stable order.

        Raises ``SettingsError``, ``NodeError`` or ``BusError`` if the place itself can't be used.
        """

    def read(self, identities: Sequence[str]) -> Iterator[NodeRead | NodeError]:
        """Yield each node's files as they come, in any order: exactly one item an identity.

        Lazy: no more than a few nodes are held at a time. A node that fails is an item, never an exception.
        """

    def write(self, identity: str, path: str, content: bytes, expected: NodeFile | None) -> NodeFile:
        """Replace one file whole, or create it if ``expected`` is None; return it as it now is.

        Atomic, with owner, group, mode and links as they were. Raises ``FileChangedError`` if the file isn't
        ``expected`` any more (or is there though None was expected), ``NodeFileError`` for every other failure;
        the old file is then intact and nothing is left beside it.
        """

    def remove(self, identity: str, expected: NodeFile) -> None:
        """Take away a file that an earlier run created. Raises as ``write`` does."""


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


@dataclass(frozen=True)
class ReadLimits:
    """``file`` and ``node`` in bytes; ``stream`` is what one answer may hold once it is unpacked."""

    file: int = 32 << 20
    node: int = 256 << 20
    stream: int = 64 << 20
    entries: int = 20_000
    depth: int = 16
    tries: int = 3
    requests: int = 400
