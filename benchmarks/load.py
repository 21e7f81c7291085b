"""Load on HTTP servers from a process of its own: so many connections, each with its own requests, in turn for so long.

The requests are made beforehand and the answers hardly looked at, since the client shares the machine with the servers.
Other work shares it too: servers that are compared take turns in short slices, so that it hits all alike.
"""

from __future__ import annotations

import itertools
import multiprocessing
import selectors
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """Requests to send in turn. Each ``#########`` in a body is replaced by a number that was never sent before."""

    method: str
    paths: Sequence[str]
    body: bytes = b""
    headers: str = ""

    def requests(self) -> Callable[[], bytes]:
        """Return what gives the bytes of the next request."""
        parts = itertools.cycle([self._head(path) for path in self.paths])
        if b"#########" not in self.body:
            return lambda: next(parts) + self.body
        numbers = itertools.count(int(time.time() * 1000) % 10**8 * 10)
        return lambda: next(parts) + self.body.replace(b"#########", b"%09d" % (next(numbers) % 10**9))

    def _head(self, path: str) -> bytes:
        length = len(self.body)
        kind = f"Content-Type: application/json\r\nContent-Length: {length}\r\n" if self.body else ""
        return f"{self.method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{kind}{self.headers}\r\n".encode()


def rates(targets: Sequence[tuple[int, Shape]], seconds: float, rounds: int, connections: int = 4) -> list[list[float]]:
    """Return for each target (port and requests) the requests per second that were answered with 2xx, by round.

    In each round each target has its turn for ``seconds``. Raises RuntimeError for any other answer.
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_process, args=(sender, targets, seconds, rounds, connections))
    process.start()
    sender.close()
    patience = len(targets) * rounds * seconds * 3 + 60
    try:
        found = receiver.recv() if receiver.poll(patience) else "no answer in time"
    except EOFError:
        found = "the load's own process failed"
    process.join(10)
    process.kill()
    if isinstance(found, str):
        raise RuntimeError(found)
    return [[float(rate) for rate in one] for one in found]


def _process(sender, targets, seconds, rounds, connections) -> None:  # type: ignore[no-untyped-def]
    made = [(port, shape.requests()) for port, shape in targets]
    found: list[list[float]] = [[] for _ in targets]
    try:
        for _ in range(rounds):
            for rates_, (port, request) in zip(found, made, strict=True):
                rates_.append(_slice(port, request, seconds, connections))
    except (OSError, RuntimeError, ValueError) as error:
        sender.send(str(error))
        return
    sender.send(found)


class _Connection:
    """One connection with a request under way; ``rest`` is how much of the answer's body is still to come."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.open()

    def open(self) -> None:
        self.socket = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, request: bytes) -> None:
        self._head, self._rest, self._closes = b"", -1, False
        self.socket.sendall(request)

    def answered(self) -> bool:
        """Take what has come; tell whether the answer is whole."""
        data = self.socket.recv(262144)
        if not data:
            raise RuntimeError("the server closed the connection")
        if self._rest >= 0:
            self._rest -= len(data)
            return self._rest <= 0
        self._head += data
        end = self._head.find(b"\r\n\r\n")
        if end < 0:
            return False
        head = self._head[: end + 2].lower()
        if not head.startswith((b"http/1.1 2", b"http/1.0 2")):
            raise RuntimeError(head[:100].decode("latin-1"))
        place = head.find(b"\r\ncontent-length:")
        length = int(head[place + 17 : head.index(b"\r\n", place + 17)]) if place >= 0 else 0
        self._closes = b"\r\nconnection: close" in head or head.startswith(b"http/1.0")
        self._rest = length - (len(self._head) - end - 4)
        return self._rest <= 0

    @property
    def over(self) -> bool:
        return self._closes


def _slice(port: int, request: Callable[[], bytes], seconds: float, connections: int) -> float:
    selector = selectors.DefaultSelector()
    started = time.monotonic()
    end = started + seconds
    done = 0
    for one in [_Connection(port) for _ in range(connections)]:
        one.ask(request())
        selector.register(one.socket, selectors.EVENT_READ, one)
    while selector.get_map():
        ready = selector.select(60)
        if not ready:
            raise RuntimeError("no answer for a minute")
        for key, _ in ready:
            connection: _Connection = key.data
            if not connection.answered():
                continue
            done += 1
            finished = time.monotonic() >= end
            if connection.over or finished:
                selector.unregister(connection.socket)
                connection.socket.close()
                if finished:
                    continue
                connection.open()
                selector.register(connection.socket, selectors.EVENT_READ, connection)
            connection.ask(request())
    selector.close()
    return done / (time.monotonic() - started)
