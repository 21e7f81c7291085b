"""A server of raw bytes on loopback: each request gets the next scripted answer, however wrong."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

Script = Callable[[socket.socket], None] | bytes


@dataclass
class Liar:
    """A running server. ``requests`` are the raw requests so far; the last script is used for all that follow."""

    port: int
    scripts: list[Script]
    requests: list[bytes] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def lines(self) -> list[str]:
        """The request lines so far, without the protocol."""
        return [request.split(b"\r\n", 1)[0].decode().rsplit(" ", 1)[0] for request in self.requests]

    def next(self, request: bytes) -> Script:
        with self.lock:
            self.requests.append(request)
            return self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]


def answer(status: int, body: bytes | str = b"", kind: str = "application/json", **headers: str) -> bytes:
    """Return the bytes of an honest answer; underscores in header names stand for hyphens."""
    content = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status} X", f"Content-Type: {kind}", f"Content-Length: {len(content)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + content


def drip(content: bytes, pause: float, stopped: threading.Event | None = None) -> Script:
    """Return a script that sends a byte now and then."""
    ended = stopped or threading.Event()

    def send(connection: socket.socket) -> None:
        for byte in content:
            connection.sendall(bytes([byte]))
            if ended.wait(pause):
                return

    return send


def reset(connection: socket.socket) -> None:
    """Break the connection without a word."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    connection.close()


@contextlib.contextmanager
def running(*scripts: Script) -> Iterator[Liar]:
    """Yield a server with these scripts."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.05)
        liar = Liar(listener.getsockname()[1], list(scripts))
        threads: list[threading.Thread] = []

        def accept() -> None:
            while not liar.stopped.is_set():
                try:
                    connection, _ = listener.accept()
                except TimeoutError:
                    continue
                thread = threading.Thread(target=_serve, args=(liar, connection))
                thread.start()
                threads.append(thread)

        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield liar
        finally:
            liar.stopped.set()
            accepting.join()
            for thread in threads:
                thread.join(5)


def _serve(liar: Liar, connection: socket.socket) -> None:
    connection.settimeout(0.05)
    with connection, contextlib.suppress(OSError):
        while not liar.stopped.is_set():
            request = _request(liar, connection)
            if not request:
                return
            script = liar.next(request)
            if isinstance(script, bytes):
                connection.sendall(script)
            else:
                script(connection)


def _request(liar: Liar, connection: socket.socket) -> bytes:
    content = b""
    while not liar.stopped.is_set():
        head, found, body = content.partition(b"\r\n\r\n")
        if found:
            lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
            if len(body) >= (int(lengths[0].split(b":")[1]) if lengths else 0):
                return content
        try:
            received = connection.recv(65536)
        except TimeoutError:
            continue
        if not received:
            return b""
        content += received
    return b""
