"""A node's file system in memory, as far as settings files need one. Many nodes may share one base."""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_LINKS = 40


@dataclass(frozen=True)
class File:
    """A regular file. ``time`` counts changes; ``inode`` tells one file from another."""

    content: bytes = field(repr=False)
    mode: int = 0o644
    owner: int = 0
    group: int = 0
    time: int = 0
    inode: int = 0


@dataclass(frozen=True)
class Folder:
    """A folder."""

    mode: int = 0o755
    owner: int = 0
    group: int = 0
    time: int = 0
    inode: int = 0


@dataclass(frozen=True)
class Link:
    """A symbolic link."""

    target: str
    inode: int = 0


Entry = File | Folder | Link


class Tree:
    """What one node has: the entries of ``base`` by absolute path, and its own changes over them."""

    def __init__(self, base: Mapping[str, Entry]) -> None:
        self.base = base
        self._own: dict[str, Entry | None] = {}
        self._clock = 1_000_000

    @property
    def touched(self) -> bool:
        """Whether anything was ever changed in it."""
        return bool(self._own)

    def tick(self) -> int:
        """Return a number that was never given before: a time of change, or an inode."""
        self._clock += 1
        return self._clock

    def look(self, path: str) -> Entry | None:
        """Return what is at ``path``, links not followed."""
        return self._own[path] if path in self._own else self.base.get(path)

    def put(self, path: str, entry: Entry) -> None:
        """Put something at ``path``, whose folder is there and is no link."""
        self._own[path] = entry

    def drop(self, path: str) -> None:
        """Take away what is at ``path``, and all below it."""
        for inner in [path, *self._below(path)]:
            self._own[inner] = None

    def move(self, source: str, target: str) -> None:
        """Rename what is at ``source``, which is no folder."""
        entry = self.look(source)
        assert entry is not None
        self.put(target, entry)
        self._own[source] = None

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, in order."""
        return sorted(path[len(folder) + 1 :] for path in self._below(folder) if "/" not in path[len(folder) + 1 :])

    def real(self, path: str) -> str | None:
        """Return where a path leads, links followed, as ``readlink -f`` does: its last name may be missing."""
        links, done = 0, "/"
        ahead = path.strip("/").split("/")
        while ahead:
            step = ahead.pop(0)
            if step in {"", "."}:
                continue
            if step == "..":
                done = posixpath.dirname(done)
                continue
            here = posixpath.join(done, step)
            entry = self.look(here)
            if isinstance(entry, Link):
                links += 1
                if links > _LINKS:
                    return None
                if entry.target.startswith("/"):
                    done = "/"
                ahead = [*entry.target.split("/"), *ahead]
            elif isinstance(entry, Folder) or not any(ahead):
                done = here
            else:
                return None
        return done

    def find(self, path: str) -> Entry | None:
        """Return what is at ``path``, links followed."""
        real = self.real(path)
        return Folder() if real == "/" else None if real is None else self.look(real)

    def files(self) -> Iterator[tuple[str, Entry]]:
        """Yield all there is, by path."""
        for path in sorted({*self.base, *self._own}):
            entry = self.look(path)
            if entry is not None:
                yield path, entry

    def _below(self, folder: str) -> list[str]:
        start = folder.rstrip("/") + "/"
        found = [path for path in (*self.base, *self._own) if path.startswith(start) and self.look(path) is not None]
        return list(dict.fromkeys(found))


def load(top: Path) -> dict[str, Entry]:
    """Return the tree of one node that lies below ``top`` on disk, as a base. Raises OSError."""
    found: dict[str, Entry] = {}
    number = 0
    for folder, folders, files in os.walk(top):
        for name in sorted([*folders, *files]):
            number += 1
            path = Path(folder, name)
            entry = _entry(path, number)
            if entry is not None:
                found["/" + str(path.relative_to(top))] = entry
    return found


def _entry(path: Path, number: int) -> Entry | None:
    state = path.lstat()
    mode = stat.S_IMODE(state.st_mode)
    if stat.S_ISLNK(state.st_mode):
        return Link(str(path.readlink()), number)
    if stat.S_ISDIR(state.st_mode):
        return Folder(mode, state.st_uid, state.st_gid, 0, number)
    if stat.S_ISREG(state.st_mode):
        return File(path.read_bytes(), mode, state.st_uid, state.st_gid, 0, number)
    return None


_ASTUTE = """\
---
uid: '{identity}'
fqdn: node-{identity}.domain.tld
deployment_id: {env}
role: compute
roles: [compute]
debug: false
nova:
  db_password: made-{identity}
  workers: 4
"""
_GLOBALS = """\
use_syslog: true
nova_hash:
  user_password: made
  rates: [1, 2]
"""


def made(identity: str, env: int) -> dict[str, Entry]:
    """Return the tree of a node of environment ``env``, with the links of Fuel 9."""
    cluster = f"/etc/fuel/cluster/{env}"
    folders = ("/etc", "/etc/hiera", "/etc/fuel", "/etc/fuel/cluster", cluster)
    found: dict[str, Entry] = {path: Folder(inode=number) for number, path in enumerate(folders, start=2)}
    found["/etc/hiera/astute.yaml"] = Link("/etc/astute.yaml", 10)
    found["/etc/astute.yaml"] = Link(f"{cluster}/astute.yaml", 11)
    found[f"{cluster}/astute.yaml"] = File(_ASTUTE.format(identity=identity, env=env).encode(), 0o640, inode=12)
    found["/etc/hiera/globals.yaml"] = File(_GLOBALS.encode(), 0o640, inode=13)
    return found
