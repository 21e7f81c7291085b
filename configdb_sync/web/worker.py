"""gunicorn's worker with threads, which get whole requests only: no slow client keeps a thread (R4, R5).

The thread that polls the sockets reads heads and bodies and sends what a socket didn't take at once. The threads of
the pool answer requests from memory to memory.
"""

from __future__ import annotations

import contextlib
import time
import traceback
from collections import Counter
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

from gunicorn.http import errors
from gunicorn.sock import ssl_context
from gunicorn.workers.gthread import ThreadWorker

from configdb_sync.web import connections
from configdb_sync.web.connections import AnswerBuffer, Blocked, Connection, Phase
from configdb_sync.web.framing import Arrived

_SWEEP = 0.25
_TURN = 1024 * 1024
"""Bytes that are read from one client before others have their turn."""

_STATUS = {
    errors.LimitRequestLine: (414, "request line too long"),
    errors.LimitRequestHeaders: (431, "headers too long"),
    errors.ExpectationFailed: (417, "unknown expectation"),
    errors.UnsupportedTransferCoding: (501, "unknown transfer coding"),
}


class Worker(ThreadWorker):  # type: ignore[misc]  # gunicorn has no types
    """Takes whole requests from sockets. The application (``serving.Gunicorn``) says how refusals look, and how large
    a body may be."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._connections: set[Connection] = set()
        self._swept = 0.0
        self._patience = connections.PATIENCE
        self._refusals = RefusalLog(self.log.warning)

    # What gunicorn's loop calls.

    def accept(self, listener: Any) -> None:
        """Take a client, in place of the one that has kept a connection unused for longest if there are too many."""
        try:
            sock, client = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError as error:
            self._note(None, f"connections not taken: {error.strerror}")
            self._make_room()
            return
        phase = Phase.HANDSHAKE if self.cfg.is_ssl else Phase.HEAD
        patience, limit = self._patience, self.app.body_limit
        connection = Connection(sock, client, listener.getsockname(), limit, patience, phase, 0.0)
        connection.give(patience.grace)
        self._connections.add(connection)
        self.nr_conns += 1
        if self.nr_conns >= self.worker_connections:
            self._make_room()
        try:
            sock.setblocking(False)
            if self.cfg.is_ssl:
                connection.sock = ssl_context(self.cfg).wrap_socket(
                    sock, server_side=True, do_handshake_on_connect=False
                )
        except (OSError, ValueError) as error:
            self._note(connection, f"TLS not begun: {type(error).__name__}")
            self._close(connection)
            return
        self._step(connection)

    def murder_keepalived(self, force: bool = False) -> None:
        """Close what is late; at the worker's end everything."""
        now = time.monotonic()
        if force:
            for connection in list(self._connections):
                self._close(connection)
            self._refusals.tick(now, last=True)
            return
        if now - self._swept < _SWEEP:
            return
        self._swept = now
        for connection in list(self._connections):
            if not self.alive and connection.phase in {Phase.HANDSHAKE, Phase.HEAD, Phase.BODY}:
                connection.deadline = min(connection.deadline, now + self._patience.linger)
            if connection.phase is not Phase.BUSY and now >= connection.deadline:
                self._late(connection)
        self._bound_memory()
        self._refusals.tick(now)

    def murder_pending(self) -> None:
        """Do nothing: all are looked at together."""

    def finish_request(self, conn: Connection, fs: Any) -> None:
        """Send the rest of an answer, then take the next request."""
        if fs.cancelled() or fs.exception() is not None:
            self._close(conn)
            return
        conn.answered()
        if fs.result():
            conn.phase = Phase.SENDING
        else:
            self._refuse(conn, 400, "broken chunks")
        self._step(conn)

    def handle(self, conn: Connection) -> bool:
        """Answer a request, in a thread of the pool; return False if its body is broken."""
        try:
            conn.decode()
        except (errors.ParseException, errors.NoMoreData):
            return False
        answer = AnswerBuffer()
        keep = False
        try:
            keep = self.handle_request(
                conn.request, SimpleNamespace(sock=answer, client=conn.client, server=conn.server)
            )
        except BaseException as error:
            # The error's text may hold what the client sent.
            where = "".join(traceback.format_tb(error.__traceback__))
            self.log.error("a request failed: %s\n%s", type(error).__name__, where)
            answer.content[:] = self.app.refusal(500)
        conn.keep = conn.keep and keep
        conn.unsent = memoryview(bytes(answer.content))
        conn.give(self._patience.grace)
        with contextlib.suppress(Blocked, OSError):
            conn.send()
        return True

    # A connection's way.

    def _step(self, connection: Connection, _fileobj: object = None) -> None:
        """Go on with a connection for as long as its socket allows."""
        if connection.phase in {Phase.CLOSED, Phase.BUSY}:
            return
        try:
            try:
                self._go_on(connection)
            except Blocked as blocked:
                self._wait(connection, blocked.event)
        except OSError:
            self._close(connection)
        except Exception as error:
            where = "".join(traceback.format_tb(error.__traceback__))
            self.log.error("a connection failed: %s\n%s", type(error).__name__, where)
            self._close(connection)

    def _go_on(self, connection: Connection) -> None:
        turn = 0
        while connection.phase not in {Phase.CLOSED, Phase.BUSY}:
            if connection.phase is Phase.HANDSHAKE:
                connection.handshake()
                connection.phase = Phase.HEAD
            elif connection.phase is Phase.SENDING:
                connection.send()
                self._sent(connection)
            elif connection.phase is Phase.LINGERING:
                if not connection.receive():
                    self._close(connection)
            elif not self._take(connection):
                if turn >= _TURN:
                    self._bound_memory()
                    self._ignore(connection)
                    self.method_queue.defer(self._step, connection)
                    return
                turn += self._receive(connection)

    def _receive(self, connection: Connection) -> int:
        unused = connection.phase is Phase.HEAD and not connection.received
        size = connection.receive()
        if not size and connection.phase is Phase.HEAD:
            self._close(connection)
        if size and unused:
            connection.give(self._patience.grace)
        elif connection.phase is Phase.BODY:
            connection.progress(size)
        return size

    def _take(self, connection: Connection) -> bool:
        """Hand a request over if it is whole, or refuse it; return False if more of it must come."""
        head = connection.request is None
        try:
            arrived = connection.take(self.cfg)
        except (errors.ParseException, errors.NoMoreData) as error:
            self._refuse(connection, *_STATUS.get(type(error), (400, "not HTTP")))
            return True
        if arrived is Arrived.BROKEN:
            self._refuse(connection, 400, "broken chunks")
        elif arrived is Arrived.OVER and not connection.chunked:
            # The application knows what to say: whether the caller may do it at all comes first.
            connection.keep = False
            self._hand_over(connection)
        elif arrived is Arrived.OVER:
            self._refuse(connection, 413, "body too large")
        elif arrived is Arrived.WHOLE:
            self._hand_over(connection)
        else:
            if head and connection.request is not None:
                connection.phase = Phase.BODY
                connection.give(self._patience.grace)
                if connection.expects_to_continue():
                    connection.sock.send(b"HTTP/1.1 100 Continue\r\n\r\n")
            return False
        return True

    def _hand_over(self, connection: Connection) -> None:
        connection.expects_to_continue()
        self._ignore(connection)
        connection.phase = Phase.BUSY
        self.enqueue_req(connection)

    def _sent(self, connection: Connection) -> None:
        patience = self._patience
        if connection.keep:
            connection.phase = Phase.HEAD
            connection.give(patience.grace if connection.received else patience.idle)
            return
        if connection.ended:
            self._close(connection)
            return
        connection.finish_sending()
        connection.phase = Phase.LINGERING
        connection.give(patience.linger)
        connection.received = bytearray()

    def _refuse(self, connection: Connection, status: int, reason: str) -> None:
        self._note(connection, f"{status} {reason}")
        connection.unsent = memoryview(self.app.refusal(status))
        connection.keep = False
        connection.phase = Phase.SENDING
        connection.give(self._patience.grace)

    def _note(self, connection: Connection | None, reason: str) -> None:
        address = str(connection.client[0]) if connection is not None and connection.client else "unknown"
        self._refusals.note(reason, address, time.monotonic())

    def _late(self, connection: Connection) -> None:
        if connection.phase is Phase.BODY or (connection.phase is Phase.HEAD and connection.received):
            self._refuse(connection, 408, "too slow")
            self._step(connection)
        else:
            self._close(connection)

    def _make_room(self) -> None:
        waiting = [one for one in self._connections if one.phase is not Phase.BUSY]
        if waiting:
            self._close(min(waiting, key=lambda one: one.deadline))

    def _bound_memory(self) -> None:
        """Close clients that hold most until what is held is no more than all threads could be at work on."""
        most = max(self.app.body_limit * self.cfg.threads, 64 * _TURN)
        held = sum(one.held for one in self._connections)
        while held > most:
            waiting = [one for one in self._connections if one.phase is not Phase.BUSY and one.held]
            if not waiting:
                return
            largest = max(waiting, key=lambda one: one.held)
            held -= largest.held
            self._note(largest, "closed, since too much came at once")
            self._close(largest)

    def _wait(self, connection: Connection, event: int) -> None:
        if connection.waits_for == event:
            return
        call = partial(self._step, connection)
        if connection.waits_for:
            self.poller.modify(connection.sock, event, call)
        else:
            self.poller.register(connection.sock, event, call)
        connection.waits_for = event

    def _ignore(self, connection: Connection) -> None:
        if connection.waits_for:
            connection.waits_for = 0
            with contextlib.suppress(KeyError, ValueError, OSError):
                self.poller.unregister(connection.sock)

    def _close(self, connection: Connection) -> None:
        if connection in self._connections:
            self._connections.discard(connection)
            self.nr_conns -= 1
            self._ignore(connection)
            with contextlib.suppress(OSError):
                connection.close()


EVERY = 60.0


class RefusalLog:
    """Counts refusals: the first is told at once, what comes within a minute after it in one line."""

    def __init__(self, warn: Callable[[str], object]) -> None:
        self._warn = warn
        self._seen: Counter[str] = Counter()
        self._address = ""
        self._since: float | None = None

    def note(self, reason: str, address: str, now: float) -> None:
        """Count one; the reason is in words of the server's own."""
        self._seen[reason] += 1
        self._address = address
        if self._since is None:
            self._tell("")
            self._since = now

    def tick(self, now: float, *, last: bool = False) -> None:
        """Tell of what has come since the last line, if it is a minute old or there will be no other."""
        if self._since is None or (now - self._since < EVERY and not last):
            return
        if self._seen:
            self._tell(f" in {now - self._since:.0f} s")
            self._since = now
        else:
            self._since = None

    def _tell(self, span: str) -> None:
        counts = ", ".join(f"{count} x {reason}" for reason, count in sorted(self._seen.items()))
        self._warn(f"requests refused before the service saw them{span}: {counts}; the last from {self._address}")
        self._seen.clear()
