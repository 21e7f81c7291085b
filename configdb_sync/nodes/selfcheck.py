"""Checks nodes over the bus: their two agents, whether their settings can be read, their clocks. Writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from configdb_sync.errors import NodeError
from configdb_sync.mcollective.outcomes import ErrorReply, Outcome, Reply, Rpc
from configdb_sync.nodes.node_files import HIERA, ReadLimits
from configdb_sync.nodes.remote.agents import EXECUTE, SHELL, UPLOADFILE, Agents, command_output, failure
from configdb_sync.nodes.remote.command_output import CommandOutput, OutputError, fault, listed, unpacked
from configdb_sync.nodes.remote.commands import Commands

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
