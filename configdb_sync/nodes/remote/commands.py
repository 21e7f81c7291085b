"""The shell commands that run on nodes (U8, U10), made from the scripts in the folder ``scripts``.

They need no more than Ubuntu 14.04 and CentOS 7 have: a POSIX shell, coreutils, findutils, gzip. A command ends by
itself (``timeout``), since an agent that gives up leaves its command running. No command holds the content of a file:
commands show in ``ps`` and in the node's log.
"""

from __future__ import annotations

import base64
import functools
import gzip
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from configdb_sync.nodes.node_files import HIERA, HIERA_YAML, HIERA_YAML_LIMIT, NEW_MODE, NodeFile

OUTPUT_LIMIT = 1_900_000
"""Characters that a reading command prints at most (a multiple of 4, as base64 is): a message stays below 2 MB."""

PIECES_LIMIT = 1_300_000
"""Bytes in all that ``pieces`` may ask for: as base64, even if they can't be compressed, they fit in a message."""

ARGUMENTS_LIMIT = 90_000
"""Bytes that the names in one command may take: Linux allows 128 KiB for one argument of ``sh -c``, script included."""

_KILL_AFTER = 5
_ALONE = frozenset({"read", "pieces", "ruby"})
"""Scripts that don't need what the others have in common."""


@dataclass(frozen=True)
class Piece:
    """What to read of one file: ``length`` bytes from ``offset`` on."""

    path: str
    offset: int
    length: int


@dataclass(frozen=True)
class Commands:
    """Makes commands for nodes whose ``/`` is the folder ``root`` (only tests give one) and that end by themselves.

    ``limit`` is the most seconds that a command may take, ``file_limit`` the most bytes of a file that is read.
    """

    limit: int = 60
    file_limit: int = 32 << 20
    root: str = ""

    @property
    def hiera(self) -> str:
        """The hiera folder."""
        return self.root + HIERA

    def read(self, folders: Sequence[bytes], *, contents: bool = True) -> str:
        """Return the command that prints the node's ``hiera.yaml`` and all settings files below ``folders``, or just
        lists these; see ``listing``."""
        own = [self.root + path for path in HIERA_YAML]
        how = "cat" if contents else "true"
        # One byte more than the limit tells a file that is larger.
        return self._command("read", self.file_limit, OUTPUT_LIMIT, how, HIERA_YAML_LIMIT + 1, *own, *folders)

    def pieces(self, pieces: Sequence[Piece]) -> str:
        """Return the command that prints pieces of files; see ``pieces``."""
        arguments = [argument for piece in pieces for argument in (piece.path, piece.offset, piece.length)]
        return self._command("pieces", *arguments)

    def replace_begin(self, file: NodeFile, temporary: str, parts: Sequence[str], link: str = "") -> str:
        """Return the command that makes ready to replace a file; with ``link`` only if that path leads to it too."""
        return self._command("replace-begin", *self._read_as(file), temporary, link and self.root + link, *parts)

    def replace_end(self, file: NodeFile, new: str, temporary: str, parts: Sequence[str]) -> str:
        """Return the command that puts the content with the sha256 ``new`` in place of the file."""
        return self._command("replace-end", *self._read_as(file), new, temporary, *parts)

    def create_begin(self, path: str, temporary: str, writable: Sequence[str], parts: Sequence[str]) -> str:
        """Return the command that makes ready to create a file at one of the places ``writable`` or below it."""
        places = [self.root + place for place in writable]
        return self._command("create-begin", self.hiera, path, temporary, len(places), *places, *parts)

    def create_end(self, folder: str, path: str, new: str, temporary: str, parts: Sequence[str]) -> str:
        """Return the command that puts the content of sha256 ``new`` in the folder that ``create_begin`` named."""
        return self._command("create-end", folder, self.hiera, path, new, f"{NEW_MODE:04o}", temporary, *parts)

    def remove(self, file: NodeFile) -> str:
        """Return the command that removes a file."""
        return self._command("remove", self.hiera, file.path, self.root + file.target, file.sha256)

    def discard(self, folder: str, temporary: str, path: str) -> str:
        """Return the command that removes what a write left in ``folder`` (as it is on the machine)."""
        return self._command("discard", folder, temporary, self.hiera, path)

    def ruby(self, program: bytes, *arguments: str) -> str:
        """Return the command that runs a Ruby program. Like all commands it shows in the node's list of processes."""
        return self._command("ruby", base64.b64encode(gzip.compress(program, mtime=0)), *arguments)

    def _read_as(self, file: NodeFile) -> tuple[str, str, str]:
        return f"{self.hiera}/{file.path}", self.root + file.target, file.sha256

    def _command(self, name: str, *arguments: str | bytes | int) -> str:
        texts = [one.decode("utf-8") if isinstance(one, bytes) else str(one) for one in arguments]
        words = ["timeout", "-k", str(_KILL_AFTER), str(self.limit), "sh", "-c", script(name), name, *texts]
        return shlex.join(words)


def letters(name: str) -> int:
    """Return how many bytes a name takes in a command: a quote in it takes five."""
    return len(shlex.quote(name).encode()) + 1


@functools.cache
def script(name: str) -> str:
    """Return a script as it is sent: without comments and indents, with what it has in common with others."""
    folder = files(__package__) / "scripts"
    names = ["environment", name] if name in _ALONE else ["environment", "common", name]
    text = "".join((folder / f"{one}.sh").read_text(encoding="utf-8") for one in names)
    return re.sub(r"^(?:[ ]+|[ ]*#.*\n|\n)", "", text, flags=re.MULTILINE)
