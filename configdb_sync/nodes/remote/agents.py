"""The two agents that every Fuel node has, as the calls that this product makes to them (U8, B19)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from configdb_sync.errors import NodeError, NodeFileError
from configdb_sync.mcollective.outcomes import ErrorReply, Missing, Outcome, Reply, Rpc
from configdb_sync.nodes.node_files import shown
from configdb_sync.nodes.remote.command_output import CommandOutput, OutputError

SHELL, EXECUTE = "execute_shell_command", "execute"
UPLOADFILE, UPLOAD = "uploadfile", "upload"

PATH_LIMIT = 256
_REFUSED = re.compile(r"[`$;|<>]|&&")

UPLOAD_LIMIT = 1_500_000
"""Bytes of one upload: with its envelope a message stays below 2 MB."""
WHOLE = "new"
"""The name of the part that is the whole content."""
_FILLER = b"."


@dataclass(frozen=True)
class Agents:
    """Calls nodes' agents. ``timeout``: seconds that a node has to answer."""

    rpc: Rpc
    timeout: float

    def run_all(self, command: str, identities: Sequence[str]) -> Iterator[tuple[str, CommandOutput | NodeError]]:
        """Have all nodes run a command; yield each one's output as it comes. Raises ``BusError``."""
        for outcome in self.rpc.call(SHELL, EXECUTE, {"cmd": command}, identities, timeout=self.timeout):
            yield outcome.identity, command_output(outcome)

    def run_each(self, commands: dict[str, str]) -> Iterator[tuple[str, CommandOutput | NodeError]]:
        """Have each node run a command of its own. Raises ``BusError``."""
        requests = {identity: {"cmd": command} for identity, command in commands.items()}
        for outcome in self.rpc.call_each(SHELL, EXECUTE, requests, timeout=self.timeout):
            yield outcome.identity, command_output(outcome)

    def run(self, identity: str, command: str) -> CommandOutput:
        """Have one node run a command. Raises ``NodeError`` if its output didn't come, ``BusError``."""
        for _, output in self.run_all(command, [identity]):
            if isinstance(output, NodeError):
                raise output
            return output
        raise NodeError("was not asked", node=identity)

    def upload(self, path: str, content: bytes, identities: Sequence[str], *, overwrite: bool) -> Iterator[Outcome]:
        """Write ``content`` to the file ``path`` on nodes, owned by root, mode 0600. Raises ``BusError``."""
        data = {
            "path": path,
            "content": content,
            "overwrite": overwrite,
            "parents": False,
            "user_owner": "root",
            "group_owner": "root",
            "permissions": "0600",
        }
        yield from self.rpc.call(UPLOADFILE, UPLOAD, data, identities, timeout=self.timeout)


def failure(outcome: Outcome) -> NodeError | None:
    """Return why an agent didn't do what it was asked for, None if it did."""
    if isinstance(outcome, Missing):
        return NodeError(f"doesn't answer: {outcome.hint}", node=outcome.identity)
    if isinstance(outcome, ErrorReply):
        return NodeError(
            f"its agent failed: {shown(outcome.text) or 'no message'} (code {outcome.code})",
            way_out="its own log, /var/log/mcollective.log, may say more",
            node=outcome.identity,
        )
    return None


def command_output(outcome: Outcome) -> CommandOutput | NodeError:
    """Return what a command printed, or why that is not known."""
    found = failure(outcome)
    if found is not None or not isinstance(outcome, Reply):
        return found or NodeError("its answer can't be understood", node=outcome.identity)
    data = outcome.data
    try:
        code = data.get("exit_code")
        if isinstance(code, bool) or not isinstance(code, int):
            raise OutputError("no exit code")
        return CommandOutput(_bytes(data.get("stdout")), _bytes(data.get("stderr")), code)
    except OutputError as error:
        return NodeError(f"its answer can't be understood: {error}", node=outcome.identity)


def _bytes(value: object) -> bytes:
    if value is None:
        return b""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, bytes):
        return value
    raise OutputError("an output that is no text")


def check_upload(path: str) -> None:
    """Raise ``NodeFileError`` for a path that the agent ``uploadfile`` refuses (B19)."""
    if len(path) > PATH_LIMIT:
        raise NodeFileError(
            f"can't be written: its path on the node is too long for the agent, which takes {PATH_LIMIT} characters, "
            f"{PATH_LIMIT - 35} without the temporary file's name"
        )
    found = _REFUSED.search(path)
    if found is not None:
        raise NodeFileError(f"can't be written: the agent takes no path with {found[0]} in it")


@dataclass(frozen=True)
class UploadPart:
    """The content of one upload, and its name in the temporary folder.

    A name that ends in ``p`` says that one byte was appended to the content.
    """

    name: str
    content: bytes = field(repr=False)


def parts(content: bytes, limit: int = UPLOAD_LIMIT) -> list[UploadPart]:
    """Return a content in parts that the agent ``uploadfile`` takes (B19); none for an empty one.

    The agent's own rule is ``^.+$``: it refuses content without any character besides line ends.
    """
    pieces = [content[place : place + limit] for place in range(0, len(content), limit)]
    if len(pieces) == 1 and content.strip(b"\n"):
        return [UploadPart(WHOLE, content)]
    return [
        UploadPart(str(number), piece) if piece.strip(b"\n") else UploadPart(f"{number}p", piece + _FILLER)
        for number, piece in enumerate(pieces, start=1)
    ]


def names(found: list[UploadPart]) -> list[str]:
    """Return the names of the parts that the node has to put together: none for a single whole one."""
    return [part.name for part in found if part.name != WHOLE]
