"""The simulator on the bus: one connection that is all nodes (B08, B18 and their like can so be rehearsed)."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from configdb_sync.clock import Clock
from configdb_sync.mcollective.broker import BrokerConnection
from configdb_sync.mcollective.bus_settings import BusSettings, Destination
from configdb_sync.mcollective.envelope import decode, encode
from configdb_sync.mcollective.transport import Message
from tests.support.simulator.nodes import Sending, SimulatedNodes

_SLICE = 0.2
_READY = "simulator-ready"
_EXPIRATION = "4294967000"


@dataclass
class Simulator:
    """Nodes on a broker. ``clock`` gives times; raises ``BusError`` where the broker can't be used or goes away."""

    settings: BusSettings
    nodes: SimulatedNodes
    clock: Clock
    _later: list[tuple[float, int, str, Sending]] = field(default_factory=list)
    _order: itertools.count[int] = field(default_factory=itertools.count)

    def run(self, stopped: Callable[[], bool], ready: Callable[[], None]) -> None:
        """Be the nodes until ``stopped`` says so; ``ready`` is called once they can be asked."""
        link = BrokerConnection(self.settings.hosts[0], self.settings, self.clock.monotonic, "simulator")
        try:
            collective = self.settings.signer.collective
            for identity in self.nodes.trees:
                link.subscribe(f"/exchange/{collective}_directed/{identity}", f"directed-{identity}")
            for agent in ("discovery", "execute_shell_command", "uploadfile"):
                link.subscribe(f"/exchange/{collective}_broadcast/{agent}", f"broadcast-{agent}")
            # What comes back from here shows that the broker has taken all subscriptions before it.
            own = f"/exchange/{collective}_directed/{_READY}"
            link.subscribe(own, _READY)
            link.send(Destination(own, {}), b"ready")
            while (message := link.receive(self.settings.bounds.connect)) is not None:
                if message.destination.endswith(_READY):
                    break
                self._answer(link, message)
            ready()
            while not stopped():
                self._send_due(link)
                message = link.receive(self._wait())
                if message is not None:
                    self._answer(link, message)
        finally:
            link.close()

    def _wait(self) -> float:
        if not self._later:
            return _SLICE
        return min(_SLICE, max(0.0, self._later[0][0] - self.clock.monotonic()))

    def _send_due(self, link: BrokerConnection) -> None:
        while self._later and self._later[0][0] <= self.clock.monotonic():
            _, _, reply_to, sending = heapq.heappop(self._later)
            self._send(link, reply_to, sending)

    def _answer(self, link: BrokerConnection, message: Message) -> None:
        if message.body is None or not message.reply_to:
            return
        place, _, key = message.destination.rpartition("/")
        identity = key if place.endswith("_directed") else None
        raw = decode(message.body, wrapped=self.settings.base64)
        for sending in self.nodes.answer(raw, identity, int(self.clock.now().timestamp())):
            if sending.after:
                due = self.clock.monotonic() + sending.after
                heapq.heappush(self._later, (due, next(self._order), message.reply_to, sending))
            else:
                self._send(link, message.reply_to, sending)

    def _send(self, link: BrokerConnection, reply_to: str, sending: Sending) -> None:
        headers = {"expiration": _EXPIRATION, "mc_sender": sending.sender}
        link.send(Destination(reply_to, headers), encode(sending.body, wrapped=self.settings.base64))
