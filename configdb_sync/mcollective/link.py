"""One connection to one broker, from the first packet to the last; used by one call at a time."""

from __future__ import annotations

import re
import socket
import ssl
from contextlib import suppress
from dataclasses import dataclass, field

from configdb_sync import tls_errors
from configdb_sync.errors import BusError
from configdb_sync.mcollective import sockets
from configdb_sync.mcollective.connector import Replies, Target
from configdb_sync.mcollective.faults import IncompatibleError, LoginRefusedError, LostError, UnreachableError
from configdb_sync.mcollective.library import Frame, StompException
from configdb_sync.mcollective.settings import BusSettings, Host
from configdb_sync.mcollective.transport import Connection, Inbox, PumpedTransport
from configdb_sync.mcollective.values import printable

WAY_OUT = "see that the broker runs; --mco-connect-limit and --mco-attempts say how long and how often it is tried"
_STOMP = "1.1"
"""The version that we ask for; without a word the broker speaks 1.0 (STOMP 1.2, Protocol Negotiation)."""
_BEATS = 2.5
_SLICE = 1.0
_LASTING = re.compile(r"not_found|access_refused|precondition_failed|not_allowed", flags=re.IGNORECASE)


@dataclass(frozen=True)
class Message:
    """A message that came. ``sender`` is who the header claims sent it; ``body`` None if it was beyond the limit."""

    sender: str
    body: bytes | None = field(repr=False)
    size: int
    destination: str = ""
    reply_to: str = ""


class Link:
    """A connection that is logged in."""

    def __init__(self, host: Host, settings: BusSettings, clock: sockets.Monotonic, name: str) -> None:
        """Connect and log in within the limit. ``name``: of the place for replies.

        Raises ``UnreachableError`` and ``LoginRefusedError``, which name the host and the phase.
        """
        self.host = host
        self.replies: Replies = settings.connector.replies(name)
        self._settings = settings
        self._clock = clock
        self._inbox = Inbox()
        self._deadline = clock() + settings.bounds.connect
        self._transport = self._connected()
        self._connection = Connection(self._transport)
        try:
            self._silence = self._log_in()
            if self.replies.subscribe is not None:
                self.subscribe(self.replies.subscribe, "replies")
        except BaseException:
            self._transport.close()
            raise

    def send(self, target: Target, body: bytes) -> None:
        """Send a message. Raises ``LostError``."""
        try:
            self._connection.send(target.destination, body, headers=dict(target.headers))
            self._complain()
        except LostError as error:
            raise self._place(error) from error

    def subscribe(self, destination: str, name: str) -> None:
        """Subscribe to a destination; what comes is received like replies. Raises ``LostError``."""
        try:
            self._connection.subscribe(destination, name)
            self._complain()
        except LostError as error:
            raise self._place(error, phase="subscribe") from error

    def receive(self, seconds: float) -> Message | None:
        """Return the next message, None if none comes within ``seconds``. Raises ``LostError``."""
        deadline = self._clock() + seconds
        # Nobody listened until now: that is no silence of the broker's.
        listening = self._clock()
        while True:
            frame = self._inbox.take()
            if frame is not None:
                return _message(frame)
            left = deadline - self._clock()
            try:
                self._transport.pump(min(max(left, 0.0), _SLICE))
                self._complain()
            except LostError as error:
                if self._inbox.size:
                    continue
                raise self._place(error) from error
            silent = self._clock() - max(self._transport.heard, listening)
            if self._silence and silent > self._silence:
                self._transport.close()
                raise self._place(LostError(f"nothing came from the broker for {silent:.0f} s, no heartbeat either"))
            if left <= 0:
                frame = self._inbox.take()
                return None if frame is None else _message(frame)

    @property
    def usable(self) -> bool:
        """Whether the connection still stands, as far as can be told at once."""
        try:
            self._transport.pump(0)
        except LostError:
            return False
        return self._transport.is_connected() and self._inbox.error is None

    def close(self) -> None:
        """Say goodbye where that goes at once, and close. May be called again."""
        if self._transport.is_connected():
            with suppress(BusError, StompException):
                self._connection.disconnect()
        self._transport.close()

    def _connected(self) -> PumpedTransport:
        phase = "connect"
        sock: socket.socket | None = None
        try:
            sock = sockets.connect(self.host, self._deadline, self._clock)
            if self.host.tls is not None:
                phase = "handshake"
                sock = sockets.secure(sock, self.host, self._deadline, self._clock)
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
        # We promise no heartbeats: nobody sends them while a caller is busy with what it was given.
        headers = {"heart-beat": f"0,{beat * 1000 - 500}"} if beat else {}
        try:
            self._connection.connect(self.host.user, self.host.password, headers=headers, with_connect_command=True)
            while self._inbox.connected is None and self._inbox.error is None:
                left = self._deadline - self._clock()
                if left <= 0:
                    limit = self._settings.bounds.connect
                    raise self._unreachable("handshake", f"it took the connection and said nothing for {limit:g} s")
                self._transport.pump(min(left, _SLICE))
        except LostError as error:
            if self._inbox.error is None and self._inbox.connected is None:
                raise self._unreachable("handshake", self._hidden(error.what)) from error
        if self._inbox.connected is None:
            assert self._inbox.error is not None
            text = self._text(self._inbox.error)
            raise LoginRefusedError(
                f"the broker {self.host} refused user {self.host.user!r} at vhost {self._settings.vhost!r}: {text}",
                way_out="check user, password and vhost in MCollective's client.cfg",
                phase="login",
            )
        version = str(self._inbox.connected.headers.get("version", "1.0"))
        if version != _STOMP:
            raise IncompatibleError(
                f"the broker {self.host} speaks STOMP {printable(version)[:20]}, not {_STOMP} as it was asked to",
                way_out="use a broker with STOMP 1.1, such as RabbitMQ with its plugin rabbitmq_stomp",
                phase="login",
            )
        return _silence(self._inbox.connected.headers.get("heart-beat", "0,0"), beat)

    def _complain(self) -> None:
        if self._inbox.error is not None:
            self._transport.close()
            raise self._complaint()

    def _complaint(self) -> LostError:
        assert self._inbox.error is not None
        text = self._text(self._inbox.error)
        lasting = _LASTING.search(text) is not None
        return LostError(f"the broker ended the connection: {text}", text=text, lasting=lasting)

    def _text(self, frame: Frame) -> str:
        parts = [str(frame.headers.get("message", "")), printable(frame.body or b"")]
        return self._hidden(printable(": ".join(part for part in parts if part))) or "no reason given"

    def _hidden(self, text: str) -> str:
        for secret in self._settings.secrets:
            text = text.replace(secret, "***")
        return text

    def _unreachable(self, phase: str, why: str) -> UnreachableError:
        return UnreachableError(f"the broker {self.host} can't be used: {why}", way_out=WAY_OUT, phase=phase)

    def _place(self, error: LostError, phase: str = "call") -> LostError:
        if self._inbox.error is not None and error.text is None:
            # The broker gave its reason just before it hung up.
            error = self._complaint()
        what = error.what if str(self.host) in error.what else f"the broker {self.host} was lost: {error.what}"
        return LostError(
            self._hidden(what), way_out="see the broker's log", phase=phase, text=error.text, lasting=error.lasting
        )


def _silence(heart_beat: str, asked: int) -> float:
    promised = re.fullmatch(r"\s*([0-9]{1,9})\s*,.*", heart_beat)
    if not asked or promised is None or int(promised[1]) == 0:
        return 0.0
    return _BEATS * max(asked, int(promised[1]) / 1000)


def _message(frame: Frame) -> Message:
    headers = frame.headers
    return Message(
        sender=str(headers.get("mc_sender", "")),
        body=frame.body,
        size=frame.size,
        destination=str(headers.get("destination", "")),
        reply_to=str(headers.get("reply-to", "")),
    )
