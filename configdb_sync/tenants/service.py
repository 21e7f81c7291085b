"""The service on sockets: gunicorn with threads, what must hold before it listens, and its check of itself."""

from __future__ import annotations

import logging
import os
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from logging.handlers import WatchedFileHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any

from configdb_sync.clock import SystemClock
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.errors import SettingsError
from configdb_sync.serving import Gunicorn, Listen, Transport, check_bindable, check_reach
from configdb_sync.tenants.access import Access
from configdb_sync.tenants.app import Application, usage
from configdb_sync.tenants.context import Context, Limits, NoPull, Pull
from configdb_sync.tenants.following import Connected, Following
from configdb_sync.tenants.opening import open_registry
from configdb_sync.tenants.page.chronicle import Chronicle
from configdb_sync.tenants.page.sessions import Sessions
from configdb_sync.tenants.registry import Registry

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

log = logging.getLogger(__name__)

PROBE = "/v1.0/%2F"
_BOOT_ERROR = 3
"""gunicorn stops as a whole when a worker ends with this code."""


@dataclass(frozen=True)
class Showing:
    """The status pages. ``sessions`` and ``public_sessions``: how one signs in at the two endpoints, where the public
    one has pages at all (None: it has none). ``secure``: browsers come over TLS."""

    chronicle: Callable[[Registry], Chronicle]
    sessions: Callable[[Access], Sessions | None]
    public_sessions: Callable[[Access], Sessions | None] | None = None
    secure: bool = False

    def application(self, context: Context, access: Access, *, public: bool = False) -> Application:
        """Return an endpoint with its pages, if it has any."""
        # Late: a service without pages needs no templates.
        from configdb_sync.tenants.page.pages import Pages

        sessions = self.public_sessions if public else self.sessions
        if sessions is None:
            return Application(replace(context, chronicle=None), access, SystemClock(), public=public)
        pages = Pages(context, access, sessions(access), SystemClock(), public=public, secure=self.secure)
        return Application(context, access, SystemClock(), public=public, pages=pages)


def _plain(context: Context, access: Access, *, public: bool = False) -> Application:
    return Application(context, access, SystemClock(), public=public)


@dataclass(frozen=True)
class Service:
    """All that a server process needs to be told. ``connect`` gives a client of ConfigDB and ``pull`` the status
    drivers, in each process."""

    admin: Listen
    access: Callable[[], Access]
    database_url: str
    transport: Transport = field(default_factory=Transport)
    limits: Limits = field(default_factory=Limits)
    listed: int = 100
    unguarded: bool = False
    connect: Callable[[], AbstractContextManager[ConfigDBClient]] | None = None
    pull: Callable[[Registry, Connected], Pull] = lambda _registry, _client: NoPull()
    usage_log: Path | None = None
    public: Listen | None = None
    public_access: Callable[[], Access] | None = None
    pages: Showing | None = None


def check(service: Service) -> None:
    """Raise ``SettingsError`` if the service would be open to whom it must not."""
    check_reach(service.admin, service.transport, unguarded=service.unguarded)
    if service.public is not None:
        check_reach(service.public, service.transport, unguarded=False)
        # They are told apart by the port that a request came in at.
        if service.public.port == service.admin.port != 0:
            raise SettingsError("--admin and --public have the same port", way_out="give them different ones")


def serve(service: Service, announce: Callable[[list[str]], None]) -> None:
    """Listen until SIGTERM or SIGINT; ``announce`` gets the URLs once the service has checked itself.

    Never returns but by ``SystemExit``: 0 after a clean stop. Raises ``SettingsError``, ``StateError`` before it
    listens.
    """
    check(service)
    check_bindable(service.admin, "--admin")
    if service.public is not None:
        check_bindable(service.public, "--public")
    if service.usage_log is not None:
        write_usage(service.usage_log)
    open_registry(service.database_url, connections=1).close()  # connections don't outlive a fork

    def make(ports: list[int]) -> tuple[Any, Any]:
        if service.usage_log is not None:
            write_usage(service.usage_log)
        registry = Registry(
            open_registry(service.database_url, connections=service.transport.threads + 1), listed=service.listed
        )
        context = Context(registry, service.limits)
        if service.connect is not None:
            client = Connected(service.connect)
            following = Following(registry, client, SystemClock())
            context = Context(registry, service.limits, following, service.pull(registry, client), client)
        made = _plain
        if service.pages is not None:
            context = replace(context, chronicle=service.pages.chronicle(registry))
            made = service.pages.application
        admin = made(context, service.access())
        if service.public is None or service.public_access is None:
            return admin, admin
        public = made(context, service.public_access(), public=True)
        return admin, Endpoints(ports[1], admin, public)

    def started(age: int, ports: list[int]) -> None:
        if age != 1:
            return
        places = [service.admin] if service.public is None else [service.admin, service.public]
        told = list(zip(places, ports, strict=True))
        arguments = (told, service.transport, announce)
        threading.Thread(target=_check_itself, args=arguments, daemon=True).start()

    listens = [service.admin] if service.public is None else [service.admin, service.public]
    Gunicorn("tenants", listens, service.transport, make, started=started).run()


def write_usage(path: Path) -> None:
    """Append a line of JSON for each request to a file of mode 0600; it may be rotated away (T14).

    Raises ``SettingsError`` if it can't be written.
    """
    try:
        path.touch(mode=0o600)
        handler = WatchedFileHandler(path, encoding="ascii", delay=False)
    except OSError as error:
        raise SettingsError(f"the usage log {path} can't be written: {error.strerror}") from None
    handler.setFormatter(logging.Formatter("%(message)s"))
    usage.handlers[:] = [handler]
    usage.setLevel(logging.INFO)
    usage.propagate = False


@dataclass(frozen=True)
class Endpoints:
    """The two endpoints in one process, told apart by the port that a request came in at, never by a header."""

    public_port: int
    admin: Application
    public: Application

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        public = environ["SERVER_PORT"] == str(self.public_port)
        return (self.public if public else self.admin)(environ, start_response)


def _check_itself(
    places: list[tuple[Listen, int]], transport: Transport, announce: Callable[[list[str]], None]
) -> None:
    """Announce if an encoded slash arrives as such; else end the service (T1)."""
    fault = None
    for listen, port in places:
        try:
            fault = fault or probe(listen.host, port, tls=transport.certificate is not None)
        except OSError as error:
            fault = f"it doesn't answer: {error}"
    if fault is None:
        announce([f"{transport.scheme}://{listen.address(port)}" for listen, port in places])
        return
    log.error("the service can't be reached as it must: %s", fault)
    sys.stderr.flush()
    os._exit(_BOOT_ERROR)


def probe(host: str, port: int, *, tls: bool, timeout: float = 10.0) -> str | None:
    """Return what is wrong with the way to a service, None if raw request targets arrive.

    Raises ``OSError`` if it can't be reached.
    """
    with socket.create_connection((host, port), timeout) as plain:
        connection: socket.socket = plain
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE  # nothing secret is sent: only whether it answers as it must
            connection = context.wrap_socket(plain)
        connection.sendall(f"GET {PROBE} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        answer = b""
        while len(answer) < 65536 and (part := connection.recv(65536)):
            answer += part
    if answer.startswith(b"HTTP/1.1 400 ") and b'"request_id"' in answer:
        return None
    line = answer.partition(b"\r\n")[0].decode("latin-1")[:80]
    return f"GET {PROBE} was answered with {line!r}, not with the service's own 400: a server or proxy decodes it"
