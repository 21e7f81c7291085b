"""A client's connection, for which nobody waits: what has arrived, what is still to be sent, and until when."""

from __future__ import annotations

import contextlib
import errno
import io
import selectors
import socket
import ssl
import time
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from gunicorn.http.body import ChunkedReader
from gunicorn.http.errors import LimitRequestHeaders, NoMoreData
from gunicorn.http.message import Request
from gunicorn.http.unreader import SocketUnreader

from configdb_sync.web.framing import HEAD_END, Arrived, Body, Chunked, Sized, hopeless


@dataclass(frozen=True)
class Patience:
    """How long clients are waited for. ``grace``: seconds in which a TLS handshake or a head must be through, and
    which a body or an answer may lag behind ``pace`` bytes a second. ``idle``: seconds that a connection stays open
    between two requests, longer than a proxy keeps idle ones (nginx: 60 s). ``linger``: seconds for a client to read
    a last answer, while what it still sends is thrown away (RFC 9112 9.6)."""

    grace: float = 10.0
    pace: int = 32 * 1024
    idle: float = 75.0
    linger: float = 2.0


PATIENCE = Patience()
HEAD_LIMIT = 128 * 1024
_PIECE = 64 * 1024


class Blocked(Exception):  # noqa: N818  # no error: the socket must be waited for
    """The socket has nothing to read, or takes no more; ``event`` is what to wait for."""

    def __init__(self, event: int) -> None:
        super().__init__()
        self.event = event


class Phase(Enum):
    """What a connection is at."""

    HANDSHAKE = "handshake"
    HEAD = "head"
    BODY = "body"
    BUSY = "busy"
    SENDING = "sending"
    LINGERING = "lingering"
    CLOSED = "closed"


class _Source:
    """Stands for the socket that gunicorn's parser reads from: it ends where the request does."""

    def __init__(self, content: bytes) -> None:
        self._content = io.BytesIO(content)

    def recv(self, size: int) -> bytes:
        return self._content.read(size)

    def give(self, content: bytes) -> None:
        self._content = io.BytesIO(content)


class AnswerBuffer:
    """Stands for the socket that gunicorn writes an answer to."""

    def __init__(self) -> None:
        self.content = bytearray()

    def sendall(self, data: bytes) -> None:
        """Take a part of the answer."""
        self.content += data

    def shutdown(self, _how: int) -> None:
        """Raise ``OSError``: there is no client here."""
        raise OSError(errno.ENOTCONN, "no socket")

    def close(self) -> None:
        """Do nothing: the connection is closed elsewhere."""


@dataclass(eq=False)
class Connection:
    """One client. All but ``send`` belongs to the thread that polls the sockets."""

    sock: socket.socket
    client: Any
    server: Any
    body_limit: int
    patience: Patience
    phase: Phase
    deadline: float
    received: bytearray = field(default_factory=bytearray)
    unsent: memoryview = field(default_factory=lambda: memoryview(b""))
    taken: int = 0
    request: Any = None
    ended: bool = False
    keep: bool = True
    waits_for: int = 0
    _source: _Source | None = None
    _body: Body | None = None
    _searched: int = 0

    @property
    def held(self) -> int:
        """How many bytes are kept for it."""
        return len(self.received) + self.taken + len(self.unsent)

    def handshake(self) -> None:
        """Go on with the TLS handshake. Raises ``Blocked``, ``OSError``."""
        assert isinstance(self.sock, ssl.SSLSocket)
        try:
            self.sock.do_handshake()
        except ssl.SSLWantReadError:
            raise Blocked(selectors.EVENT_READ) from None
        except ssl.SSLWantWriteError:
            raise Blocked(selectors.EVENT_WRITE) from None

    def receive(self) -> int:
        """Take what has arrived and return how much; 0 is the client's end. Raises ``Blocked``, ``OSError``."""
        try:
            data = self.sock.recv(_PIECE)
        except (BlockingIOError, ssl.SSLWantReadError):
            raise Blocked(selectors.EVENT_READ) from None
        except ssl.SSLWantWriteError:
            raise Blocked(selectors.EVENT_WRITE) from None
        if data and self.phase is not Phase.LINGERING:
            self.received += data
        self.ended = not data
        return len(data)

    def send(self) -> None:
        """Send what is to be sent. Raises ``Blocked``, ``OSError``."""
        while self.unsent:
            try:
                sent = self.sock.send(self.unsent[:_PIECE])
            except (BlockingIOError, ssl.SSLWantWriteError):
                raise Blocked(selectors.EVENT_WRITE) from None
            except ssl.SSLWantReadError:
                raise Blocked(selectors.EVENT_READ) from None
            self.unsent = self.unsent[sent:]
            self.progress(sent)

    def give(self, seconds: float) -> None:
        """Say how long what it is at may take."""
        self.deadline = time.monotonic() + seconds

    def progress(self, size: int) -> None:
        """Give more time for what has been sent or has arrived, never more than at the start."""
        self.deadline = min(self.deadline + size / self.patience.pace, time.monotonic() + self.patience.grace)

    def take(self, cfg: Any) -> Arrived:
        """Return how much of the next request is there; it is in ``request`` once its head is.

        Raises ``ParseException`` and ``NoMoreData`` for what is no HTTP.
        """
        if self.request is None and not self._take_head(cfg):
            return Arrived.PART
        assert self._body is not None
        assert self._source is not None
        arrived = self._body.look(self.received)
        if arrived is Arrived.WHOLE or (self.ended and arrived is Arrived.PART):
            end = self._body.end if arrived is Arrived.WHOLE else len(self.received)
            self._source.give(bytes(memoryview(self.received)[:end]))
            del self.received[:end]
            self.taken = end
            self.keep = arrived is Arrived.WHOLE
            return Arrived.WHOLE
        return arrived

    def _take_head(self, cfg: Any) -> bool:
        end = self.received.find(HEAD_END, max(0, self._searched - len(HEAD_END)))
        self._searched = len(self.received)
        if end < 0 and not hopeless(self.received, HEAD_LIMIT):
            return False
        if (end < 0 and len(self.received) > HEAD_LIMIT) or end > HEAD_LIMIT:
            raise LimitRequestHeaders("the head is too long")
        size = end + len(HEAD_END) if end >= 0 else len(self.received)
        source = _Source(bytes(self.received[:size]))
        del self.received[:size]
        self._searched = 0
        request = Request(cfg, SocketUnreader(source), self.client, 1)
        if request.unreader.take_buffered():
            raise NoMoreData
        reader = request.body.reader
        chunked = isinstance(reader, ChunkedReader)
        self._body = Chunked(self.body_limit) if chunked else Sized(reader.length, self.body_limit)
        self._source, self.request = source, request
        return True

    @property
    def chunked(self) -> bool:
        """Whether its request's body comes in chunks."""
        return isinstance(self._body, Chunked)

    def decode(self) -> None:
        """Put a body that came in chunks together. Raises ``ParseException`` and ``NoMoreData`` if they are broken."""
        if self.chunked:
            self.request.body = io.BytesIO(self.request.body.read())

    def expects_to_continue(self) -> bool:
        """Tell, once, whether the client waits for a word before it sends the body (RFC 9110 10.1.1)."""
        expects = bool(self.request._expected_100_continue) and not self.received  # noqa: SLF001
        self.request._expected_100_continue = False  # noqa: SLF001
        return expects

    def answered(self) -> None:
        """Forget the request that was answered."""
        self.request = self._source = self._body = None
        self.taken = 0

    def finish_sending(self) -> None:
        """Tell the client that nothing more comes."""
        if isinstance(self.sock, ssl.SSLSocket):
            # It is to be told by TLS too (RFC 8446 6.1); the client's own word isn't waited for.
            with contextlib.suppress(OSError, ValueError):
                self.sock.unwrap()
        self.sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close it."""
        self.phase = Phase.CLOSED
        self.received = bytearray()
        self.unsent = memoryview(b"")
        self.answered()
        self.sock.close()
