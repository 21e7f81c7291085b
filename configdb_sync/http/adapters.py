"""Adapters for requests: calls that end in time, and no secret in clear to a peer that offers TLS (S05, U12).

A socket's time limit starts anew with each byte received, so a peer that sends a byte now and then could delay a call
for ever. Here every read of an answer, headers included, gets at most the rest of the call's total time.
"""

from __future__ import annotations

import io
import time
from http.client import HTTPResponse
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from configdb_sync.http.urls import REDIRECTS, https_target, shown

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable


class _DeadlineReader(io.RawIOBase):
    """Reads a socket; each read waits at most until the deadline."""

    def __init__(self, sock: socket.socket, raw: Any, deadline: float, clock: Callable[[], float]) -> None:
        self._sock = sock
        self._raw = raw
        self._deadline = deadline
        self._clock = clock

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._deadline - self._clock()
        if left <= 0:
            raise TimeoutError("timed out: the answer took too long in all")
        limit = self._sock.gettimeout()
        if limit is None or limit > left:
            self._sock.settimeout(left)
        count: int | None = self._raw.readinto(buffer)
        return count

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()


class _DeadlineConnection:
    """What both connection classes add: the total starts when a request is sent."""

    total: float
    clock: Callable[[], float]
    sock: socket.socket | None
    connect: Callable[[], None]
    _deadline: float = float("inf")

    def putrequest(self, *args: Any, **options: Any) -> None:
        self._deadline = self.clock() + self.total
        super().putrequest(*args, **options)  # type: ignore[misc]

    def send(self, data: Any) -> None:
        # The socket has the limit for connecting, or what was left of an earlier answer: a large body may take longer.
        if self.sock is None:
            self.connect()
        if self.sock is not None:
            self.sock.settimeout(max(self._deadline - self.clock(), 0.001))
        super().send(data)  # type: ignore[misc]

    def response_class(self, sock: socket.socket, **options: Any) -> HTTPResponse:
        response = HTTPResponse(sock, **options)
        raw = response.fp.detach()
        response.fp = io.BufferedReader(_DeadlineReader(sock, raw, self._deadline, self.clock), 64 * 1024)
        return response


class DeadlineAdapter(HTTPAdapter):
    """A requests adapter whose calls end ``total`` seconds after they were sent, whatever the peer does.

    ``any_name``: a certificate that is trusted may name another host.
    """

    def __init__(
        self,
        total: float,
        connections: int,
        clock: Callable[[], float] = time.monotonic,
        *,
        any_name: bool = False,
    ) -> None:
        self._total = total
        self._clock = clock
        self._tls: dict[str, Any] = {"assert_hostname": False} if any_name else {}
        super().__init__(pool_connections=1, pool_maxsize=connections, pool_block=False, max_retries=0)

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        """Make the pools of ending connections."""
        options |= self._tls
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = self._pools()

    def proxy_manager_for(self, *args: Any, **options: Any) -> Any:
        """Return a proxy's pools, of ending connections too."""
        manager = super().proxy_manager_for(*args, **options)
        manager.pool_classes_by_scheme = self._pools()
        return manager

    def _pools(self) -> dict[str, type[HTTPConnectionPool]]:
        settings = {"total": self._total, "clock": staticmethod(self._clock)}
        plain = type("EndingHTTPConnection", (_DeadlineConnection, HTTPConnection), settings)
        secure = type("EndingHTTPSConnection", (_DeadlineConnection, HTTPSConnection), settings)
        return {
            "http": type("EndingHTTPPool", (HTTPConnectionPool,), {"ConnectionCls": plain}),
            "https": type("EndingHTTPSPool", (HTTPSConnectionPool,), {"ConnectionCls": secure}),
        }


_KEPT = frozenset({"accept", "accept-encoding", "connection", "user-agent"})


class LedAwayError(requests.exceptions.RequestException):
    """A plain http address leads to https elsewhere. Its text is fit to be shown; nothing secret was sent."""


class TlsRedirectAdapter(DeadlineAdapter):
    """An adapter that carries out requests for a plain http address over https, if that is where the address leads.

    The first request to a server is sent without body and secrets. If the answer leads to https on the same host, this
    request and all later ones go there; if it leads to https elsewhere, ``LedAwayError`` is raised.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._leads: dict[str, str] = {}

    def send(self, request: requests.PreparedRequest, *args: Any, **options: Any) -> requests.Response:
        """Send a request where it belongs."""
        server, path = _split(request.url or "")
        if not server.startswith("http://"):
            return super().send(request, *args, **options)
        if server not in self._leads:
            bare = _bare(request)
            answer = super().send(bare, *args, **options)
            self._leads[server] = _lead(bare.url or "", answer) or server
            if self._leads[server] == server and not _tells(request):
                return answer
            answer.close()
        if self._leads[server] != server:
            request = request.copy()
            request.url = self._leads[server] + path
        return super().send(request, *args, **options)


def _split(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    server = f"{parts.scheme}://{parts.netloc}"
    return server, url[len(server) :]


def _tells(request: requests.PreparedRequest) -> bool:
    """Whether a request carries something that another one for its address wouldn't."""
    return request.method != "GET" or bool(request.body) or any(name.lower() not in _KEPT for name in request.headers)


def _bare(request: requests.PreparedRequest) -> requests.PreparedRequest:
    headers = {name: value for name, value in request.headers.items() if name.lower() in _KEPT}
    return requests.Request("GET", request.url, headers=headers).prepare()


def _lead(url: str, answer: requests.Response) -> str | None:
    location = answer.headers.get("Location", "")
    if answer.status_code not in REDIRECTS or not location:
        return None
    found = https_target(url, location)
    if found is None and answer.status_code != 308 and location.lower().startswith("https:"):
        answer.close()
        raise LedAwayError(f"it leads to {shown(location)[:120]}, which isn't followed: nothing secret was sent")
    return found
