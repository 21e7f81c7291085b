"""One file of one node replaced, created or taken away through the two agents (W01, W02).

The content goes to a temporary folder (0700) beside the file, into files that are born empty with mode 0600. One
command then looks that all is as it was, dresses the new file like the old one and renames it. What a killed write
leaves is such a folder; the next write of that file, or a later one to its folder, takes it away. An upload that comes
too late finds no folder, so it leaves nothing behind (W01, W02, W04, W05).
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from configdb_sync.errors import BusError, NodeError, NodeFileError
from configdb_sync.nodes import tree_writing
from configdb_sync.nodes.node_files import NodeFile
from configdb_sync.nodes.plain_names import is_plain
from configdb_sync.nodes.remote.agents import Agents, UploadPart, check_upload, names, parts
from configdb_sync.nodes.remote.commands import HIERA, Commands, NewFile
from configdb_sync.nodes.remote.output import CommandOutput, fault, system_words
from configdb_sync.nodes.writable import BASE, Writable

_ANSWER = re.compile(rb"configdb-sync 1 (?P<word>[a-z]+)(?: (?P<rest>[^\n]*))?\n(?:(?P<more>[^\n]*)\n)?")
_WRITTEN = re.compile(rb"(?P<mode>[0-7]{1,4}) (?P<owner>\d+) (?P<group>\d+) (?P<sha256>[0-9a-f]{64})")
_AGAIN = "run again"
_WHY = {
    "damaged": ("what arrived on the node isn't what was sent", _AGAIN),
    "lost": ("its temporary file is gone; another run wrote it at the same time", _AGAIN),
    "unsettled": ("was changed, but the node's disk doesn't confirm the change", "check the disk, then run again"),
    "undressed": ("its owner, group, mode or label can't be kept", "look on the node what is special about it"),
    "blocked": ("can't be created: something on its way is no folder", None),
    "dangling": ("is a link to a file that isn't there", None),
}


@dataclass(frozen=True)
class ScriptReply:
    """What a writing command says: one word, and what belongs to it."""

    word: str
    rest: bytes
    more: bytes


@dataclass(frozen=True)
class FileWriter:
    """Writes one node's files. ``token``: eight fresh hexadecimal digits for each call."""

    agents: Agents
    commands: Commands
    identity: str
    token: Callable[[], str]

    def replace(self, path: str, content: bytes, expected: NodeFile, writable: Writable) -> NodeFile:
        """Replace the file that was read as ``expected``. Raises ``FileChangedError``, ``NodeFileError``."""
        linked = not writable.allows(expected.target)
        if linked and not writable.allows_linked(expected.target):
            raise writable.refusal(expected.target)
        folder = self.commands.root + posixpath.dirname(expected.target)
        temporary = self._temporary(expected.target)
        found = parts(content)
        new = hashlib.sha256(content).hexdigest()
        check_upload(_longest(folder, temporary))
        begin = self.commands.replace_begin(expected, temporary, names(found), BASE if linked else "")
        if self._answer(begin, "ready", "forbidden").word == "forbidden":
            raise writable.refusal(expected.target)
        self._send(found, folder, temporary, path)
        end = self.commands.replace_end(expected, new, temporary, names(found))
        return self._written(path, expected.target, content, self._answer(end, "written"))

    def create(self, path: str, content: bytes, writable: Writable, mode: int) -> NodeFile:
        """Create a file where nothing is and ``writable`` lets one be. Raises as ``replace``."""
        temporary = self._temporary(posixpath.join(HIERA, path))
        found = parts(content)
        new = hashlib.sha256(content).hexdigest()
        check_upload(_longest(posixpath.dirname(posixpath.join(self.commands.hiera, path)), temporary))
        begin = self.commands.create_begin(path, temporary, writable.places, names(found))
        ready = self._answer(begin, "ready", "forbidden")
        if ready.word == "forbidden":
            raise writable.refusal(_text(ready.more).removeprefix(self.commands.root))
        folder = self._folder(ready)
        with _Discarding(self, folder, temporary, path):
            target = posixpath.join(folder.removeprefix(self.commands.root), posixpath.basename(path))
            if not writable.allows(target):
                # The node has looked already; what it answers is looked at too.
                raise writable.refusal(target)
            check_upload(_longest(folder, temporary))
        self._send(found, folder, temporary, path)
        end = self.commands.create_end(folder, path, NewFile(new, mode), temporary, names(found))
        return self._written(path, target, content, self._answer(end, "written"))

    def remove(self, expected: NodeFile) -> None:
        """Take the file away, with the folders that were made for it. Raises as ``replace``."""
        self._answer(self.commands.remove(expected), "gone", doing="removed")

    def discard(self, folder: str, temporary: str, path: str) -> None:
        """Take a temporary folder away as well as it goes: what stays is taken away by the next write."""
        with suppress(NodeError, BusError):
            self.agents.run(self.identity, self.commands.discard(folder, temporary, path))

    def _temporary(self, target: str) -> str:
        return f".configdb-sync.{hashlib.sha256(target.encode()).hexdigest()[:8]}{self.token()}.tmp"

    def _send(self, found: Sequence[UploadPart], folder: str, temporary: str, path: str) -> None:
        with _Discarding(self, folder, temporary, path):
            for part in found:
                try:
                    self.agents.upload(self.identity, f"{folder}/{temporary}/{part.name}", part.content)
                except NodeError as error:
                    raise _file_error(error) from error

    def _answer(self, command: str, *wanted: str, doing: str = "written") -> ScriptReply:
        try:
            output = self.agents.run(self.identity, command)
        except NodeError as error:
            raise _file_error(error, doing) from error
        found = _answer(output)
        if found is None:
            raise NodeFileError(
                f"can't be {doing}: {fault(output) or 'the node gives no answer of ours'}", way_out=_AGAIN
            )
        if found.word not in wanted:
            raise _refusal(found, output, doing)
        return found

    def _folder(self, found: ScriptReply) -> str:
        folder = _text(found.more)
        if not folder.startswith(self.commands.root + "/") or not is_plain(folder):
            raise NodeFileError("can't be created: its folder has a name that is not plain UTF-8 text")
        return folder

    def _written(self, path: str, target: str, content: bytes, found: ScriptReply) -> NodeFile:
        state = _WRITTEN.fullmatch(found.rest)
        sha256 = hashlib.sha256(content).hexdigest()
        if state is None or state["sha256"].decode("ascii") != sha256:
            raise NodeFileError("holds something else right after it was written", way_out=_AGAIN)
        return NodeFile(
            path=path,
            target=target,
            content=content,
            sha256=sha256,
            mode=int(state["mode"], 8),
            owner=int(state["owner"]),
            group=int(state["group"]),
        )


class _Discarding:
    """Takes the temporary folder away if the block fails."""

    def __init__(self, writer: FileWriter, folder: str, temporary: str, path: str) -> None:
        self._writer = writer
        self._place = (folder, temporary, path)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self._writer.discard(*self._place)


def _longest(folder: str, temporary: str) -> str:
    return f"{folder}/{temporary}/new"


def _answer(output: CommandOutput) -> ScriptReply | None:
    found = _ANSWER.fullmatch(output.stdout)
    if found is None or output.code != 0:
        return None
    return ScriptReply(found["word"].decode("ascii"), found["rest"] or b"", found["more"] or b"")


def _refusal(found: ScriptReply, output: CommandOutput, doing: str) -> NodeFileError:
    if found.word == "changed":
        return tree_writing.changed()
    if found.word == "appeared":
        return tree_writing.appeared()
    if found.word == "linked":
        return tree_writing.linked(int(found.rest) if found.rest.isdigit() else 2)
    if found.word in _WHY:
        return NodeFileError(*_WHY[found.word])
    words, way_out = system_words(output.stderr)
    return NodeFileError(f"can't be {doing}: {words}", way_out=way_out)


def _file_error(error: NodeError, doing: str = "written") -> NodeFileError:
    return NodeFileError(f"can't be {doing}: the node {error.what}", way_out=error.way_out)


def _text(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape")
