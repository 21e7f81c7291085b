"""A node's folder tree, walked so that nothing outside it is ever opened (``docs/node-files.md``, Reading).

Every path is walked folder by folder on open descriptors. This module alone reads and follows links, and ``..`` goes
back on the descriptors it came by. So neither a link, nor ``..``, nor someone who moves folders at the same time can
lead out of the tree: at worst the walk fails.
"""

from __future__ import annotations

import errno
import os
import posixpath
import re
import stat
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

MAX_LINKS = 40
"""As many links in one path as Linux itself follows."""

_LINK_TEXT_LIMIT = 4096
# No colon, space, brace or line end: no text of these characters is a YAML mapping, so none can be settings.
_LINK_TEXT = re.compile(r"[\w./@%+=,~-]+")


@dataclass(frozen=True)
class ResolvedPath:
    """Where a path leads: ``name`` in the open folder ``folder``, the absolute path ``target`` on the node.

    ``found`` is the state of what is there (never a symbolic link), None if nothing is. ``linked`` says that the path's
    last name is a symbolic link; with a ``found`` of None it is a dangling one.
    """

    folder: int
    name: str
    target: str
    found: os.stat_result | None
    linked: bool

    @property
    def regular(self) -> bool:
        """Whether a regular file is there."""
        return self.found is not None and stat.S_ISREG(self.found.st_mode)

    @property
    def is_folder(self) -> bool:
        """Whether a folder is there."""
        return self.found is not None and stat.S_ISDIR(self.found.st_mode)


class NodeTree:
    """One node's tree; ``top`` is a descriptor of the folder that is ``/`` on the node, not closed here."""

    def __init__(self, top: int) -> None:
        self._top = top

    @contextmanager
    def at(self, path: str) -> Iterator[ResolvedPath]:
        """Yield where the absolute node path ``path`` leads, links followed; its folder is open until then.

        A regular file that holds nothing but the text of a link, as in copies without symbolic links, is
        followed like that link. Raises OSError: ENOENT for a missing folder on the way, ELOOP for too
        many links, ENOTDIR, EACCES.
        """
        with _Steps(self._top) as steps:
            place = _walk(steps, path)
            for _ in range(MAX_LINKS):
                following = _flattened(place)
                if following is None or not self._leads_to_file(following):
                    break
                place = _walk(steps, following)
            else:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            yield place

    @contextmanager
    def inside(self, path: str) -> Iterator[OpenFolder]:
        """Yield the folder that ``path`` leads to, open until then. Raises OSError as ``at`` does."""
        with _Steps(self._top) as steps:
            place = _walk(steps, path)
            if place.name != ".":
                steps.into(place.name)
            yield OpenFolder(self, path, steps)

    def _leads_to_file(self, path: str) -> bool:
        with suppress(OSError), _Steps(self._top) as steps:
            return _walk(steps, path).regular
        return False


class OpenFolder:
    """An open folder, whose entries are found without another walk."""

    def __init__(self, tree: NodeTree, path: str, steps: _Steps) -> None:
        self._tree = tree
        self._path = path
        self._steps = steps

    @property
    def descriptor(self) -> int:
        """The folder itself."""
        return self._steps.folder

    @contextmanager
    def at(self, name: str) -> Iterator[ResolvedPath]:
        """Yield where a name in the folder leads, as ``NodeTree.at`` does for its path."""
        found = look(self.descriptor, name)
        if found is not None and stat.S_ISREG(found.st_mode):
            place = ResolvedPath(self.descriptor, name, self._steps.path_of(name), found, linked=False)
            if _flattened(place) is None:
                yield place
                return
        with self._tree.at(posixpath.join(self._path, name)) as place:
            yield place


class _Steps:
    """The open folders from the tree's top to where a walk stands."""

    def __init__(self, top: int) -> None:
        self._top = top
        self._below: list[tuple[str, int]] = []

    def __enter__(self) -> _Steps:
        return self

    def __exit__(self, *_: object) -> None:
        self.to_top()

    @property
    def folder(self) -> int:
        return self._below[-1][1] if self._below else self._top

    def path_of(self, name: str) -> str:
        return "/" + "/".join([*(step for step, _ in self._below), name])

    def into(self, name: str) -> None:
        self._below.append((name, os.open(name, OPEN_FOLDER, dir_fd=self.folder)))

    def back(self) -> None:
        if self._below:
            os.close(self._below.pop()[1])

    def to_top(self) -> None:
        while self._below:
            self.back()


def _walk(steps: _Steps, path: str) -> ResolvedPath:
    steps.to_top()
    ahead = deque(path.split("/"))
    links = 0
    linked = False
    while ahead:
        part = ahead.popleft()
        if part in {"", "."}:
            continue
        if part == "..":
            steps.back()
            continue
        found = look(steps.folder, part)
        if found is not None and stat.S_ISLNK(found.st_mode):
            links += 1
            if links > MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            linked = linked or not _any_name(ahead)
            text = os.readlink(part, dir_fd=steps.folder)
            if text.startswith("/"):
                steps.to_top()
            ahead.extendleft(reversed(text.split("/")))
        elif _any_name(ahead):
            steps.into(part)
        else:
            return ResolvedPath(steps.folder, part, steps.path_of(part), found, linked)
    # The path ends on a folder that was stepped into already: the top, or a link's "..".
    return ResolvedPath(steps.folder, ".", steps.path_of("."), os.fstat(steps.folder), linked)


def _any_name(steps: Iterable[str]) -> bool:
    return any(step not in {"", "."} for step in steps)


def look(folder: int, name: str) -> os.stat_result | None:
    """Return the state of a name in an open folder, a link's own; None if nothing is there."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _flattened(place: ResolvedPath) -> str | None:
    """Return the node path that the file at ``place`` leads to if it is a link's text, else None."""
    if not place.regular or place.found is None or not 0 < place.found.st_size <= _LINK_TEXT_LIMIT:
        return None
    descriptor = os.open(place.name, OPEN_FILE, dir_fd=place.folder)
    try:
        content = os.read(descriptor, _LINK_TEXT_LIMIT + 1)
    finally:
        os.close(descriptor)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return None
    if len(content) > _LINK_TEXT_LIMIT or not _LINK_TEXT.fullmatch(text):
        return None
    return posixpath.join(posixpath.dirname(place.target), text)
