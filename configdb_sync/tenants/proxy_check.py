"""Checks the way to a service (T1): raw request targets must arrive, long ones too, and answers unchanged.

The requests need no token and change nothing, whatever a proxy turns them into.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from dataclasses import dataclass

from configdb_sync.tenants.paths import ResourcePath

_LONGEST = 65536
_SECONDS = 10.0
_LONG = ResourcePath("\U0001f600" * 255).move_url("\U0001f601" * 255)


_COMPRESSED = "a proxy compresses answers: their ETags change, and a conditional move never matches"


@dataclass(frozen=True)
class Probe:
    """A target, the statuses of the service's own answer, and what another status means."""

    target: str
    statuses: frozenset[int]
    otherwise: str


_PROBES = (
    Probe("/v1.0/%2F", frozenset({400}), "a server or proxy decodes it"),
    Probe("/v1.0/a%2Fb", frozenset({400}), "a server or proxy decodes it: another tenant would be asked"),
    Probe("/v1.0/%2E%2E/healthz", frozenset({404}), "a server or proxy resolves dots"),
    Probe("/v1.0/../healthz", frozenset({404}), "a server or proxy resolves dots"),
    Probe("//healthz", frozenset({404}), "a server or proxy merges slashes"),
    Probe("/v1.0//healthz", frozenset({400}), "a server or proxy merges slashes"),
    Probe(_LONG, frozenset({401, 404}), "a server or proxy takes no request line of two long tenant IDs"),
)


def probe(host: str, port: int, *, tls: bool, whole: bool = True) -> str | None:
    """Return what is wrong with the way to a service, None if nothing.

    Without ``whole`` only the server is checked: does it pass raw targets? Raises ``OSError`` if it can't be reached.
    """
    for one in _PROBES if whole else _PROBES[:1]:
        line, head, body = _asked(host, port, one.target, tls=tls)
        if b"content-encoding:" in head:
            return _COMPRESSED
        status = int(line[9:12]) if line.startswith("HTTP/1.1 ") and line[9:12].isdigit() else 0
        if status in one.statuses and b'"request_id"' in body and b"x-openstack-request-id:" in head:
            continue
        wanted = "/".join(map(str, sorted(one.statuses)))
        target = one.target if len(one.target) < 80 else f"{one.target[:40]}... ({len(one.target)} characters)"
        return f"GET {target} was answered with {line!r}, not with the service's own {wanted}: {one.otherwise}"
    compressed = whole and b"content-encoding:" in _asked(host, port, "/openapi.json", tls=tls)[1]
    return _COMPRESSED if compressed else None


def _asked(host: str, port: int, target: str, *, tls: bool) -> tuple[str, bytes, bytes]:
    """Return the status line, the header lines in lower case and the body of an answer."""
    lines = [f"GET {target} HTTP/1.1", f"Host: {host}", "Accept-Encoding: gzip", "Connection: close", "", ""]
    request = "\r\n".join(lines).encode("ascii")
    with socket.create_connection((host, port), _SECONDS) as plain:
        if not tls:
            answer = _exchanged(plain, request)
        else:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE  # nothing secret is sent
            with context.wrap_socket(plain, server_hostname=host) as connection:
                answer = _exchanged(connection, request)
    head, _, body = answer.partition(b"\r\n\r\n")
    line, _, rest = head.partition(b"\r\n")
    return line.decode("latin-1")[:80], rest.lower(), body


def _exchanged(connection: socket.socket, request: bytes) -> bytes:
    connection.sendall(request)
    answer = b""
    # Not all peers end TLS correctly; the data received until then are used.
    with contextlib.suppress(ssl.SSLEOFError):
        while len(answer) < _LONGEST and (part := connection.recv(_LONGEST)):
            answer += part
    return answer
