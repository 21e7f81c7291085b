"""The settings of the bus: hosts, login, key, limits, destinations; read from MCollective's own ``client.cfg``.

The file has ``key = value`` lines; ``plugin.d/NAME.cfg`` beside it holds options of plugin NAME. Environment variables
override both: ``MCOLLECTIVE_PSK``, ``STOMP_USER``, ``STOMP_PASSWORD``, ``MCOLLECTIVE_RABBITMQ_POOL<N>_SSL_CERT`` and
``_SSL_KEY``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from configdb_sync.errors import BusError, SettingsError
from configdb_sync.mcollective.envelope import CALLER, FUEL_TTL, IDENTITY, Signer


@dataclass(frozen=True)
class Destination:
    """What a message is sent to, with the headers that belong to it."""

    destination: str
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Replies:
    """Where replies to a connection's requests go: the ``reply-to`` to send, and what to subscribe to, if anything."""

    reply_to: str
    subscribe: str | None = None


@dataclass(frozen=True)
class RabbitMQ:
    """Where messages go: MCollective's connector ``rabbitmq``, two exchanges and temporary queues for replies.

    Another connector (ActiveMQ's topics and selectors) is a class with the same methods.
    """

    sender: str
    ttl: int
    collective: str = "mcollective"
    multiplex: bool = False

    def replies(self, name: str) -> Replies:
        """Return a temporary queue. The broker makes it from the header alone; subscribing to it is a fault."""
        return Replies(f"/temp-queue/mcollective_reply_{name}")

    def directed(self, identity: str, replies: Replies) -> Destination:
        """Return the directed exchange with the node as the key. Raises ``BusError`` for what is no identity."""
        if not IDENTITY.fullmatch(identity):
            raise BusError(f"{identity[:80]!r} is no identity", way_out="letters, digits, and . _ -")
        return Destination(f"/exchange/{self.collective}_directed/{identity}", self._headers(replies))

    def broadcast(self, agent: str, replies: Replies) -> Destination:
        """Return the broadcast exchange with the agent as the key."""
        place = f"/exchange/{self.collective}_broadcast"
        return Destination(place if self.multiplex else f"{place}/{agent}", self._headers(replies))

    def _headers(self, replies: Replies) -> dict[str, str]:
        expiration = min((self.ttl + 10) * 1000, (1 << 32) - 1)
        return {"reply-to": replies.reply_to, "expiration": str(expiration), "mc_sender": self.sender}


@dataclass(frozen=True)
class Tls:
    """TLS to a host.

    ``ca``: files of certificates to trust (none: the system's). ``cert`` and ``key``: files of our own. Without
    ``verify`` any certificate is taken, and ``BusSettings.warnings`` says so.
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
    """Limits of time and size.

    ``connect``: seconds for one try at one host, login included. ``attempts``: tries at each host of the pool.
    ``losses``: how often a call is resumed after a lost connection. ``stall``: seconds without progress of a
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
    """The settings of a client of the bus. ``heartbeat``: seconds between the broker's heartbeats, 0 for none."""

    hosts: tuple[Host, ...]
    signer: Signer
    vhost: str = "mcollective"
    heartbeat: int = 30
    base64: bool = False
    multiplex: bool = False
    bounds: Bounds = Bounds()
    warnings: tuple[str, ...] = ()

    @property
    def connector(self) -> RabbitMQ:
        """Where messages go."""
        signer = self.signer
        return RabbitMQ(signer.identity, signer.ttl, signer.collective, self.multiplex)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts that no output may show."""
        found = {self.signer.psk.decode("utf-8", "replace"), *(host.password for host in self.hosts)}
        return tuple(sorted((one for one in found if one), key=len, reverse=True))


DEFAULT_FILE = Path("/etc/mcollective/client.cfg")
_LINE = re.compile(r"(.+?)\s*=\s*(.+)")
_TRUE, _FALSE = frozenset({"1", "y", "yes", "true", "t"}), frozenset({"0", "n", "no", "false", "f"})
_POOL = 64


@dataclass(frozen=True)
class _Options:
    """All options of the files by name (those of plugins without ``plugin.``), and the environment over them."""

    file: Path
    values: Mapping[str, str] = field(repr=False)
    environ: Mapping[str, str] = field(repr=False)

    def text(self, name: str, default: str | None = None, variable: str | None = None) -> str:
        value = self.get(name, variable) or default
        if value is None:
            named = f" and no variable {variable}" if variable else ""
            raise SettingsError(f"{self.file} has no {_shown(name)}{named}", way_out="name the file that has it")
        return value

    def get(self, name: str, variable: str | None = None) -> str | None:
        found = self.environ.get(variable) if variable else None
        return found or self.values.get(name)

    def number(self, name: str, default: int, low: int, high: int) -> int:
        value = self.values.get(name)
        if value is None:
            return default
        if not (value.isascii() and value.isdigit() and len(value) < 12 and low <= int(value) <= high):
            raise SettingsError(
                f"{self.file}: {_shown(name)} is {value[:40]!r}", way_out=f"give a whole number from {low} to {high}"
            )
        return int(value)

    def flag(self, name: str) -> bool:
        value = self.values.get(name, "0").lower()
        if value not in _TRUE | _FALSE:
            raise SettingsError(f"{self.file}: {_shown(name)} is {value[:40]!r}", way_out="give 1 or 0")
        return value in _TRUE


def read_config(file: Path, environ: Mapping[str, str], *, identity: str, uid: int, bounds: Bounds) -> BusSettings:
    """Return the settings that a ``client.cfg`` gives.

    ``identity``: ours if the file names none; ``uid``: the caller's, shown to the nodes. Raises ``SettingsError`` that
    names the file and the option, never a secret.
    """
    options = _Options(file, _files(file), environ)
    for name, wanted in (("connector", "rabbitmq"), ("securityprovider", "psk")):
        value = options.text(name, "activemq" if name == "connector" else "psk").lower()
        if value != wanted:
            raise SettingsError(f"{file}: {name} is {value[:40]!r}", way_out=f"set it to {wanted}, as Fuel does")
    if options.flag("rabbitmq.use_reply_exchange"):
        raise SettingsError(f"{file}: plugin.rabbitmq.use_reply_exchange is set", way_out="Fuel has no such exchange")
    options.text("rabbitmq.pool.size")
    hosts = tuple(_host(options, place) for place in range(1, options.number("rabbitmq.pool.size", 1, 1, _POOL) + 1))
    heartbeat = options.number("rabbitmq.heartbeat_interval", 0, 0, 86400)
    return BusSettings(
        hosts=hosts,
        signer=_signer(options, identity, uid),
        vhost=options.text("rabbitmq.vhost", "/"),
        heartbeat=max(heartbeat, 30) if heartbeat else 0,
        base64=options.flag("rabbitmq.base64"),
        multiplex=options.flag("rabbitmq.agents_multiplex"),
        bounds=bounds,
        warnings=tuple(
            f"{host}: TLS without verification ({file}: plugin.rabbitmq.pool.{place}.ssl.fallback)"
            for place, host in enumerate(hosts, 1)
            if host.tls is not None and not host.tls.verify
        ),
    )


def _signer(options: _Options, identity: str, uid: int) -> Signer:
    identity = options.text("identity", identity)
    if not IDENTITY.fullmatch(identity):
        raise SettingsError(f"{options.file}: identity is {identity[:40]!r}", way_out="letters, digits, and . _ -")
    kind = options.text("psk.callertype", "uid")
    caller = f"identity={identity}" if kind == "identity" else f"uid={uid}"
    assert CALLER.fullmatch(caller)
    return Signer(
        identity=identity,
        psk=options.text("psk", variable="MCOLLECTIVE_PSK").encode("utf-8", "surrogateescape"),
        caller=caller,
        collective=options.text("main_collective", options.text("collectives", "mcollective").split(",")[0].strip()),
        ttl=options.number("ttl", FUEL_TTL, 1, (1 << 32) // 1000 - 10),
    )


def _host(options: _Options, place: int) -> Host:
    pool = f"rabbitmq.pool.{place}"
    return Host(
        name=options.text(f"{pool}.host"),
        port=options.number(f"{pool}.port", 61613, 1, 65535),
        user=options.text(f"{pool}.user", variable="STOMP_USER"),
        password=options.text(f"{pool}.password", variable="STOMP_PASSWORD"),
        tls=_tls(options, place) if options.flag(f"{pool}.ssl") else None,
    )


def _tls(options: _Options, place: int) -> Tls:
    pool, variable = f"rabbitmq.pool.{place}.ssl", f"MCOLLECTIVE_RABBITMQ_POOL{place}_SSL"
    ca = tuple(one.strip() for one in options.text(f"{pool}.ca", "").split(",") if one.strip())
    return Tls(
        ca=ca,
        cert=options.get(f"{pool}.cert", f"{variable}_CERT"),
        key=options.get(f"{pool}.key", f"{variable}_KEY"),
        ciphers=options.get(f"{pool}.ciphers"),
        # Ruby's client falls back to no verification where it lacks a file; here only where there is nothing to trust.
        verify=bool(ca) or not options.flag(f"{pool}.fallback"),
    )


def _files(file: Path) -> dict[str, str]:
    values = {name.removeprefix("plugin."): value for name, value in _lines(file)}
    folder = file.parent / "plugin.d"
    for more in sorted(folder.glob("*.cfg")) if folder.is_dir() else ():
        values |= {f"{more.stem}.{name}": value for name, value in _lines(more)}
    return values


def _lines(file: Path) -> list[tuple[str, str]]:
    try:
        content = file.read_bytes()
    except OSError as error:
        raise SettingsError(
            f"MCollective's settings {file} can't be read: {error.strerror}", way_out="name them with --mco-config"
        ) from error
    # A key may be any bytes: they must come out as they went in.
    lines = content.decode("utf-8", "surrogateescape").split("\n")
    found = (_LINE.fullmatch(line.rstrip()) for line in lines if not line.lstrip().startswith("#"))
    return [(match[1].strip(), match[2]) for match in found if match]


def _shown(name: str) -> str:
    return name if name in {"connector", "identity", "ttl", "main_collective"} else f"plugin.{name}"
