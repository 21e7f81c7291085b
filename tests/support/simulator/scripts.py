"""The product's own commands on a tree in memory: does what ``nodes/remote/scripts`` do.

It is no shell: a command that the product doesn't send is "not found". Tests compare it with a real shell.
"""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import posixpath
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from configdb_sync.nodes.remote.command_output import CommandOutput
from configdb_sync.nodes.remote.commands import script
from tests.support.simulator.tree import File, Folder, Link, Tree

_YAML = ".yaml"
_DEPTH = 17


def read(tree: Tree, arguments: Sequence[str]) -> bytes:
    """Return what ``read.sh`` prints."""
    return _packed(_stream(tree, arguments))[: int(arguments[1])]


def _packed(content: bytes) -> bytes:
    return base64.b64encode(gzip.compress(content, 1, mtime=0))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _stream(tree: Tree, arguments: Sequence[str]) -> bytes:
    large, contents, folders = int(arguments[0]), arguments[2] == "cat", arguments[7:]
    own = [entry for path in arguments[4:7] if isinstance(entry := tree.find(path), File)]
    found = [b"configdb-sync 1\0"]
    found += [b"h " + base64.b64encode(entry.content[: int(arguments[3])]) + b"\0" for entry in own[:1]]
    names: list[str] = []
    for folder in folders:
        real = tree.real(folder)
        here = real if real and isinstance(tree.find(folder), Folder) else ""
        found.append(_bytes(f"t {folder}\0{here}\0"))
        names += _walk(tree, folder, 0)
    _entries(tree, names, large, found, contents=contents)
    return b"".join(found) + b"end"


def _walk(tree: Tree, path: str, depth: int) -> list[str]:
    entry = tree.look(path) if depth else tree.find(path)
    if entry is None or depth > _DEPTH or (isinstance(entry, File) and not path.endswith(_YAML)):
        return []
    found = [path]
    if isinstance(entry, Folder) and not path.endswith(_YAML):
        # A root may be a link: what lies in it has its path all the same.
        real = path if depth else tree.real(path) or path
        for name in tree.names(real):
            found += [path + inner[len(real) :] for inner in _walk(tree, f"{real}/{name}", depth + 1)]
    return found


def _entries(tree: Tree, names: list[str], large: int, found: list[bytes], *, contents: bool) -> None:
    hashed: list[tuple[str, bytes]] = []
    for name in names:
        entry, linked = tree.find(name), isinstance(tree.look(name), Link)
        if linked:
            real = tree.real(name)
            found.append(_bytes(f"t {name}\0" + (f"{real}\n.\0" if real else "\0")))
        if isinstance(entry, File) and len(entry.content) > large and not linked:
            found.append(_bytes(f"x {name}\0"))
            continue
        state = _state(tree, name)
        if state:
            found.append(_bytes(f"f {state} {name}\0"))
        if name.endswith(_YAML) and isinstance(entry, File) and len(entry.content) <= large:
            hashed.append((name, entry.content))
    if not hashed:
        return
    found.append(b"s\0")
    for name, content in hashed:
        escaped = name.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
        start = "\\" if escaped != name else ""
        found.append(_bytes(f"{start}{hashlib.sha256(content).hexdigest()} *{escaped}\n"))
    found.append(b"\n")
    found += [content for _, content in hashed] if contents else []


def _state(tree: Tree, path: str) -> str:
    entry = tree.find(path)
    if isinstance(entry, File):
        size, kind = len(entry.content), "f"
    elif isinstance(entry, Folder):
        size, kind = 4096, "d"
    else:
        return ""
    return f"{kind} {entry.mode:o} {entry.owner} {entry.group} {size} {entry.time}.0 1 {entry.inode}"


def pieces(tree: Tree, arguments: Sequence[str]) -> bytes:
    """Return what ``pieces.sh`` prints."""
    lines: list[bytes] = []
    for place in range(0, len(arguments) - 2, 3):
        path, offset, length = arguments[place], int(arguments[place + 1]), int(arguments[place + 2])
        entry, state = tree.find(path), _bytes(_state(tree, path))
        if isinstance(entry, File):
            digest = b"" if offset else hashlib.sha256(entry.content).hexdigest().encode()
            lines += [state, digest, _packed(entry.content[offset : offset + length]), state, b""]
        else:
            lines += [state, b"", b"", b"", b""]
    return b"".join(line + b"\n" for line in lines)


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


_SAME = {
    "true": CommandOutput(b"", b"", 0),
    # Simulated nodes have no Hiera backend, and the only Ruby program that is sent looks for it.
    "ruby": CommandOutput(b'configdb-sync 1 {"environment":null,"found":[],"own":null,"error":null}\n', b"", 0),
}
_NOT_FOUND = CommandOutput(b"", b"sh: 1: not found\n", 127)


def execute(tree: Tree, command: str) -> CommandOutput:
    """Carry out a command on a node's tree."""
    parsed = _parsed(command)
    if parsed is None:
        return _NOT_FOUND
    name, arguments = parsed
    if name in _SAME:
        return _SAME[name]
    if name == "read":
        return CommandOutput(read(tree, arguments), b"", 0)
    if name == "pieces":
        return CommandOutput(pieces(tree, arguments), b"", 0)
    try:
        WRITING[name](tree, list(arguments))
    except SaidError as said:
        return CommandOutput(said.text, b"", 0)
    return CommandOutput(b"", b"", 1)


@functools.lru_cache(maxsize=64)
def _parsed(command: str) -> tuple[str, tuple[str, ...]] | None:
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    if words == ["true"]:
        return "true", ()
    if len(words) < 8 or words[0] != "timeout" or words[4:6] != ["sh", "-c"]:
        return None
    name = words[7]
    known = name in {"read", "pieces", "ruby", *WRITING}
    return (name, tuple(words[8:])) if known and words[6] == script(name) else None
