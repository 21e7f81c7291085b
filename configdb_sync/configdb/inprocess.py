"""The way to the embedded ConfigDB in this process: its WSGI application, called without a socket."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import unquote_to_bytes

from configdb_sync.configdb.exchange import Answer, Request

WSGIApplication = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class InProcessExchange:
    """Calls ``application`` in the caller's thread; ``shutdown`` is called at ``close``."""

    def __init__(self, application: WSGIApplication, shutdown: Callable[[], None] | None = None) -> None:
        self._application = application
        self._shutdown = shutdown

    @property
    def base(self) -> str:
        """A text that says which server this is; there is no address."""
        return "embedded:"

    def send(self, request: Request) -> Answer:
        """See ``Exchange.send``; what the application raises comes through."""
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
        return Answer(int(status[:3]), {name.lower(): value for name, value in headers}, b"".join(written))

    def close(self) -> None:
        """Let the application give back its database connections."""
        if self._shutdown is not None:
            self._shutdown()


def _environ(request: Request) -> dict[str, Any]:
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
