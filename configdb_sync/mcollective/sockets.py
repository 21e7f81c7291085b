"""A connected socket that never waits longer than it is told to, in plain or over TLS.

It is used by one thread at a time and never blocks by itself: every wait is a poll with an end.
"""

from __future__ import annotations

import select
import socket
import ssl
from collections.abc import Callable

from configdb_sync.mcollective.settings import Host, Tls

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
    secured = context(host.tls).wrap_socket(sock, server_hostname=host.name, do_handshake_on_connect=False)
    try:
        while True:
            try:
                secured.do_handshake()
            except ssl.SSLWantReadError:
                wait(secured, select.POLLIN, deadline - clock())
            except ssl.SSLWantWriteError:
                wait(secured, select.POLLOUT, deadline - clock())
            else:
                return secured
    except BaseException:
        secured.close()
        raise


def context(tls: Tls) -> ssl.SSLContext:
    """Return what TLS is done with. Raises ``OSError`` that names the file which can't be used."""
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


def wait(sock: socket.socket, event: int, seconds: float) -> None:
    """Return when ``sock`` is ready. Raises ``TimeoutError`` after ``seconds``."""
    if not ready(sock, event, seconds):
        raise TimeoutError("timed out")


def ready(sock: socket.socket, event: int, seconds: float) -> bool:
    """Tell whether ``sock`` got ready for reading or writing within ``seconds``."""
    poll = select.poll()
    poll.register(sock, event)
    return bool(poll.poll(max(0.0, seconds) * 1000))


def receive(sock: socket.socket) -> bytes | None:
    """Return what has come: some bytes, none at the end, None if there is nothing now. Raises ``OSError``."""
    try:
        return sock.recv(CHUNK)
    except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
        return None


def send(sock: socket.socket, content: memoryview) -> int:
    """Send what goes now; return how many bytes that were. Raises ``OSError``."""
    try:
        return sock.send(content[:CHUNK])
    except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
        return 0
