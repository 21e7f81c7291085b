"""Connections to the brokers of the pool: login, messages, fail-over, and the check of a broker without any node."""

from __future__ import annotations

import logging
import re
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from configdb_sync import tls_errors
from configdb_sync.clock import Clock, new_request_id
from configdb_sync.errors import BusError
from configdb_sync.mcollective import transport
from configdb_sync.mcollective.bus_settings import BusSettings, Destination, Host, Replies
from configdb_sync.mcollective.envelope import printable
from configdb_sync.mcollective.transport import BrokerLostError, Inbox, Message, PumpedTransport, StompConnection

_log = logging.getLogger(__name__)

WAY_OUT = "check that the broker runs; --mco-connect-limit and --mco-attempts set how long and how often it is tried"
_STOMP = "1.1"
"""The version that we request; without a request the broker speaks 1.0 (STOMP 1.2, Protocol Negotiation)."""
_PAUSE = 0.1
_LONGEST_PAUSE = 2.0
_BEATS = 2.5
_SLICE = 1.0
_LASTING = re.compile(r"not_found|access_refused|precondition_failed|not_allowed", flags=re.IGNORECASE)


class UnreachableError(BusError):
    """No broker of the pool could be connected to within the limits."""


class IncompatibleError(UnreachableError):
    """The broker and we don't agree on TLS or on the version of STOMP; trying again would not help."""


class LoginRefusedError(BusError):
    """The broker refused the login or the virtual host; trying again would not help."""


class BrokerConnection:
    """A connection that is logged in."""

    def __init__(self, host: Host, settings: BusSettings, clock: transport.Monotonic, name: str) -> None:
        """Connect and log in within the limit. ``name``: of the queue for replies.

        Raises ``UnreachableError`` and ``LoginRefusedError``, which name the host and the phase.
        """
        self.host = host
        self.replies: Replies = settings.connector.replies(name)
        self._settings = settings
        self._clock = clock
        self._inbox = Inbox()
        self._deadline = clock() + settings.bounds.connect
        self._transport = self._connected()
        self._connection = StompConnection(self._transport)
        try:
            self._silence = self._log_in()
            if self.replies.subscribe is not None:
                self.subscribe(self.replies.subscribe, "replies")
        except BaseException:
            self._transport.close()
            raise

    def send(self, target: Destination, body: bytes) -> None:
        """Send a message. Raises ``BrokerLostError``."""
        with self._located("call"):
            self._connection.send(target.destination, body, headers=dict(target.headers))

    def subscribe(self, destination: str, name: str) -> None:
        """Subscribe to a destination; what comes is received like replies. Raises ``BrokerLostError``."""
        with self._located("subscribe"):
            self._connection.subscribe(destination, name)

    def receive(self, seconds: float) -> Message | None:
        """Return the next message, None if none comes within ``seconds``. Raises ``BrokerLostError``."""
        deadline = self._clock() + seconds
        # Nothing was read until now, so the time before doesn't count as the broker's silence.
        listening = self._clock()
        while True:
            message = self._inbox.take()
            if message is not None:
                return message
            left = deadline - self._clock()
            try:
                with self._located("call"):
                    self._transport.pump(min(max(left, 0.0), _SLICE))
            except BrokerLostError:
                if self._inbox.size:
                    continue
                raise
            silent = self._clock() - max(self._transport.heard, listening)
            if self._silence and silent > self._silence:
                self._transport.close()
                raise self._lost(f"nothing came from the broker for {silent:.0f} s, no heartbeat either")
            if left <= 0:
                return self._inbox.take()

    @property
    def usable(self) -> bool:
        """Whether the connection is still up, as far as can be told without waiting."""
        try:
            self._transport.pump(0)
        except BrokerLostError:
            return False
        return self._transport.is_connected() and self._inbox.error is None

    def close(self) -> None:
        """Send DISCONNECT if that needs no waiting, and close. May be called again."""
        if self._transport.is_connected():
            self._connection.disconnect()
        self._transport.close()

    def _connected(self) -> PumpedTransport:
        phase = "connect"
        sock: socket.socket | None = None
        try:
            sock = transport.connect(self.host, self._deadline, self._clock)
            if self.host.tls is not None:
                phase = "handshake"
                sock = transport.secure(sock, self.host, self._deadline, self._clock)
        except ssl.SSLError as error:
            what, way_out = tls_errors.explain(error, "plugin.rabbitmq.pool.N.ssl.ca in MCollective's client.cfg")
            kind = IncompatibleError if tls_errors.lasting(error) else UnreachableError
            raise kind(f"the broker {self.host} can't be used: {what}", way_out=way_out, phase=phase) from error
        except TimeoutError as error:
            raise self._unreachable(phase, f"no answer within {self._settings.bounds.connect:g} s") from error
        except OSError as error:
            raise self._unreachable(phase, printable(str(error.strerror or error))) from error
        finally:
            if sock is not None and phase == "handshake" and not isinstance(sock, ssl.SSLSocket):
                sock.close()
        bounds = self._settings.bounds
        return PumpedTransport(sock, self._settings.vhost, self._inbox, bounds, self._clock)

    def _log_in(self) -> float:
        """Log in; return how many seconds of silence mean that the broker is gone, 0 for any."""
        beat = self._settings.heartbeat
        # We promise no heartbeats: nothing would send them while the caller works on an outcome.
        headers = {"heart-beat": f"0,{beat * 1000 - 500}"} if beat else {}
        try:
            self._connection.connect(self.host.user, self.host.password, headers=headers, with_connect_command=True)
            while self._inbox.connected is None and self._inbox.error is None:
                left = self._deadline - self._clock()
                if left <= 0:
                    limit = self._settings.bounds.connect
                    raise self._unreachable("handshake", f"it accepted the connection and sent nothing for {limit:g} s")
                self._transport.pump(min(left, _SLICE))
        except BrokerLostError as error:
            if self._inbox.error is None and self._inbox.connected is None:
                raise self._unreachable("handshake", self._hidden(error.what)) from error
        if self._inbox.connected is None:
            assert self._inbox.error is not None
            user, vhost = self.host.user, self._settings.vhost
            raise LoginRefusedError(
                f"the broker {self.host} refused user {user!r} at vhost {vhost!r}: {self._reason(self._inbox.error)}",
                way_out="check user, password and vhost in MCollective's client.cfg",
                phase="login",
            )
        version = str(self._inbox.connected.get("version", "1.0"))
        if version != _STOMP:
            raise IncompatibleError(
                f"the broker {self.host} speaks STOMP {printable(version)[:20]}, not {_STOMP} as requested",
                way_out="use a broker with STOMP 1.1, such as RabbitMQ with its plugin rabbitmq_stomp",
                phase="login",
            )
        return _silence(self._inbox.connected.get("heart-beat", "0,0"), beat)

    @contextmanager
    def _located(self, phase: str) -> Iterator[None]:
        """Add host and phase to errors of the connection; raise one if the broker has sent an error."""
        try:
            yield
            if self._inbox.error is not None:
                self._transport.close()
                raise BrokerLostError("the broker ended the connection")
        except BrokerLostError as error:
            raise self._lost(error.what, phase) from error

    def _lost(self, what: str, phase: str = "call") -> BrokerLostError:
        text = None
        if self._inbox.error is not None:
            # The broker gave its reason just before it hung up.
            text = self._reason(self._inbox.error)
            what = f"the broker ended the connection: {text}"
        return BrokerLostError(
            f"the broker {self.host} was lost: {self._hidden(what)}",
            way_out="see the broker's log",
            phase=phase,
            text=text,
            lasting=text is not None and _LASTING.search(text) is not None,
        )

    def _reason(self, error: str) -> str:
        # Hidden before it is cut, or part of a secret could be left.
        return self._hidden(printable(self._hidden(error))) or "no reason given"

    def _hidden(self, text: str) -> str:
        for secret in self._settings.secrets:
            text = text.replace(secret, "***")
        return text

    def _unreachable(self, phase: str, why: str) -> UnreachableError:
        return UnreachableError(f"the broker {self.host} can't be used: {why}", way_out=WAY_OUT, phase=phase)


def _silence(heart_beat: str, asked: int) -> float:
    promised = re.fullmatch(r"\s*([0-9]{1,9})\s*,.*", heart_beat)
    if not asked or promised is None or int(promised[1]) == 0:
        return 0.0
    return _BEATS * max(asked, int(promised[1]) / 1000)


class Pool:
    """Lends connections, each to one call at a time; may be used from several threads."""

    def __init__(self, settings: BusSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        self._free: list[BrokerConnection] = []
        self._first = 0

    def lend(self, patience: float = 0.0) -> BrokerConnection:
        """Return a free connection, or a new one. Raises ``BusError``.

        ``patience``: seconds of trying beyond the number of attempts, for a broker that was there a moment ago.
        """
        while True:
            with self._lock:
                link = self._free.pop() if self._free else None
            if link is None:
                return self._connect(patience)
            if link.usable:
                return link
            link.close()

    def give_back(self, link: BrokerConnection) -> None:
        """Take a connection back for the next call."""
        with self._lock:
            self._free.append(link)

    def close(self) -> None:
        """Close the connections that are free."""
        with self._lock:
            links, self._free = self._free, []
        for link in links:
            link.close()

    def _connect(self, patience: float) -> BrokerConnection:
        hosts = self._settings.hosts
        failures: dict[str, BusError] = {}
        end = self._clock.monotonic() + patience
        attempts = 0
        left = set(range(len(hosts)))
        while left and (attempts < self._settings.bounds.attempts or self._clock.monotonic() < end):
            if attempts:
                self._clock.sleep(min(_PAUSE * 2 ** min(attempts - 1, 10), _LONGEST_PAUSE))
            attempts += 1
            for step in range(len(hosts)):
                place = (self._first + step) % len(hosts)
                if place not in left:
                    continue
                try:
                    name = new_request_id()[:12]
                    link = BrokerConnection(hosts[place], self._settings, self._clock.monotonic, name)
                except (UnreachableError, LoginRefusedError) as error:
                    # A broker that accepted the login before may refuse it while it restarts.
                    if isinstance(error, LoginRefusedError) and self._clock.monotonic() >= end:
                        raise
                    failures[str(hosts[place])] = error
                    if isinstance(error, IncompatibleError):
                        left.remove(place)
                    _log.debug("%s", error)
                else:
                    _log.debug("connected to broker %s", hosts[place])
                    self._first = place
                    return link
        if len(hosts) == 1:
            only = failures[str(hosts[0])]
            kind = IncompatibleError if isinstance(only, IncompatibleError) else UnreachableError
            raise kind(_tried(only.what, attempts), way_out=only.way_out, phase=only.phase)
        raise UnreachableError(
            _tried("; ".join(f"{each.what} ({each.phase})" for each in failures.values()), attempts),
            way_out=WAY_OUT,
            phase="connect",
        )


def _tried(what: str, attempts: int) -> str:
    return f"{what} (tried {attempts} times)" if attempts > 1 else what


def try_broker(host: Host, settings: BusSettings, clock: Clock, name: str) -> str:
    """Check a broker without any node: log in, and get a message back over the directed and the broadcast exchange.

    Returns the host and whether TLS is used. ``name``: an identity that nobody has. Each step has the time that a
    connection has. Raises ``BusError``.
    """
    link = BrokerConnection(host, settings, clock.monotonic, name)
    try:
        connector = settings.connector
        for kind, target in (
            ("directed", connector.directed(name, link.replies)),
            ("broadcast", connector.broadcast(name, link.replies)),
        ):
            link.subscribe(target.destination, f"{name}-{kind}")
            # No node is asked, and none could read it.
            body = f"{name} {kind}".encode("ascii")
            link.send(target, body)
            if not _comes(link, body, settings.bounds.connect, clock):
                exchange = f"{settings.signer.collective}_{kind}"
                raise BusError(
                    f"the broker {host} took a message for {exchange} and did not deliver it in time",
                    way_out=f"see its exchange {exchange}, and the rights of user {host.user!r}",
                    phase="call",
                )
    finally:
        link.close()
    tls = "without TLS" if host.tls is None else "TLS verified" if host.tls.verify else "TLS not verified"
    return f"{host} ({tls})"


def _comes(link: BrokerConnection, body: bytes, seconds: float, clock: Clock) -> bool:
    end = clock.monotonic() + seconds
    while (left := end - clock.monotonic()) > 0:
        message = link.receive(left)
        if message is not None and message.body == body:
            return True
    return False
