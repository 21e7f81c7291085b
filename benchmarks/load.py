"""Load on an HTTP server from a process of its own: so many connections, each with its own requests, for so long.

The requests are made beforehand and the answers hardly looked at, since the client shares the machine with the server.
"""

from __future__ import annotations

import itertools
import multiprocessing
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """Requests to send in turn. Each ``#########`` in a body is replaced by a number that was never sent before."""

    method: str
    paths: Sequence[str]
    body: bytes = b""
    headers: str = ""

    def request(self, path: str, number: int) -> bytes:
        """Return the bytes of one request."""
        body = self.body.replace(b"#########", b"%09d" % number)
        kind = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
        head = f"{self.method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{kind}{self.headers}\r\n"
        return head.encode() + body


def rate(port: int, shape: Shape, seconds: float, connections: int = 4) -> float:
    """Return the requests per second that were answered with 2xx; raises RuntimeError for any other answer."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_process, args=(sender, port, shape, seconds, connections))
    process.start()
    sender.close()
    try:
        found = receiver.recv() if receiver.poll(seconds * 3 + 60) else "no answer in time"
    except EOFError:
        found = "the load's own process failed"
    process.join(10)
    process.kill()
    if isinstance(found, str):
        raise RuntimeError(f"{shape.method} {shape.paths[0]}: {found}")
    return float(found)


def _process(sender, port, shape, seconds, connections) -> None:  # type: ignore[no-untyped-def]
    start = time.monotonic()
    counts: list[float] = []
    faults: list[str] = []

    def run(which: int) -> None:
        try:
            counts.append(_one(port, shape, which, start + seconds, connections))
        except (OSError, RuntimeError, ValueError) as error:
            faults.append(str(error))

    threads = [threading.Thread(target=run, args=(which,)) for which in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sender.send(faults[0] if faults else sum(counts))


def _one(port: int, shape: Shape, which: int, end: float, connections: int) -> float:
    first = int(time.time() * 1000) % 10**8 * 10
    paths = itertools.cycle(shape.paths[which::connections] or shape.paths)
    connection: socket.socket | None = None
    done = 0
    started = time.monotonic()
    while time.monotonic() < end:
        if connection is None:
            connection = socket.create_connection(("127.0.0.1", port), timeout=60)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(shape.request(next(paths), (first + done * connections + which) % 10**9))
        if not _answer(connection):
            connection.close()
            connection = None
        done += 1
    if connection is not None:
        connection.close()
    return done / (time.monotonic() - started)


def _answer(connection: socket.socket) -> bool:
    """Read one answer; return whether the connection stays open."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = connection.recv(65536)
        if not part:
            raise RuntimeError("the server closed the connection")
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    if not head.startswith((b"HTTP/1.1 2", b"HTTP/1.0 2")):
        raise RuntimeError(head[:100].decode("latin-1"))
    lines = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    left = int(lines.get(b"content-length", b"0")) - len(body)
    while left > 0:
        part = connection.recv(min(left, 262144))
        if not part:
            raise RuntimeError("the server cut an answer")
        left -= len(part)
    return lines.get(b"connection") != b"close" and not head.startswith(b"HTTP/1.0")
