"""Tries nodes over the bus: their two agents, whether their settings can be read, their clocks. Nothing is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from configdb_sync.errors import NodeError
from configdb_sync.mcollective.outcomes import ErrorReply, Outcome, Reply, Rpc
from configdb_sync.nodes.remote.agents import EXECUTE, SHELL, UPLOAD, UPLOADFILE, Agents
from configdb_sync.nodes.remote.commands import HIERA, Commands
from configdb_sync.nodes.remote.limits import Limits
from configdb_sync.nodes.remote.listing import listed
from configdb_sync.nodes.remote.output import Output, fault
from configdb_sync.nodes.remote.stream import OutputError, unpacked

# The agent finds that it is there, and may not be overwritten: that it says so shows that it works.
_NEVER_WRITTEN = "/"
_REFUSED = 1


@dataclass(frozen=True)
class NodeTrial:
    """What came of one node. ``files``: settings files found. ``ahead``: seconds that its clock is ahead of ours."""

    identity: str
    files: int = 0
    ahead: float = 0.0
    error: NodeError | None = None


def try_nodes(rpc: Rpc, identities: Sequence[str], *, timeout: float, now: Callable[[], float]) -> list[NodeTrial]:
    """Return what came of each node, in the order given. ``timeout``: seconds for each of the two agents; ``now``:
    seconds since 1970. Raises ``BusError``."""
    found: dict[str, NodeTrial] = {}
    agents = Agents(rpc, timeout)
    command = Commands(max(1, round(timeout))).read([HIERA.encode()], contents=False)
    for outcome in rpc.call(SHELL, EXECUTE, {"cmd": command}, identities, timeout=timeout):
        found[outcome.identity] = _listed(outcome, agents, now())
    data = {
        "path": _NEVER_WRITTEN,
        "content": b"never written",
        "overwrite": False,
        "parents": False,
        "user_owner": "root",
        "group_owner": "root",
        "permissions": "0600",
    }
    usable = [name for name in identities if found[name].error is None]
    for outcome in rpc.call(UPLOADFILE, UPLOAD, data, usable, timeout=timeout):
        if not isinstance(outcome, ErrorReply) or outcome.code != _REFUSED:
            failed = agents.failed(outcome) or NodeError("overwrote what it must not", node=outcome.identity)
            failed.what = f"its agent {UPLOADFILE} can't be used: {failed.what}"
            found[outcome.identity] = NodeTrial(outcome.identity, error=failed)
    return [found[name] for name in identities]


def _listed(outcome: Outcome, agents: Agents, now: float) -> NodeTrial:
    output = agents.output(outcome)
    if isinstance(output, NodeError):
        return NodeTrial(outcome.identity, error=output)
    sent = outcome.sent if isinstance(outcome, Reply) else 0
    try:
        return NodeTrial(outcome.identity, _files(output), sent - now if sent else 0.0)
    except OutputError as error:
        return NodeTrial(outcome.identity, error=NodeError(str(error), node=outcome.identity))


def _files(output: Output) -> int:
    """Return how many settings files there are. Raises ``OutputError`` if their folder can't be read."""
    why = fault(output)
    if why is not None:
        raise OutputError(why)
    listing = listed(unpacked(output.stdout, Limits().stream).content, contents=False)
    if not listing.targets.get(HIERA.encode()):
        raise OutputError(f"it has no folder {HIERA}")
    if listing.unlistable:
        raise OutputError(f"{len(listing.unlistable)} folders below {HIERA} can't be read")
    return len(listing.digests)
