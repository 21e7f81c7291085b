"""Replaces, creates and removes one file of a node through the two agents (W01, W02).

The content goes to a temporary folder (0700) beside the file, into files that are created empty with mode 0600. One
command then checks that all is as it was, gives the new file the old one's attributes and renames it. A killed write
leaves such a folder; the next write of that file, or a later one to its folder, removes it. An upload that comes
too late finds no folder, so it leaves nothing behind (W01, W02, W04, W05).
"""

from __future__ import annotations

import contextlib
import hashlib
import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from configdb_sync.errors import BusError, NodeError, NodeFileError
from configdb_sync.nodes import node_files
from configdb_sync.nodes.node_files import HIERA, NodeFile, is_plain
from configdb_sync.nodes.remote.agents import Agents, UploadPart, check_upload, failure, names, parts
from configdb_sync.nodes.remote.command_output import CommandOutput, as_text, fault, system_words
from configdb_sync.nodes.remote.commands import Commands
from configdb_sync.nodes.writable import BASE, Writable

# What a writing command prints: one word, and what belongs to it.
_REPLY = re.compile(rb"configdb-sync 1 (?P<word>[a-z]+)(?: (?P<rest>[^\n]*))?\n(?:(?P<more>[^\n]*)\n)?")
_WRITTEN = re.compile(rb"(?P<mode>[0-7]{1,4}) (?P<owner>\d+) (?P<group>\d+) (?P<sha256>[0-9a-f]{64})")
_AGAIN = "run again"
_WHY = {
    "damaged": ("what arrived on the node isn't what was sent", _AGAIN),
    "lost": ("its temporary file is gone; another run wrote it at the same time", _AGAIN),
    "unsettled": ("was changed, but the node's disk doesn't confirm the change", "check the disk, then run again"),
    "undressed": ("its owner, group, mode or label can't be kept", "check on the node what is special about it"),
    "blocked": ("can't be created: a part of its path is no folder", None),
    "dangling": ("is a link to a file that isn't there", None),
}


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
        if self._run(begin, "ready", "forbidden")["word"] == b"forbidden":
            raise writable.refusal(expected.target)
        self._send(found, folder, temporary, path)
        end = self.commands.replace_end(expected, new, temporary, names(found))
        return _written(path, expected.target, content, self._run(end, "written"))

    def create(self, path: str, content: bytes, writable: Writable) -> NodeFile:
        """Create a file where nothing is and ``writable`` allows one. Raises as ``replace``."""
        temporary = self._temporary(posixpath.join(HIERA, path))
        found = parts(content)
        new = hashlib.sha256(content).hexdigest()
        check_upload(_longest(posixpath.dirname(posixpath.join(self.commands.hiera, path)), temporary))
        begin = self.commands.create_begin(path, temporary, writable.places, names(found))
        ready = self._run(begin, "ready", "forbidden")
        folder = as_text(ready["more"] or b"")
        if ready["word"] == b"forbidden":
            raise writable.refusal(folder.removeprefix(self.commands.root))
        if not folder.startswith(self.commands.root + "/") or not is_plain(folder):
            raise NodeFileError("can't be created: its folder has a name that is not plain UTF-8 text")
        target = posixpath.join(folder.removeprefix(self.commands.root), posixpath.basename(path))
        with self._discarding(folder, temporary, path):
            # The node has checked this already; its answer is checked too.
            writable.check(target)
            check_upload(_longest(folder, temporary))
        self._send(found, folder, temporary, path)
        end = self.commands.create_end(folder, path, new, temporary, names(found))
        return _written(path, target, content, self._run(end, "written"))

    def remove(self, expected: NodeFile) -> None:
        """Remove the file, and the folders that were made for it. Raises as ``replace``."""
        self._run(self.commands.remove(expected), "gone", doing="removed")

    def _temporary(self, target: str) -> str:
        return f".configdb-sync.{hashlib.sha256(target.encode()).hexdigest()[:8]}{self.token()}.tmp"

    def _send(self, found: Sequence[UploadPart], folder: str, temporary: str, path: str) -> None:
        with self._discarding(folder, temporary, path):
            for part in found:
                place = f"{folder}/{temporary}/{part.name}"
                for outcome in self.agents.upload(place, part.content, [self.identity], overwrite=True):
                    error = failure(outcome)
                    if error is not None:
                        raise _file_error(error) from error

    @contextlib.contextmanager
    def _discarding(self, folder: str, temporary: str, path: str) -> Iterator[None]:
        """Remove the temporary folder if the block fails. If that fails too, the next write removes it."""
        try:
            yield
        except BaseException:
            with contextlib.suppress(NodeError, BusError):
                self.agents.run(self.identity, self.commands.discard(folder, temporary, path))
            raise

    def _run(self, command: str, *wanted: str, doing: str = "written") -> re.Match[bytes]:
        """Run a command; return its reply if it is one of ``wanted``."""
        try:
            output = self.agents.run(self.identity, command)
        except NodeError as error:
            raise _file_error(error, doing) from error
        found = _REPLY.fullmatch(output.stdout) if output.code == 0 else None
        if found is None:
            why = fault(output) or "the node's answer can't be understood"
            raise NodeFileError(f"can't be {doing}: {why}", way_out=_AGAIN)
        if found["word"].decode("ascii") not in wanted:
            raise _refusal(found, output, doing)
        return found


def _longest(folder: str, temporary: str) -> str:
    return f"{folder}/{temporary}/new"


def _written(path: str, target: str, content: bytes, reply: re.Match[bytes]) -> NodeFile:
    state = _WRITTEN.fullmatch(reply["rest"] or b"")
    sha256 = hashlib.sha256(content).hexdigest()
    if state is None or state["sha256"].decode("ascii") != sha256:
        raise NodeFileError("has another content right after it was written", way_out=_AGAIN)
    return NodeFile(path, target, content, sha256, int(state["mode"], 8), int(state["owner"]), int(state["group"]))


def _refusal(reply: re.Match[bytes], output: CommandOutput, doing: str) -> NodeFileError:
    word, rest = reply["word"].decode("ascii"), reply["rest"] or b""
    if word == "changed":
        return node_files.changed()
    if word == "appeared":
        return node_files.appeared()
    if word == "linked":
        return node_files.hard_linked(int(rest) if rest.isdigit() else 2)
    if word in _WHY:
        return NodeFileError(*_WHY[word])
    words, way_out = system_words(output.stderr)
    return NodeFileError(f"can't be {doing}: {words}", way_out=way_out)


def _file_error(error: NodeError, doing: str = "written") -> NodeFileError:
    return NodeFileError(f"can't be {doing}: the node {error.what}", way_out=error.way_out)
