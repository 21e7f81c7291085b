"""A simulated node asked without a bus."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from configdb_sync.mcollective import envelope
from configdb_sync.mcollective.envelope import Signer
from configdb_sync.mcollective.outcomes import Counts, Failure, Missing, Outcome, Reply
from configdb_sync.simulator.nodes import SimulatedNodes

SIGNER = Signer("master", b"a key")
NOW = 1_480_000_000


@dataclass
class DirectRpc:
    """Asks simulated nodes, each message encoded and signed as on the bus."""

    nodes: SimulatedNodes
    counts: Counts = field(default_factory=Counts)

    def call(
        self,
        agent: str,
        action: str,
        data: Mapping[str, Any],
        identities: Sequence[str],
        *,
        timeout: float,
        repeatable: bool = True,
    ) -> Iterator[Outcome]:
        return self.call_each(agent, action, dict.fromkeys(identities, data), timeout=timeout)

    def call_each(
        self,
        agent: str,
        action: str,
        requests: Mapping[str, Mapping[str, Any]],
        *,
        timeout: float,
        repeatable: bool = True,
    ) -> Iterator[Outcome]:
        for identity, data in requests.items():
            body = envelope.rpc_request(agent, action, SIGNER.caller, data)
            raw = envelope.request(SIGNER, body=body, agent=agent, request_id="1" * 32, now=NOW)
            for sending in self.nodes.answer(raw, identity, NOW):
                found = envelope.read_rpc_reply(envelope.read_reply(sending.body, SIGNER).body)
                if found.code == 0:
                    yield Reply(identity, found.data)
                else:
                    yield Failure(identity, found.code, found.text)
                break
            else:
                yield Missing(identity, "nothing came")

    def discover(self, *, timeout: float, expected: Collection[str] = ()) -> list[str]:
        return list(self.nodes.trees)
