"""stomp.py's connection on a socket of our own, pumped by whoever waits: no thread, so none can hang or be left over.

stomp.py makes and reads frames. What its own transport does with threads (reading, heartbeats, reconnecting) is
replaced: its waits have no end, its heartbeat thread closes the socket under the reader, and it keeps any amount.
"""

from __future__ import annotations

import select
import socket
from collections import deque
from contextlib import suppress

from configdb_sync.mcollective import sockets
from configdb_sync.mcollective.faults import LostError, UnreadableError
from configdb_sync.mcollective.frames import RawFrame, Splitter
from configdb_sync.mcollective.library import (
    BaseConnection,
    BaseTransport,
    ConnectionListener,
    Frame,
    Protocol11,
    parse_frame,
)
from configdb_sync.mcollective.settings import Bounds

_ROUNDS = 16
_BACKLOG = 32 << 20


class Inbox(ConnectionListener):  # type: ignore[misc]
    """Keeps what came, in order. ``size``: bytes of the messages kept."""

    def __init__(self) -> None:
        self.size = 0
        self.connected: Frame | None = None
        self.error: Frame | None = None
        self._messages: deque[Frame] = deque()

    def on_connected(self, frame: Frame) -> None:
        """Keep the broker's welcome."""
        self.connected = frame

    def on_error(self, frame: Frame) -> None:
        """Keep the broker's complaint."""
        self.error = frame

    def on_message(self, frame: Frame) -> None:
        """Keep a message."""
        self._messages.append(frame)
        self.size += len(frame.body or b"")

    def take(self) -> Frame | None:
        """Return the oldest message, None if there is none."""
        if not self._messages:
            return None
        frame = self._messages.popleft()
        self.size -= len(frame.body or b"")
        return frame


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
        clock: sockets.Monotonic,
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
        """Send a frame, taking in what comes meanwhile. Raises ``LostError``."""
        rest = memoryview(encoded_frame)
        moved = self._clock()
        while rest:
            sock = self._alive()
            try:
                sent = sockets.send(sock, rest)
            except OSError as error:
                # What the broker said last tells why.
                with suppress(LostError):
                    self.pump(0)
                raise self._lost(_reason(error)) from error
            rest = rest[sent:]
            now = self._clock()
            if sent:
                moved = now
            elif now - moved > self._stall:
                raise self._lost(f"the broker took nothing for {self._stall:g} s")
            else:
                # The broker may be unable to take more before we have taken something of it.
                full = self._inbox.size > _BACKLOG
                sockets.ready(sock, select.POLLOUT if full else select.POLLIN | select.POLLOUT, min(1.0, self._stall))
                if not full:
                    self.pump(0)

    def pump(self, seconds: float) -> None:
        """Take in what has come, or comes first within ``seconds``. Raises ``LostError``."""
        sock = self._alive()
        if not self._more and not sockets.ready(sock, select.POLLIN, seconds):
            return
        self._more = True
        for _ in range(_ROUNDS):
            try:
                chunk = sockets.receive(sock)
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
        """Tell whether the broker has let us in and the socket is open."""
        return self._socket is not None and bool(self.connected)

    def _take(self, chunk: bytes) -> None:
        try:
            for raw in self._splitter.feed(chunk):
                frame = _parsed(raw)
                self.process_frame(frame, raw.head)
        except LostError:
            raise
        except UnreadableError as error:
            raise self._lost(f"the broker sent {error.what}") from error
        except Exception as error:  # stomp.py's own handling of a frame
            raise self._lost(f"the broker sent a frame that can't be read ({type(error).__name__})") from None

    def _alive(self) -> socket.socket:
        if self._socket is None:
            raise LostError("the connection is closed")
        return self._socket

    def _lost(self, why: str) -> LostError:
        self.close()
        return LostError(why)


class Connection(BaseConnection, Protocol11):  # type: ignore[misc]
    """STOMP 1.1 over a pumped transport; heartbeats are the link's, not stomp.py's."""

    def __init__(self, transport: PumpedTransport) -> None:
        BaseConnection.__init__(self, transport)
        Protocol11.__init__(self, transport, heartbeats=(0, 0))

    def disconnect(self, receipt: str | None = None, headers: object = None, **more: object) -> None:
        """Say goodbye, without waiting for an answer."""
        Protocol11.disconnect(self, receipt, headers, **more)


def _parsed(raw: RawFrame) -> Frame:
    frame = parse_frame(raw.head + b"\n\n")
    if frame is None:
        raise UnreadableError("a STOMP frame without a command")
    frame.body = raw.body
    frame.size = raw.size
    return frame


def _reason(error: OSError) -> str:
    return f"the connection broke: {error.strerror or error}"
