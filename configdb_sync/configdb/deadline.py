"""HTTP connections with an end: a peer that sends a byte now and then can't hold a call for ever.

A socket's time limit starts anew with each byte received. Here every read of an answer, headers included, gets no more
than what is left of the call's total.
"""

from __future__ import annotations

import io
import time
from http.client import HTTPResponse
from typing import TYPE_CHECKING, Any

from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable


class _Reader(io.RawIOBase):
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


class _Ending:
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
        response.fp = io.BufferedReader(_Reader(sock, raw, self._deadline, self.clock), 64 * 1024)
        return response


class EndingAdapter(HTTPAdapter):
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
        plain = type("EndingHTTPConnection", (_Ending, HTTPConnection), settings)
        secure = type("EndingHTTPSConnection", (_Ending, HTTPSConnection), settings)
        return {
            "http": type("EndingHTTPPool", (HTTPConnectionPool,), {"ConnectionCls": plain}),
            "https": type("EndingHTTPSPool", (HTTPSConnectionPool,), {"ConnectionCls": secure}),
        }
