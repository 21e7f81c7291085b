"""The writing scripts on a tree in memory."""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from configdb_sync.simulator.tree import File, Folder, Tree

MARK = ".configdb-sync.folder"
_LEFTOVER = re.compile(r"\.configdb-sync\..{16}\.tmp")


class SaidError(Exception):
    """A script says how it went, and ends."""

    def __init__(self, word: str, rest: str = "", more: str | None = None) -> None:
        super().__init__(word)
        line = f"configdb-sync 1 {word}{' ' if rest else ''}{rest}\n"
        self.text = (line if more is None else f"{line}{more}\n").encode("utf-8", "surrogateescape")


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _live(tree: Tree, path: str, target: str) -> File:
    entry = tree.look(target)
    if tree.real(path) != target or not isinstance(entry, File):
        raise SaidError("changed")
    return entry


def _clean(tree: Tree, folder: str, temporary: str) -> None:
    for name in tree.names(folder):
        if _LEFTOVER.fullmatch(name) and name[:-12] == temporary[:-12]:
            tree.drop(f"{folder}/{name}")


def _begin(tree: Tree, folder: str, temporary: str, parts: Sequence[str]) -> None:
    _clean(tree, folder, temporary)
    tree.put(f"{folder}/{temporary}", Folder(0o700, inode=tree.tick()))
    for part in ("new", *parts):
        tree.put(f"{folder}/{temporary}/{part}", File(b"", 0o600, time=tree.tick(), inode=tree.tick()))


def _gather(tree: Tree, place: str, new: str, parts: Sequence[str], drop: Callable[..., None]) -> File:
    whole = tree.look(f"{place}/new")
    content = whole.content if isinstance(whole, File) else b""
    if parts:
        pieces = [(part, tree.look(f"{place}/{part}")) for part in parts]
        content = b"".join(
            entry.content[:-1] if part.endswith("p") else entry.content
            for part, entry in pieces
            if isinstance(entry, File)
        )
    if _digest(content) != new:
        drop("damaged")
    return File(content, 0o600, time=tree.tick(), inode=tree.tick())


def _report(file: File) -> SaidError:
    return SaidError("written", f"{file.mode:o} {file.owner} {file.group} {_digest(file.content)}")


def _prune(tree: Tree, base: str, path: str) -> None:
    place = posixpath.dirname(f"{base}/{path}")
    while place != base and isinstance(tree.look(place), Folder) and tree.names(place) == [MARK]:
        tree.drop(place)
        place = posixpath.dirname(place)


def _replace_begin(tree: Tree, arguments: list[str]) -> None:
    path, target, sha256, temporary, link, *parts = arguments
    if link and tree.real(link) != target:
        raise SaidError("forbidden")
    if _digest(_live(tree, path, target).content) != sha256:
        raise SaidError("changed")
    _begin(tree, posixpath.dirname(target), temporary, parts)
    raise SaidError("ready")


def _replace_end(tree: Tree, arguments: list[str]) -> None:
    path, target, sha256, new, temporary, *parts = arguments
    live = _live(tree, path, target)
    place = f"{posixpath.dirname(target)}/{temporary}"
    if tree.look(place) is None:
        raise _report(live) if _digest(live.content) == new else SaidError("lost")

    def drop(word: str) -> None:
        tree.drop(place)
        raise SaidError(word)

    file = _gather(tree, place, new, parts, drop)
    if _digest(live.content) != sha256:
        drop("changed")
    file = replace(file, mode=live.mode, owner=live.owner, group=live.group)
    tree.put(target, file)
    tree.drop(place)
    raise _report(file)


def _create_begin(tree: Tree, arguments: list[str]) -> None:
    base, path, temporary, count, *rest = arguments
    places, parts = rest[: int(count)], rest[int(count) :]

    def within(place: str) -> None:
        if not any(place == one or place.startswith(one + "/") for one in places):
            raise SaidError("forbidden", more=place)

    def undo(word: str) -> None:
        _prune(tree, base, path)
        raise SaidError(word)

    here = tree.real(base) or ""
    if not isinstance(tree.find(base), Folder):
        raise SaidError("failed")
    *steps, name = path.split("/")
    for step in steps:
        place = f"{here}/{step}"
        if not isinstance(tree.find(place), Folder):
            if tree.look(place) is not None:
                undo("blocked")
            within(place)
            parent = tree.look(here)
            like = parent if isinstance(parent, Folder) else Folder()
            tree.put(place, replace(like, inode=tree.tick()))
            tree.put(f"{place}/{MARK}", File(b"", 0o600, inode=tree.tick()))
        here = tree.real(place) or place
    within(f"{here}/{name}")
    if tree.look(f"{here}/{name}") is not None:
        undo("dangling" if tree.find(f"{here}/{name}") is None else "appeared")
    _begin(tree, here, temporary, parts)
    raise SaidError("ready", more=here)


def _create_end(tree: Tree, arguments: list[str]) -> None:
    folder, base, path, new, mode, temporary, *parts = arguments
    target, place = f"{folder}/{posixpath.basename(path)}", f"{folder}/{temporary}"
    parent = tree.look(folder)
    if not isinstance(parent, Folder):
        raise SaidError("changed")
    if tree.look(place) is None:
        there = tree.look(target)
        raise _report(there) if isinstance(there, File) and _digest(there.content) == new else SaidError("lost")

    def undo(word: str) -> None:
        tree.drop(place)
        _prune(tree, base, path)
        raise SaidError(word)

    file = replace(_gather(tree, place, new, parts, undo), mode=int(mode, 8), owner=parent.owner, group=parent.group)
    if tree.look(target) is not None:
        undo("appeared")
    tree.put(target, file)
    tree.drop(place)
    raise _report(file)


def _remove(tree: Tree, arguments: list[str]) -> None:
    base, path, target, sha256 = arguments
    if _digest(_live(tree, f"{base}/{path}", target).content) != sha256:
        raise SaidError("changed")
    tree.drop(target)
    _prune(tree, base, path)
    raise SaidError("gone")


def _discard(tree: Tree, arguments: list[str]) -> None:
    folder, temporary, base, path = arguments
    tree.drop(f"{folder}/{temporary}")
    _prune(tree, base, path)
    raise SaidError("gone")


WRITING: Mapping[str, Callable[[Tree, list[str]], None]] = {
    "replace-begin": _replace_begin,
    "replace-end": _replace_end,
    "create-begin": _create_begin,
    "create-end": _create_end,
    "remove": _remove,
    "discard": _discard,
}
