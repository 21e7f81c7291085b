"""Transports: they carry one request to a peer and bring its answer, over HTTP or within this process (S05, S15)."""

from __future__ import annotations

import http.cookiejar
import io
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote_to_bytes

import requests
import urllib3

from configdb_sync import tls_errors
from configdb_sync.errors import ConnectionLostError, TLSError, UnexpectedAnswerError
from configdb_sync.http import urls
from configdb_sync.http.adapters import DeadlineAdapter, LedAwayError, TlsRedirectAdapter

_CHUNK = 256 * 1024


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


class HttpTransport:
    """One server at ``base``; each of at most ``workers`` threads keeps a connection to it.

    ``ca_file`` replaces the system's authorities; ``insecure`` turns verification off (U12: only by an explicit
    setting). ``any_name``: the certificate that ``ca_file`` verifies may have any name, since that file is the peer's
    own certificate. ``authority``: the option that names an authority, for errors. ``to_tls``: if an http address off
    loopback leads to https, requests go over https, and no token goes in clear (U12). Proxies are those of the
    environment (``https_proxy``, ``no_proxy``), never for loopback.
    """

    def __init__(
        self,
        base: str,
        *,
        limits: TransferLimits | None = None,
        workers: int = 4,
        ca_file: Path | None = None,
        insecure: bool = False,
        any_name: bool = False,
        authority: str,
        to_tls: bool = False,
    ) -> None:
        self._base = base
        self._authority = authority
        self._limits = limits or TransferLimits()
        self._session = requests.Session()
        self._session.cookies.set_policy(http.cookiejar.DefaultCookiePolicy(allowed_domains=[]))
        kind = TlsRedirectAdapter if to_tls and not urls.is_loopback(self._base) else DeadlineAdapter
        adapter = kind(self._limits.total, workers, any_name=any_name and ca_file is not None)
        self._session.mount("http://", adapter)
        self._session.mount("https://", adapter)
        verify: bool | str = str(ca_file) if ca_file is not None else not insecure
        self._options = self._session.merge_environment_settings(self._base, {}, True, verify, None)
        if urls.is_loopback(self._base):
            self._options["proxies"] = {}
        if insecure and ca_file is None:
            self._options["verify"] = False
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)

    @property
    def base(self) -> str:
        """The server's address without credentials."""
        return self._base

    def send(self, request: HttpRequest) -> HttpAnswer:
        """See ``Transport.send``."""
        made = requests.Request(
            request.method,
            self._base + request.path,
            headers={"Accept-Encoding": "identity", "User-Agent": "configdb-sync", **request.headers},
            data=request.body,
        )
        timeout = (self._limits.connect, self._limits.read)
        try:
            prepared = made.prepare()
            with self._session.send(prepared, timeout=timeout, allow_redirects=False, **self._options) as response:
                headers = {name.lower(): value for name, value in response.headers.items()}
                return HttpAnswer(response.status_code, headers, self._body(response))
        except requests.exceptions.SSLError as error:
            what, way_out = tls_errors.explain(error, self._authority)
            raise TLSError(f"{self._base}: {what}; nothing was sent", way_out=way_out) from None
        except LedAwayError as error:
            raise UnexpectedAnswerError(f"{self._base}: {error}", way_out="give the address that it leads to") from None
        except (requests.exceptions.InvalidURL, UnicodeError, requests.exceptions.InvalidHeader) as error:
            raise UnexpectedAnswerError(
                f"{self._base}: the request can't be made ({tls_errors.reason(error)})"
            ) from None
        except (requests.exceptions.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
            raise ConnectionLostError(f"{self._base}: {tls_errors.reason(error)}") from None

    def _body(self, response: requests.Response) -> bytes:
        if response.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise UnexpectedAnswerError(f"{self._base} answered in an encoding that wasn't asked for")
        chunks: list[bytes] = []
        size = 0
        for chunk in response.iter_content(_CHUNK):
            size += len(chunk)
            if size > self._limits.answer:
                raise UnexpectedAnswerError(
                    f"{self._base} answered more than the {self._limits.answer} bytes that are read of it"
                )
            chunks.append(chunk)
        return b"".join(chunks)

    def close(self) -> None:
        """Close the kept connections."""
        self._session.close()


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
