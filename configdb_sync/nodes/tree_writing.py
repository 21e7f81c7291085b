"""Replaces, creates and removes a file in an open folder, and the folders made for it (W01, W02, R3).

A reader at any moment finds the old file or the new one. The new content is written to a temporary file of mode
0600 in the same folder, gets the old file's attributes, is checked and renamed. A killed run leaves such a
temporary file, whose name no Hiera reads; the next write to the folder removes it. A folder that was made for a file
holds an empty file ``.configdb-sync.folder``, so that a new master too knows whose it is.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from configdb_sync.errors import NodeFileError
from configdb_sync.nodes.node_files import HIERA, appeared, changed, hard_linked
from configdb_sync.nodes.tree import OPEN_FOLDER, NodeTree, ResolvedPath
from configdb_sync.nodes.tree_reading import read_whole

LEFTOVER_AGE = 600.0
"""Seconds after which a temporary file can't belong to a write in progress."""
MARK = ".configdb-sync.folder"

_TEMPORARY = re.compile(r"\.configdb-sync\.[0-9a-f]{16}\.tmp")
_ACL = "system.posix_acl_access"
# Made by the kernel from the content or tied to the program in it: wrong on other content.
_NOT_COPIED = frozenset({"security.ima", "security.evm", "security.capability"})


@dataclass(frozen=True)
class OpenFile:
    """A file that is open for the whole of its replacement: its state and its content's digest."""

    descriptor: int
    name: str
    found: os.stat_result
    sha256: str


def look(descriptor: int, name: str, limit: int) -> OpenFile:
    """Read an open regular file of at most ``limit`` bytes. Raises as ``read_whole`` does."""
    content, found = read_whole(descriptor, limit)
    return OpenFile(descriptor, name, found, hashlib.sha256(content).hexdigest())


def replace(folder: int, live: OpenFile, content: bytes) -> os.stat_result:
    """Put ``content`` in place of ``live``, with its owner, group, mode, labels; return the new file's state.

    Raises ``FileChangedError`` if the file isn't ``live`` any more, ``NodeFileError`` or OSError for what
    fails; the old file is then intact and the temporary one gone.
    """
    if live.found.st_nlink > 1:
        raise hard_linked(live.found.st_nlink)
    with _temporary(folder) as (temporary, descriptor):
        _fill(descriptor, content)
        _own(descriptor, live.found.st_uid, live.found.st_gid)
        _label(descriptor, live.descriptor)
        os.fchmod(descriptor, stat.S_IMODE(live.found.st_mode))
        os.fsync(descriptor)
        _verify(descriptor, content)
        _check_unchanged(folder, live)
        os.rename(temporary, live.name, src_dir_fd=folder, dst_dir_fd=folder)
        _settle(folder)
        return os.fstat(descriptor)


def create(folder: int, name: str, content: bytes, mode: int) -> os.stat_result:
    """Create a file, owned as its folder is where this process may give files away; return its state.

    Raises ``FileChangedError`` if something has that name already, even if it came this very moment.
    """
    with _temporary(folder) as (temporary, descriptor):
        _fill(descriptor, content)
        _own_like_folder(descriptor, folder)
        os.fchmod(descriptor, mode)
        os.fsync(descriptor)
        _verify(descriptor, content)
        try:
            # Unlike a rename, a link never replaces.
            os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        except FileExistsError as error:
            raise appeared() from error
        os.unlink(temporary, dir_fd=folder)
        _settle(folder)
        return os.fstat(descriptor)


def remove(folder: int, live: OpenFile) -> None:
    """Remove ``live``. Raises ``FileChangedError`` if the file isn't that any more."""
    _check_unchanged(folder, live)
    os.unlink(live.name, dir_fd=folder)
    _settle(folder)


def clean(folder: int, now: float, beside: os.stat_result | None) -> None:
    """Remove temporary files of killed runs, older than ``LEFTOVER_AGE`` at ``now`` (seconds, epoch).

    One that is a second name of the file ``beside``, left between a creation's last two steps, goes at once.
    Failures are ignored: a leftover is harmless.
    """
    for name in os.listdir(folder):
        if not _TEMPORARY.fullmatch(name):
            continue
        with contextlib.suppress(OSError):
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            twin = beside is not None and (found.st_dev, found.st_ino) == (beside.st_dev, beside.st_ino)
            if stat.S_ISREG(found.st_mode) and (twin or now - found.st_mtime > LEFTOVER_AGE):
                os.unlink(name, dir_fd=folder)


def make_folders(tree: NodeTree, path: str, check: Callable[[str], None]) -> None:
    """Make each missing folder between the node's hiera folder and the file ``path`` below it.

    They get owner, group and mode of the folder that they are made in. ``check`` gets the absolute path of each and
    raises if it mustn't be made. Raises ``NodeFileError`` (without node and file) if
    something else is in the way, OSError otherwise.
    """
    for parent in _parents(path):
        with tree.at(parent) as place:
            if place.is_folder:
                continue
            if place.found is not None or place.linked:
                raise NodeFileError(f"can't be created: {place.target} is in the way and is no folder")
            check(place.target)
            _make_folder(place)


def prune_folders(tree: NodeTree, path: str) -> None:
    """Remove the folders above the file ``path`` that this product made and that are empty again."""
    for parent in reversed(_parents(path)):
        try:
            with tree.at(parent) as place:
                if not place.is_folder or place.linked or not _remove_folder(place):
                    return
        except OSError:
            return


def _parents(path: str) -> list[str]:
    steps = path.split("/")[:-1]
    return ["/".join([HIERA, *steps[: count + 1]]) for count in range(len(steps))]


def _make_folder(place: ResolvedPath) -> None:
    with contextlib.suppress(FileExistsError):
        os.mkdir(place.name, 0o700, dir_fd=place.folder)
        made = os.open(place.name, OPEN_FOLDER, dir_fd=place.folder)
        try:
            _own_like_folder(made, place.folder)
            os.fchmod(made, stat.S_IMODE(os.fstat(place.folder).st_mode))
            os.close(os.open(MARK, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=made))
            _settle(made)
            _settle(place.folder)
        finally:
            os.close(made)


def _remove_folder(place: ResolvedPath) -> bool:
    folder = os.open(place.name, OPEN_FOLDER, dir_fd=place.folder)
    try:
        if os.listdir(folder) != [MARK]:  # noqa: PTH208  a descriptor, no path
            return False
        os.unlink(MARK, dir_fd=folder)
    finally:
        os.close(folder)
    os.rmdir(place.name, dir_fd=place.folder)
    _settle(place.folder)
    return True


@contextlib.contextmanager
def _temporary(folder: int) -> Iterator[tuple[str, int]]:
    name = f".configdb-sync.{secrets.token_hex(8)}.tmp"
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, 0o600, dir_fd=folder)
    try:
        yield name, descriptor
    finally:
        os.close(descriptor)
        # Gone already after a rename. What can't be removed now is a leftover for the next write.
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=folder)


def _fill(descriptor: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _verify(descriptor: int, content: bytes) -> None:
    found, _ = read_whole(descriptor, len(content))
    if found != content:
        raise NodeFileError("reads back differently from what was written", way_out="check the node's disk")


def _check_unchanged(folder: int, live: OpenFile) -> None:
    """Raise ``FileChangedError`` unless the name in ``folder`` is still ``live``, state and content."""
    try:
        now = os.stat(live.name, dir_fd=folder, follow_symlinks=False)
        content, found = read_whole(live.descriptor, live.found.st_size)
    except (FileNotFoundError, NodeFileError) as error:
        raise changed() from error
    same_file = _state(now) == _state(live.found) == _state(found)
    if not same_file or hashlib.sha256(content).hexdigest() != live.sha256:
        raise changed()


def _state(found: os.stat_result) -> tuple[int, ...]:
    place = found.st_dev, found.st_ino
    return (*place, found.st_mode, found.st_uid, found.st_gid, found.st_size, found.st_mtime_ns)


def _own_like_folder(descriptor: int, folder: int) -> None:
    """Give a new file or folder its folder's owner and group if this process may; otherwise leave it."""
    parent = os.fstat(folder)
    with contextlib.suppress(PermissionError):
        _chown(descriptor, parent.st_uid, parent.st_gid)


def _own(descriptor: int, owner: int, group: int) -> None:
    try:
        _chown(descriptor, owner, group)
    except PermissionError as error:
        raise NodeFileError(
            f"belongs to {owner}:{group}, which only root can give a file to",
            way_out="run as root or as its owner",
        ) from error


def _chown(descriptor: int, owner: int, group: int) -> None:
    now = os.fstat(descriptor)
    if (now.st_uid, now.st_gid) != (owner, group):
        os.fchown(descriptor, owner, group)


def _label(descriptor: int, like: int) -> None:
    """Copy extended attributes (SELinux label, access list, users' own) where the file system has them."""
    wanted, present = _attributes(like), _attributes(descriptor)
    for name, value in wanted.items():
        if present.get(name) == value:
            continue
        try:
            os.setxattr(descriptor, name, value)
        except PermissionError as error:
            raise NodeFileError(
                f"its attribute {name} can't be kept: {error.strerror}", way_out="run as root"
            ) from error
    if _ACL in present and _ACL not in wanted:
        # A folder's default list gave it to the new file; the old one had none.
        os.removexattr(descriptor, _ACL)


def _attributes(descriptor: int) -> dict[str, bytes]:
    try:
        names = os.listxattr(descriptor)
    except OSError as error:
        if error.errno in {errno.ENOTSUP, errno.ENOSYS}:
            return {}
        raise
    found: dict[str, bytes] = {}
    for name in names:
        if name in _NOT_COPIED:
            continue
        try:
            found[name] = os.getxattr(descriptor, name)
        except OSError as error:
            # Listed, yet not readable: a label of a module that is switched off, or gone meanwhile.
            if error.errno not in {errno.ENODATA, errno.ENOTSUP}:
                raise
    return found


def _settle(folder: int) -> None:
    """Have the disk hold an open folder's names as they are now (R3). Raises OSError if the disk fails."""
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno not in {errno.EINVAL, errno.ENOTSUP, errno.ENOSYS}:
            raise
        # A file system that can't sync one folder alone syncs all that it has.
        os.sync()
