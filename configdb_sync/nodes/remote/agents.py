"""The two agents that every Fuel node has, as what the rest of this package needs of them (U8, B19)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from configdb_sync.errors import NodeError, NodeFileError
from configdb_sync.mcollective.outcomes import ErrorReply, Missing, Outcome, Reply, Rpc
from configdb_sync.nodes.names import shown
from configdb_sync.nodes.remote.output import Output
from configdb_sync.nodes.remote.stream import OutputError

SHELL, EXECUTE = "execute_shell_command", "execute"
UPLOADFILE, UPLOAD = "uploadfile", "upload"

PATH_LIMIT = 256
_REFUSED = re.compile(r"[`$;|<>]|&&")


@dataclass(frozen=True)
class Agents:
    """Asks nodes' agents. ``timeout``: seconds that a node has to answer."""

    rpc: Rpc
    timeout: float

    def run_all(self, command: str, identities: Sequence[str]) -> Iterator[tuple[str, Output | NodeError]]:
        """Have all nodes run a command; yield what came of it for each, as they come. Raises ``BusError``."""
        for outcome in self.rpc.call(SHELL, EXECUTE, {"cmd": command}, identities, timeout=self.timeout):
            yield outcome.identity, self.output(outcome)

    def run_each(self, commands: dict[str, str]) -> Iterator[tuple[str, Output | NodeError]]:
        """Have each node run a command of its own. Raises ``BusError``."""
        requests = {identity: {"cmd": command} for identity, command in commands.items()}
        for outcome in self.rpc.call_each(SHELL, EXECUTE, requests, timeout=self.timeout):
            yield outcome.identity, self.output(outcome)

    def run(self, identity: str, command: str) -> Output:
        """Have one node run a command. Raises ``NodeError`` if nothing can be said of it, ``BusError``."""
        for _, output in self.run_all(command, [identity]):
            if isinstance(output, NodeError):
                raise output
            return output
        raise NodeError("was not asked", node=identity)

    def upload(self, identity: str, path: str, content: bytes) -> None:
        """Write ``content`` over the file ``path`` on a node, which is there already and is ours (root, 0600).

        Raises ``NodeError``, ``BusError``.
        """
        data = {
            "path": path,
            "content": content,
            "overwrite": True,
            "parents": False,
            "user_owner": "root",
            "group_owner": "root",
            "permissions": "0600",
        }
        for outcome in self.rpc.call(UPLOADFILE, UPLOAD, data, [identity], timeout=self.timeout):
            found = self.failed(outcome)
            if found is not None:
                raise found

    def output(self, outcome: Outcome) -> Output | NodeError:
        """Return what a command left behind, or why nothing can be said of it."""
        found = self.failed(outcome)
        if found is not None or not isinstance(outcome, Reply):
            return found or NodeError("its answer can't be understood", node=outcome.identity)
        data = outcome.data
        try:
            code = data.get("exit_code")
            if isinstance(code, bool) or not isinstance(code, int):
                raise OutputError("no exit code")
            return Output(_bytes(data.get("stdout")), _bytes(data.get("stderr")), code)
        except OutputError as error:
            return NodeError(f"its answer can't be understood: {error}", node=outcome.identity)

    def failed(self, outcome: Outcome) -> NodeError | None:
        """Return why an agent didn't do what it was asked for, None if it did."""
        if isinstance(outcome, Missing):
            return NodeError(f"doesn't answer: {outcome.hint}", node=outcome.identity)
        if isinstance(outcome, ErrorReply):
            return NodeError(
                f"its agent failed: {shown(outcome.text) or 'without a word'} (code {outcome.code})",
                way_out="its own log, /var/log/mcollective.log, may say more",
                node=outcome.identity,
            )
        return None


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


def _bytes(value: object) -> bytes:
    if value is None:
        return b""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, bytes):
        return value
    raise OutputError("an output that is no text")
