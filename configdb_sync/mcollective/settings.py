"""What a connection to the bus is told: hosts, login, key, limits. Made by ``config``, or by hand."""

from __future__ import annotations

from dataclasses import dataclass, field

from configdb_sync.mcollective.connector import Connector, RabbitMQ
from configdb_sync.mcollective.envelope import Signer


@dataclass(frozen=True)
class Tls:
    """How a host is spoken to over TLS.

    ``ca``: files of certificates to trust (none: the system's). ``cert`` and ``key``: files of our own. ``verify`` off
    takes any certificate; ``unverified`` in ``BusSettings.warnings`` then says so.
    """

    ca: tuple[str, ...] = ()
    cert: str | None = None
    key: str | None = None
    ciphers: str | None = None
    verify: bool = True


@dataclass(frozen=True)
class Host:
    """One broker of the pool."""

    name: str
    port: int
    user: str
    password: str = field(repr=False)
    tls: Tls | None = None

    def __str__(self) -> str:
        return f"{self.name}:{self.port}"


@dataclass(frozen=True)
class Bounds:
    """How long is waited and how much is taken.

    ``connect``: seconds for one try at one host, login included. ``attempts``: tries at each host of the pool.
    ``losses``: how often a call is taken up again after a lost connection. ``stall``: seconds without progress of a
    message that is being sent. ``window``: nodes asked at once that are still at work. ``request``, ``frame``: largest
    message sent and received, in bytes (brokers from RabbitMQ 3.12.2 on cut the connection at 4 MiB).
    """

    connect: float = 10.0
    attempts: int = 3
    losses: int = 3
    stall: float = 30.0
    window: int = 200
    request: int = 4_000_000
    frame: int = 16 << 20


@dataclass(frozen=True)
class BusSettings:
    """All that a client of the bus needs. ``heartbeat``: seconds between the broker's signs of life, 0 for none."""

    hosts: tuple[Host, ...]
    signer: Signer
    vhost: str = "mcollective"
    heartbeat: int = 30
    base64: bool = False
    multiplex: bool = False
    bounds: Bounds = Bounds()
    warnings: tuple[str, ...] = ()

    @property
    def connector(self) -> Connector:
        """The scheme of destinations."""
        signer = self.signer
        return RabbitMQ(signer.identity, signer.ttl, signer.collective, self.multiplex)

    @property
    def secrets(self) -> tuple[str, ...]:
        """What no text may show."""
        found = {self.signer.psk.decode("utf-8", "replace"), *(host.password for host in self.hosts)}
        return tuple(sorted((one for one in found if one), key=len, reverse=True))
