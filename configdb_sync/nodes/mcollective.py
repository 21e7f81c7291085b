"""The nodes of an environment over MCollective, with the agents that Fuel nodes have already (U8, U10); their check.

The check is of their two agents, of whether their settings can be read, and of their clocks. It writes nothing.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from configdb_sync.errors import BusError, NodeError, NodeFileError
from configdb_sync.mcollective.outcomes import ErrorReply, Outcome, Reply, Rpc
from configdb_sync.names import natural_key
from configdb_sync.nodes.node_files import (
    HIERA,
    NodeFile,
    NodeRead,
    ReadLimits,
    check_path,
    check_removable,
    is_plain,
    located,
)
from configdb_sync.nodes.remote.agents import EXECUTE, SHELL, UPLOADFILE, Agents, command_output, failure
from configdb_sync.nodes.remote.command_output import CommandOutput, OutputError, fault, listed, unpacked
from configdb_sync.nodes.remote.commands import Commands
from configdb_sync.nodes.remote.reading import NodeReading
from configdb_sync.nodes.remote.writing import FileWriter
from configdb_sync.nodes.writable import writable_files
from configdb_sync.settings import DEFAULT_WRITABLE

MASTER = "master"
"""The Fuel Master's own identity on the bus: it is no node."""

_TOGETHER = 8
"""How many nodes that need more than one command are read at a time: each is held in memory meanwhile."""

_Further = dict[str, tuple[NodeReading, str]]
"""Readings that need a further command, with the command, by identity."""


class MCollectiveNodes:
    """The nodes on the bus (``Nodes`` of ``node_files``).

    ``env``, ``writable``: as for ``DirectoryNodes``. ``timeout``: seconds that a node has to answer; its commands end
    by themselves after as many. ``patience``: seconds that ``identities`` waits for nodes to show up, if not all that
    are ``expected`` have answered before.
    ``root``: what stands before all paths on nodes (tests). ``token``: eight fresh hexadecimal digits.
    """

    def __init__(
        self,
        rpc: Rpc,
        *,
        env: int | None,
        writable: Sequence[str] = DEFAULT_WRITABLE,
        timeout: float = 60.0,
        patience: float = 5.0,
        expected: Collection[str] = (),
        limits: ReadLimits | None = None,
        root: str = "",
        token: Callable[[], str] = lambda: secrets.token_hex(4),
    ) -> None:
        self._limits = limits or ReadLimits()
        self._rpc = rpc
        self._agents = Agents(rpc, timeout)
        self._commands = Commands(max(1, round(timeout)), self._limits.file, root)
        self._writable = writable_files(writable, env)
        self._patience = patience
        self._expected = expected
        self._token = token

    @property
    def place(self) -> str:
        """``nodes``: there is one bus for a master, whatever its address."""
        return "nodes"

    def identities(self) -> Sequence[str]:
        """Return the nodes that answer or are expected, without the master, ``2`` before ``10``.

        Raises ``BusError``, also if there is none.
        """
        found = self._rpc.discover(timeout=self._patience, expected=self._expected)
        # Fuel's identities are numbers; an FQDN is found by the node's facts.
        asked = [name for name in self._expected if name.isascii() and name.isdigit()]
        nodes = {name for name in (*found, *asked) if name != MASTER and is_plain(name)}
        if not nodes:
            raise BusError(
                f"no node answers on the bus within {self._patience:g} s",
                way_out="check that nodes are on, and that mcollective runs on them with the master's psk",
                phase="discovery",
            )
        return sorted(nodes, key=natural_key)

    def read(self, identities: Sequence[str]) -> Iterator[NodeRead | NodeError]:
        """Yield the nodes as they answer; all are asked at once, as many as the bus allows."""
        due = dict.fromkeys(identities)
        try:
            for item in self._read(list(due)):
                del due[item.identity if isinstance(item, NodeRead) else item.node or ""]
                yield item
        except BusError as error:
            # What was read counts; the run goes on with it and names the others.
            for identity in due:
                yield NodeError(error.what, way_out=error.way_out, node=identity, phase="read")

    def _read(self, identities: Sequence[str]) -> Iterator[NodeRead | NodeError]:
        first = NodeReading("", self._commands, self._limits).first()
        further: _Further = {}
        for identity, output in self._agents.run_all(first, identities):
            yield from _take(NodeReading(identity, self._commands, self._limits), output, further)
            if len(further) == _TOGETHER:
                yield from self._read_on(further)
                further = {}
        yield from self._read_on(further)

    def _read_on(self, readings: _Further) -> Iterator[NodeRead | NodeError]:
        while readings:
            further: _Further = {}
            commands = {identity: command for identity, (_, command) in readings.items()}
            for identity, output in self._agents.run_each(commands):
                yield from _take(readings[identity][0], output, further)
            readings = further

    def write(self, identity: str, path: str, content: bytes, expected: NodeFile | None) -> NodeFile:
        """Replace the file, or create it; see ``Nodes.write`` and ``remote.writing``."""
        with located(identity, path, "written"), _over_the_bus("written"):
            check_path(path)
            if len(content) > self._limits.file:
                raise NodeFileError(f"would be larger than {self._limits.file} bytes")
            writer = self._writer(identity)
            if expected is None:
                return writer.create(path, content, self._writable)
            return writer.replace(path, content, expected, self._writable)

    def remove(self, identity: str, expected: NodeFile) -> None:
        """Remove the file, and the folders that were made for it and are empty now."""
        with located(identity, expected.path, "removed"), _over_the_bus("removed"):
            check_path(expected.path)
            self._writable.check(expected.target)
            check_removable(expected)
            self._writer(identity).remove(expected)

    def _writer(self, identity: str) -> FileWriter:
        return FileWriter(self._agents, self._commands, identity, self._token)


def _take(reading: NodeReading, output: CommandOutput | NodeError, further: _Further) -> Iterator[NodeRead | NodeError]:
    """Yield what was read of a node, or note in ``further`` the command that it needs next."""
    step = output if isinstance(output, NodeError) else reading.take(output)
    if isinstance(step, str):
        further[reading.identity] = (reading, step)
    else:
        yield step


@contextlib.contextmanager
def _over_the_bus(doing: str) -> Iterator[None]:
    """Turn an error of the bus into one of the file, so that the run goes on with the others."""
    try:
        yield
    except BusError as error:
        raise NodeFileError(f"can't be {doing}: {error.what}", way_out=error.way_out) from error


# The agent finds that it exists and may not be overwritten: that it says so shows that it works.
_NEVER_WRITTEN = "/"
_REFUSED = 1


@dataclass(frozen=True)
class NodeCheck:
    """The result for one node. ``files``: settings files found. ``ahead``: seconds that its clock is ahead of ours."""

    identity: str
    files: int = 0
    ahead: float = 0.0
    error: NodeError | None = None


def check_over_bus(rpc: Rpc, identities: Sequence[str], *, timeout: float, now: Callable[[], float]) -> list[NodeCheck]:
    """Return the result for each node, in the order given. ``timeout``: seconds for each of the two agents; ``now``:
    seconds since 1970. Raises ``BusError``."""
    found: dict[str, NodeCheck] = {}
    command = Commands(max(1, round(timeout))).read([HIERA.encode()], contents=False)
    for outcome in rpc.call(SHELL, EXECUTE, {"cmd": command}, identities, timeout=timeout):
        found[outcome.identity] = _listed(outcome, now())
    usable = [name for name in identities if found[name].error is None]
    for outcome in Agents(rpc, timeout).upload(_NEVER_WRITTEN, b"never written", usable, overwrite=False):
        if not isinstance(outcome, ErrorReply) or outcome.code != _REFUSED:
            failed = failure(outcome) or NodeError("overwrote what it must not", node=outcome.identity)
            failed.what = f"its agent {UPLOADFILE} can't be used: {failed.what}"
            found[outcome.identity] = NodeCheck(outcome.identity, error=failed)
    return [found[name] for name in identities]


def _listed(outcome: Outcome, now: float) -> NodeCheck:
    output = command_output(outcome)
    if isinstance(output, NodeError):
        return NodeCheck(outcome.identity, error=output)
    sent = outcome.sent if isinstance(outcome, Reply) else 0
    try:
        return NodeCheck(outcome.identity, _count_files(output), sent - now if sent else 0.0)
    except OutputError as error:
        return NodeCheck(outcome.identity, error=NodeError(str(error), node=outcome.identity))


def _count_files(output: CommandOutput) -> int:
    """Return how many settings files there are. Raises ``OutputError`` if their folder can't be read."""
    why = fault(output)
    if why is not None:
        raise OutputError(why)
    listing = listed(unpacked(output.stdout, ReadLimits().stream).content, contents=False)
    if not listing.targets.get(HIERA.encode()):
        raise OutputError(f"it has no folder {HIERA}")
    if listing.unlistable:
        raise OutputError(f"{len(listing.unlistable)} folders below {HIERA} can't be read")
    return len(listing.digests)
