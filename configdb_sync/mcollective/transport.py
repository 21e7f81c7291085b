"""stomp.py's connection on a non-blocking socket of our own, plain or TLS; the caller that waits moves the bytes.

stomp.py makes and reads frames. Its own transport is replaced: its waits have no end, its heartbeat thread closes the
socket under the reader, and it keeps any amount. Here there is no thread that could hang or be left over, one thread
uses the socket at a time, and every wait is a poll with an end.
"""

from __future__ import annotations

import logging
import os
import select
import socket
import ssl
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from configdb_sync.errors import BusError
from configdb_sync.mcollective.bus_settings import Bounds, Host, Tls
from configdb_sync.mcollective.frames import FrameError, RawFrame, Splitter

# At import stomp.py looks up host names, which can take minutes without a name server.
os.environ.setdefault("STOMP_SKIP_HOSTNAME_SCAN", "1")

from stomp.connect import BaseConnection
from stomp.exception import StompException
from stomp.listener import ConnectionListener
from stomp.protocol import Protocol11
from stomp.transport import BaseTransport
from stomp.utils import Frame, parse_frame

# Its debug log shows bodies whole, and hides a passcode only in one of the forms in which it prints it.
logging.getLogger("stomp.py").disabled = True

CHUNK = 256 << 10
"""Bytes read at once; small reads make big messages slow."""

Monotonic = Callable[[], float]


def connect(host: Host, deadline: float, clock: Monotonic) -> socket.socket:
    """Return a socket connected to ``host``, non-blocking. Raises ``OSError``; ``TimeoutError`` past ``deadline``.

    Looking the name up takes as long as the system's resolver is set to wait.
    """
    places = socket.getaddrinfo(host.name, host.port, type=socket.SOCK_STREAM)
    for number, (family, kind, protocol, _, address) in enumerate(places):
        left = deadline - clock()
        if left <= 0:
            raise TimeoutError("timed out")
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(left / (len(places) - number))
            sock.connect(address)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            sock.setblocking(False)
        except OSError:
            sock.close()
            if number + 1 == len(places):
                raise
        else:
            return sock
    raise OSError("the name leads to no address")


def secure(sock: socket.socket, host: Host, deadline: float, clock: Monotonic) -> ssl.SSLSocket:
    """Return the socket with TLS around it. Raises ``OSError`` (``ssl.SSLError`` among them)."""
    assert host.tls is not None
    secured = tls_context(host.tls).wrap_socket(sock, server_hostname=host.name, do_handshake_on_connect=False)
    try:
        while True:
            try:
                secured.do_handshake()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as error:
                event = select.POLLIN if isinstance(error, ssl.SSLWantReadError) else select.POLLOUT
                if not _ready(secured, event, deadline - clock()):
                    raise TimeoutError("timed out") from None
            else:
                return secured
    except BaseException:
        secured.close()
        raise


def tls_context(tls: Tls) -> ssl.SSLContext:
    """Return the TLS context for a host. Raises ``OSError`` that names the file which can't be used."""
    found = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    found.minimum_version = ssl.TLSVersion.TLSv1_2
    for file in tls.ca:
        try:
            found.load_verify_locations(file)
        except OSError as error:
            raise OSError(f"the CA file {file} can't be used: {error.strerror or error}") from error
    if not tls.ca:
        found.load_default_certs()
    if tls.cert:
        try:
            found.load_cert_chain(tls.cert, tls.key, password=lambda: "")
        except OSError as error:
            raise OSError(f"the certificate {tls.cert} can't be used: {error.strerror or error}") from error
    if tls.ciphers:
        found.set_ciphers(tls.ciphers)
    if not tls.verify:
        found.check_hostname = False
        found.verify_mode = ssl.CERT_NONE
    return found


def _ready(sock: socket.socket, event: int, seconds: float) -> bool:
    """Tell whether ``sock`` got ready for reading or writing within ``seconds``."""
    poll = select.poll()
    poll.register(sock, event)
    return bool(poll.poll(max(0.0, seconds) * 1000))


def _receive(sock: socket.socket) -> bytes | None:
    """Return what has come: some bytes, none at the end, None if there is nothing now. Raises ``OSError``."""
    try:
        return sock.recv(CHUNK)
    except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
        return None


def _send(sock: socket.socket, content: memoryview) -> int:
    """Send what goes now; return how many bytes that were. Raises ``OSError``."""
    try:
        return sock.send(content[:CHUNK])
    except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
        return 0


_ROUNDS = 16
_BACKLOG = 32 << 20


@dataclass(eq=False)
class BrokerLostError(BusError):
    """A connection that was up broke, or the broker ended it.

    ``text``: the broker's words, if it gave any; ``lasting``: by them it would do so again.
    """

    text: str | None = None
    lasting: bool = False


@dataclass(frozen=True)
class Message:
    """A message that came. ``sender`` is who the header claims sent it; ``body`` None if it was beyond the limit."""

    sender: str
    body: bytes | None = field(repr=False)
    size: int
    destination: str = ""
    reply_to: str = ""


class Inbox(ConnectionListener):  # type: ignore[misc]
    """Keeps what came, in order. ``size``: bytes of the messages that are kept."""

    def __init__(self) -> None:
        self.size = 0
        self.connected: Mapping[str, str] | None = None
        self.error: str | None = None
        self._messages: deque[Message] = deque()

    def on_connected(self, frame: Frame) -> None:
        """Keep the headers of a successful login."""
        self.connected = frame.headers

    def on_error(self, frame: Frame) -> None:
        """Keep the broker's error."""
        parts = (str(frame.headers.get("message", "")), (frame.body or b"").decode("utf-8", "backslashreplace"))
        self.error = ": ".join(part for part in parts if part.strip())

    def on_message(self, frame: Frame) -> None:
        """Keep a message."""
        headers = frame.headers
        message = Message(
            sender=str(headers.get("mc_sender", "")),
            body=frame.body,
            size=frame.size,
            destination=str(headers.get("destination", "")),
            reply_to=str(headers.get("reply-to", "")),
        )
        self._messages.append(message)
        self.size += len(message.body or b"")

    def take(self) -> Message | None:
        """Return the oldest message, None if there is none."""
        if not self._messages:
            return None
        message = self._messages.popleft()
        self.size -= len(message.body or b"")
        return message


class PumpedTransport(BaseTransport):  # type: ignore[misc]
    """Moves frames between stomp.py and a connected, non-blocking socket.

    ``inbox`` gets what comes. ``bounds.stall`` seconds without progress are the end of sending.
    """

    def __init__(
        self,
        sock: socket.socket,
        vhost: str,
        inbox: Inbox,
        bounds: Bounds,
        clock: Monotonic,
    ) -> None:
        super().__init__(auto_decode=False)
        self.set_listener("inbox", inbox)
        self.vhost = vhost
        self.heard = clock()
        """When bytes came last."""
        self._socket: socket.socket | None = sock
        self._inbox = inbox
        self._splitter = Splitter(bounds.frame)
        self._stall = bounds.stall
        self._clock = clock
        self._more = False

    def send(self, encoded_frame: bytes) -> None:
        """Send a frame, and read what comes meanwhile. Raises ``BrokerLostError``."""
        rest = memoryview(encoded_frame)
        moved = self._clock()
        while rest:
            sock = self._alive()
            try:
                sent = _send(sock, rest)
            except OSError as error:
                # The broker's last words give the reason.
                with suppress(BrokerLostError):
                    self.pump(0)
                raise self._lost(_reason(error)) from error
            rest = rest[sent:]
            now = self._clock()
            if sent:
                moved = now
            elif now - moved > self._stall:
                raise self._lost(f"the broker accepted no data for {self._stall:g} s")
            else:
                # The broker may be unable to accept more before we have read something of it.
                full = self._inbox.size > _BACKLOG
                _ready(sock, select.POLLOUT if full else select.POLLIN | select.POLLOUT, min(1.0, self._stall))
                if not full:
                    self.pump(0)

    def pump(self, seconds: float) -> None:
        """Read what has come, or comes first within ``seconds``. Raises ``BrokerLostError``."""
        sock = self._alive()
        if not self._more and not _ready(sock, select.POLLIN, seconds):
            return
        self._more = True
        for _ in range(_ROUNDS):
            try:
                chunk = _receive(sock)
            except OSError as error:
                raise self._lost(_reason(error)) from error
            if chunk is None:
                self._more = False
                return
            if not chunk:
                raise self._lost("the broker closed the connection")
            self.heard = self._clock()
            self._take(chunk)

    def close(self) -> None:
        """Close the socket at once. May be called again."""
        self.running = False
        self.set_connected(False)
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def stop(self) -> None:
        """Do nothing: there is no thread to wait for."""

    def disconnect_socket(self) -> None:
        """Close the socket."""
        self.close()

    def is_connected(self) -> bool:
        """Tell whether we are logged in and the socket is open."""
        return self._socket is not None and bool(self.connected)

    def _take(self, chunk: bytes) -> None:
        try:
            for raw in self._splitter.feed(chunk):
                frame = _parsed(raw)
                self.process_frame(frame, raw.head)
        except BrokerLostError:
            raise
        except FrameError as error:
            raise self._lost(f"the broker sent {error.what}") from error
        except Exception as error:  # stomp.py's own handling of a frame
            raise self._lost(f"the broker sent a frame that can't be read ({type(error).__name__})") from None

    def _alive(self) -> socket.socket:
        if self._socket is None:
            raise BrokerLostError("the connection is closed")
        return self._socket

    def _lost(self, why: str) -> BrokerLostError:
        self.close()
        return BrokerLostError(why)


class StompConnection(BaseConnection, Protocol11):  # type: ignore[misc]
    """STOMP 1.1 over a pumped transport; heartbeats are the link's, not stomp.py's."""

    def __init__(self, transport: PumpedTransport) -> None:
        BaseConnection.__init__(self, transport)
        Protocol11.__init__(self, transport, heartbeats=(0, 0))

    def disconnect(self, receipt: str | None = None, headers: object = None, **more: object) -> None:
        """Send DISCONNECT if that needs no waiting; wait for no answer."""
        with suppress(BusError, StompException):
            Protocol11.disconnect(self, receipt, headers, **more)


def _parsed(raw: RawFrame) -> Frame:
    frame = parse_frame(raw.head + b"\n\n")
    if frame is None:
        raise FrameError("a STOMP frame without a command")
    frame.body = raw.body
    frame.size = raw.size
    return frame


def _reason(error: OSError) -> str:
    return f"the connection broke: {error.strerror or error}"
