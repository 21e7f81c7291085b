"""What stands in for the bus where nodes are asked one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from configdb_sync.mcollective.outcomes import Outcome


class OneByOne:
    """Half of an ``outcomes.Rpc``: a double says what ``ask`` gives for one node."""

    def ask(self, identity: str, agent: str, action: str, data: Mapping[str, Any]) -> Outcome:
        """Return what comes of asking a node."""
        raise NotImplementedError

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
            yield self.ask(identity, agent, action, data)
