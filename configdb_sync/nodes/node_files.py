"""A node's files as the rest of the product sees them, and what every way to reach nodes must do.

Paths are POSIX paths below the node's hiera folder (``override/plugins.yaml`` is ``/etc/hiera/override/plugins.yaml``);
they come from nodes and are hostile until checked.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import os
import stat
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from configdb_sync.errors import FileChangedError, NodeError, NodeFileError

HIERA = "/etc/hiera"
"""The folder of the settings files on a node."""

HIERA_YAML = ("/etc/puppetlabs/puppet/hiera.yaml", "/etc/puppet/hiera.yaml", "/etc/hiera.yaml")
"""Where a node's own ``hiera.yaml`` is: the first of these that is a file. It is read, and never written."""

HIERA_YAML_LIMIT = 64 << 10
"""Bytes of a ``hiera.yaml``; a larger one is left out."""

NEW_MODE = 0o640
"""The mode of files that are created: they may hold passwords, so the stricter one of Fuel's two."""

SUFFIX = ".yaml"
NOT_PLAIN = "has a name that is not plain UTF-8 text"

_ODD_CATEGORIES = frozenset({"Cc", "Cs", "Zl", "Zp"})


@dataclass(frozen=True)
class ReadLimits:
    """How much of a node is read at most; what is beyond is reported and never loaded.

    ``file`` and ``node`` are bytes; ``entries`` and ``depth`` count what is below the hiera folder (Fuel has tens of
    entries, two levels deep). Over the bus alone: ``stream`` is the most bytes that one answer unpacks to, ``tries``
    how often a file that changes meanwhile is read, ``requests`` the most commands.
    """

    file: int = 32 << 20
    node: int = 256 << 20
    stream: int = 64 << 20
    entries: int = 20_000
    depth: int = 16
    tries: int = 3
    requests: int = 400


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

    A path in ``faults`` that ends in ``/`` is a folder that could not be listed: a file below it may exist, so do not
    take it for missing. Odd characters in these paths are escaped. No path is in both mappings.

    ``hiera_yaml`` is the node's ``hiera.yaml``, None if there is none that can be read; that is no fault.
    """

    identity: str
    files: Mapping[str, NodeFile]
    faults: Mapping[str, NodeFileError]
    hiera_yaml: bytes | None = field(default=None, repr=False, kw_only=True)

    def fault_of(self, path: str) -> NodeFileError | None:
        """Return why the file ``path``, or a folder above it, could not be read; None if all were read."""
        steps = path.split("/")
        folders = ("/".join(steps[:count]) + "/" for count in range(1, len(steps)))
        return next((self.faults[place] for place in (path, *folders) if place in self.faults), None)


@dataclass(frozen=True)
class NodeLeftOut(NodeRead):
    """A node that this run leaves out for the reason ``why``, which is no fault. Nothing was read of it."""

    why: str
    fqdn: str | None


class Nodes(Protocol):
    """One way to reach the nodes of an environment (U8, U10)."""

    @property
    def place(self) -> str:
        """A text that names where these nodes are, the same at every run (``directory:/srv/trees``)."""

    def identities(self) -> Sequence[str]:
        """Return the identities of all nodes in a stable order.

        Raises ``SettingsError``, ``NodeError`` or ``BusError`` if the place itself can't be used.
        """

    def read(self, identities: Sequence[str]) -> Iterator[NodeRead | NodeError]:
        """Yield each node's files as they come, in any order: exactly one item an identity.

        Lazy: no more than a few nodes are held at a time. A node that fails is an item, never an exception.
        """

    def write(self, identity: str, path: str, content: bytes, expected: NodeFile | None) -> NodeFile:
        """Replace one file whole, or create it if ``expected`` is None; return it as it now is.

        Atomic, with owner, group, mode and links as they were. Raises ``FileChangedError`` if the file isn't
        ``expected`` any more (or exists though None was expected), ``NodeFileError`` for every other failure;
        the old file is then intact and nothing is left beside it.
        """

    def remove(self, identity: str, expected: NodeFile) -> None:
        """Remove a file that an earlier run created. Raises as ``write`` does."""


@functools.lru_cache(maxsize=1024)
def is_plain(name: str) -> bool:
    """Tell whether a name is UTF-8 without control characters, line ends and backslashes.

    Backslashes are out so that a name as ``shown`` is never another file's plain name.
    """
    return "\\" not in name and not any(unicodedata.category(char) in _ODD_CATEGORIES for char in name)


def shown(name: str) -> str:
    """Return ``name`` fit for a message: odd characters, and bytes that are no UTF-8, as ``\\xff``."""
    return name if is_plain(name) else "".join(map(_escaped, name))


def _escaped(char: str) -> str:
    if char == "\\":
        return "\\\\"
    if unicodedata.category(char) not in _ODD_CATEGORIES:
        return char
    # The file system's codec maps a byte that isn't UTF-8 to one of these code points.
    code = ord(char) - 0xDC00 if 0xDC80 <= ord(char) <= 0xDCFF else ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def check_path(path: str) -> None:
    """Raise ``NodeFileError`` (without node and file) unless ``path`` can be a settings file below the hiera folder."""
    steps = path.split("/")
    if not is_plain(path) or not path.endswith(SUFFIX) or any(step in {"", ".", ".."} for step in steps):
        raise NodeFileError(f"can't be a settings file below {HIERA}")


def check_removable(file: NodeFile) -> None:
    """Raise ``NodeFileError`` for a file that links lead elsewhere."""
    if file.target != f"{HIERA}/{file.path}":
        raise NodeFileError(f"leads to {file.target}; only a file that was created here can be removed")


def aliases(files: Mapping[str, NodeFile]) -> dict[str, NodeFileError]:
    """Return the faults of all paths but one of each file: one file is one data source's.

    The file's own path counts, or else the first.
    """
    owners: dict[str, str] = {}
    for path, file in sorted(files.items()):
        if file.target == f"{HIERA}/{path}" or file.target not in owners:
            owners[file.target] = path
    return {
        path: NodeFileError(f"leads to the same file as {owners[file.target]}, {file.target}")
        for path, file in files.items()
        if owners[file.target] != path
    }


def as_file(path: str, target: str, content: bytes, found: os.stat_result) -> NodeFile:
    """Return a file with the state that the system gives for it."""
    sha256 = hashlib.sha256(content).hexdigest()
    return NodeFile(path, target, content, sha256, stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid)


WAYS_OUT = {
    errno.EROFS: "its file system is read-only: copy the trees to a place that can be written",
    errno.EACCES: "run as root or as the owner of the tree",
    errno.EPERM: "run as root or as the owner of the tree, and look for an immutable flag (lsattr)",
    errno.ENOSPC: "free space on its file system",
    errno.EDQUOT: "raise the quota or free space",
    errno.ELOOP: "its links lead in a circle, or a folder was replaced by a link just now",
    errno.ENOTDIR: "a part of its path is no folder",
}
"""What to do about an error of the system, by its number."""


def system_text(error: OSError) -> str:
    """Return the system's own words for an error."""
    return os.strerror(error.errno) if error.errno else str(error)


def file_error(error: OSError, doing: str, *, node: str, file: str) -> NodeFileError:
    """Return the error for a file that couldn't be ``doing`` (``read``, ``written``, ``removed``)."""
    return NodeFileError(
        f"can't be {doing}: {system_text(error)}", way_out=WAYS_OUT.get(error.errno or 0), node=node, file=file
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


def changed() -> FileChangedError:
    """Return the error for a file that someone else changed, moved or removed since it was read."""
    return FileChangedError("was changed after it was read; it was left alone", way_out="run again")


def appeared() -> FileChangedError:
    """Return the error for a file that exists though it was to be created."""
    return FileChangedError("was created by someone else after the node was read", way_out="run again")


def hard_linked(names: int) -> NodeFileError:
    """Return the error for a file with several names."""
    return NodeFileError(
        f"has {names} names (hard links), which a write would separate",
        way_out="make it a file of its own: copy it, and move the copy over it",
    )


def dangling(target: str) -> NodeFileError:
    """Return the error for a link to a file that isn't there."""
    return NodeFileError(f"is a link to {target}, which isn't there")


def too_large(limit: int) -> NodeFileError:
    """Return the error for a file that is larger than the limit for one."""
    return NodeFileError(f"is larger than {limit} bytes", way_out="no settings file is; check what it is")


def node_too_large(limit: int) -> NodeFileError:
    """Return the error for the file with which a node's files exceed the limit for one node."""
    return NodeFileError(f"was not read: the node's files are larger than {limit} bytes together")


def unsteady() -> NodeFileError:
    """Return the error for a file that changes each time it is read."""
    return NodeFileError("is being written at this moment", way_out="run again")
