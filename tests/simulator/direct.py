"""A simulated node asked without a bus."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from configdb_sync.mcollective import envelope
from configdb_sync.mcollective.envelope import Signer
from configdb_sync.mcollective.outcomes import ErrorReply, Missing, Outcome, Reply, ReplyCounts
from tests.support.rpc import OneByOne
from tests.support.simulator.nodes import SimulatedNodes

SIGNER = Signer("master", b"a key")
NOW = 1_480_000_000


@dataclass
class DirectRpc(OneByOne):
    """Asks simulated nodes, each message encoded and signed as on the bus."""

    nodes: SimulatedNodes
    counts: ReplyCounts = field(default_factory=ReplyCounts)

    def ask(self, identity: str, agent: str, action: str, data: Mapping[str, Any]) -> Outcome:
        """Return what the node answers."""
        body = envelope.rpc_request(agent, action, SIGNER.caller, data)
        raw = envelope.request(SIGNER, body=body, agent=agent, request_id="1" * 32, now=NOW)
        for sending in self.nodes.answer(raw, identity, NOW):
            found = envelope.read_rpc_reply(envelope.read_reply(sending.body, SIGNER).body)
            if found.code == 0:
                return Reply(identity, found.data)
            return ErrorReply(identity, found.code, found.text)
        return Missing(identity, "nothing came")

    def discover(self, *, timeout: float, expected: Collection[str] = ()) -> list[str]:
        return list(self.nodes.trees)
