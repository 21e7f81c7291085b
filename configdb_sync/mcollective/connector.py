"""Where messages go on a broker. A connector is MCollective's word for one such scheme.

Only RabbitMQ's is here, Fuel's own. Another (ActiveMQ's topics and selectors) is another class with the same face.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from configdb_sync.errors import BusError
from configdb_sync.mcollective.envelope import IDENTITY


@dataclass(frozen=True)
class Target:
    """What a message is sent to, with the headers that belong to it."""

    destination: str
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Replies:
    """Where replies to a connection's requests go: the ``reply-to`` to send, and what to subscribe to, if anything."""

    reply_to: str
    subscribe: str | None = None


class Connector(Protocol):
    """One scheme of destinations."""

    def replies(self, name: str) -> Replies:
        """Return a place for replies that is the connection's own."""

    def directed(self, identity: str, replies: Replies) -> Target:
        """Return where a request to one node goes. Raises ``BusError`` for what is no identity."""

    def broadcast(self, agent: str, replies: Replies) -> Target:
        """Return where a request to all nodes with an agent goes."""


@dataclass(frozen=True)
class RabbitMQ:
    """MCollective's connector ``rabbitmq``: two exchanges, and temporary queues for replies."""

    sender: str
    ttl: int
    collective: str = "mcollective"
    multiplex: bool = False

    def replies(self, name: str) -> Replies:
        """Return a temporary queue. The broker makes it from the header alone; subscribing to it is a fault."""
        return Replies(f"/temp-queue/mcollective_reply_{name}")

    def directed(self, identity: str, replies: Replies) -> Target:
        """Return the directed exchange with the node as the key."""
        if not IDENTITY.fullmatch(identity):
            raise BusError(f"{identity[:80]!r} is no identity", way_out="letters, digits, and . _ -")
        return Target(f"/exchange/{self.collective}_directed/{identity}", self._headers(replies))

    def broadcast(self, agent: str, replies: Replies) -> Target:
        """Return the broadcast exchange with the agent as the key."""
        place = f"/exchange/{self.collective}_broadcast"
        return Target(place if self.multiplex else f"{place}/{agent}", self._headers(replies))

    def _headers(self, replies: Replies) -> dict[str, str]:
        expiration = min((self.ttl + 10) * 1000, (1 << 32) - 1)
        return {"reply-to": replies.reply_to, "expiration": str(expiration), "mc_sender": self.sender}
