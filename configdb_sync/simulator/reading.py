"""The reading scripts on a tree in memory."""

from __future__ import annotations

import base64
import gzip
import hashlib
from collections.abc import Sequence

from configdb_sync.simulator.tree import File, Folder, Link, Tree

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
    large, contents, folders = int(arguments[0]), arguments[2] == "cat", arguments[3:]
    found = [b"configdb-sync 1\0"]
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
