"""What carries one request to a peer and brings its answer, and how that is done within this process (S15)."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import unquote_to_bytes


@dataclass(frozen=True)
class HttpRequest:
    """``path`` is below the server's base, percent-encoded, with its query. Headers may hold a token: never shown."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True)
class HttpAnswer:
    """Status, headers (names in lower case) and the whole body."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class TransferLimits:
    """Bounds of one request: seconds to connect, seconds without a byte, seconds in all, bytes of the answer."""

    connect: float = 5.0
    read: float = 60.0
    total: float = 180.0
    answer: int = 64 * 1024 * 1024


class Transport(Protocol):
    """Carries requests to one server. Safe for several threads."""

    @property
    def base(self) -> str:
        """The server's address, fit to be shown."""

    def send(self, request: HttpRequest) -> HttpAnswer:
        """Carry out one request, once, without following redirects.

        Raises ``ConnectionLostError`` if no whole answer came in time, ``TLSError`` if the peer couldn't be verified,
        ``UnexpectedAnswerError`` if the answer is larger than the limit or isn't HTTP.
        """

    def close(self) -> None:
        """Close the kept connections."""


WSGIApplication = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class InProcessTransport:
    """Calls ``application`` in the caller's thread; ``shutdown`` is called at ``close``."""

    def __init__(self, application: WSGIApplication, shutdown: Callable[[], None] | None = None) -> None:
        self._application = application
        self._shutdown = shutdown

    @property
    def base(self) -> str:
        """The text that stands for this server; it has no address."""
        return "embedded:"

    def send(self, request: HttpRequest) -> HttpAnswer:
        """See ``Transport.send``; what the application raises comes through."""
        started: list[tuple[str, list[tuple[str, str]]]] = []
        written: list[bytes] = []

        def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Callable[[bytes], Any]:
            if exc_info is not None and started:
                started.clear()
            started.append((status, headers))
            return written.append

        chunks = self._application(_environ(request), start_response)
        try:
            written.extend(chunks)
        finally:
            close = getattr(chunks, "close", None)
            if close is not None:
                close()
        status, headers = started[-1]
        return HttpAnswer(int(status[:3]), {name.lower(): value for name, value in headers}, b"".join(written))

    def close(self) -> None:
        """Close the application, with its database connections."""
        if self._shutdown is not None:
            self._shutdown()


def _environ(request: HttpRequest) -> dict[str, Any]:
    path, _, query = request.path.partition("?")
    body = request.body or b""
    environ: dict[str, Any] = {
        "REQUEST_METHOD": request.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(path).decode("latin-1"),
        "REQUEST_URI": request.path,
        "RAW_URI": request.path,
        "QUERY_STRING": query,
        "SERVER_NAME": "embedded",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1",
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    for name, value in request.headers.items():
        key = name.upper().replace("-", "_")
        environ[key if key == "CONTENT_TYPE" else f"HTTP_{key}"] = value
    return environ
