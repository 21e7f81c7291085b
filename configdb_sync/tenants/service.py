"""The service on sockets: gunicorn with threads, what must hold before it listens, and its check of itself."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from io import TextIOWrapper
from logging.handlers import WatchedFileHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from configdb_sync.clock import SystemClock, new_run_id
from configdb_sync.closed_files import unsafe_way
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.errors import SettingsError
from configdb_sync.tenants import metrics
from configdb_sync.tenants.access import Access
from configdb_sync.tenants.answers import refused
from configdb_sync.tenants.app import Application, usage
from configdb_sync.tenants.context import Context, Limits, NoPull, Pages, Pull, StatusCalls
from configdb_sync.tenants.following import Connected, Following
from configdb_sync.tenants.limiting import buckets
from configdb_sync.tenants.opening import open_registry
from configdb_sync.tenants.policy import Policy
from configdb_sync.tenants.probing import probe
from configdb_sync.tenants.registry import Registry
from configdb_sync.web.refusals import refuse
from configdb_sync.web.service import Gunicorn, Listen, Transport, check_bindable, check_reach

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment


log = logging.getLogger(__name__)

_BOOT_ERROR = 3
"""gunicorn stops as a whole when a worker ends with this code."""


class Site(Protocol):
    """What is added to the API in a process, for people."""

    def endpoint(
        self, context: Context, access: Access, *, public: bool, workers: int
    ) -> tuple[StatusCalls | None, Pages | None]:
        """Return an endpoint's status calls and pages, None if it has none; ``workers``: processes that have them."""


@dataclass(frozen=True)
class Service:
    """All that a server process needs to be told. ``connect`` gives a client of ConfigDB, ``pull`` the status
    drivers and ``policy`` the rules, in each process. ``rate``, ``admin_rate``: requests a second of one client at
    each endpoint, 0 for no limit; ``metrics_tenants``: how many tenants have metrics of their own."""

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
    site: Callable[[Registry], Site] | None = None
    policy: Callable[[], Policy] = lambda: Policy(SystemClock())
    rate: float = 0.0
    admin_rate: float = 0.0
    metrics_tenants: int = 100
    log_formatter: logging.Formatter | None = None


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

    with metrics.folder() as numbers:
        _serve(service, announce, numbers)


def _serve(service: Service, announce: Callable[[list[str]], None], numbers: Path) -> None:
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
        pull = context.pull
        context = replace(context, meter=metrics.Prometheus(numbers, service.metrics_tenants, lambda: pull.failures))
        site = None if service.site is None else service.site(registry)
        policy = service.policy()
        admin = _endpoint(service, context, policy, site)
        if service.public is None or service.public_access is None:
            return admin, admin
        public = _endpoint(service, context, policy, site, service.public_access)
        return admin, Endpoints(ports[1], admin, public)

    def started(age: int, ports: list[int]) -> None:
        if age != 1:
            return
        places = [service.admin] if service.public is None else [service.admin, service.public]
        told = list(zip(places, ports, strict=True))
        arguments = (told, service.transport, announce)
        threading.Thread(target=_check_itself, args=arguments, daemon=True).start()

    listens = [service.admin] if service.public is None else [service.admin, service.public]
    Gunicorn(
        "tenants",
        listens,
        service.transport,
        make,
        refusal=refusal,
        body_limit=max(service.limits.body, _ANY_BODY),
        started=started,
        formatter=service.log_formatter,
    ).run()


_ANY_BODY = 1024 * 1024
"""Bytes of a body that a request without any may have, to be told so."""
_REFUSALS = {
    408: "the request came too slowly",
    413: "the body is too large, or comes in more than 100000 chunks",
    414: "the request line is longer than the 8190 characters that are taken",
    417: "no such expectation can be met",
    431: "the headers are too long, or more than 64",
    500: "the service failed; its log tells more",
    501: "no such transfer coding is taken",
}


def refusal(status: int) -> tuple[bytes, bytes]:
    """Return head and body of the answer where the server itself refuses a request, in the one shape of errors."""
    identity = new_run_id()
    answer = refused(refuse(status, _REFUSALS.get(status, "the request isn't HTTP as it is taken here")), identity)
    headers, body = answer.started(identity, head=False)
    lines = [f"HTTP/1.1 {answer.reason}", *(f"{name}: {value}" for name, value in headers), "Connection: close", "", ""]
    return "\r\n".join(lines).encode("latin-1"), b"".join(body)


def _endpoint(
    service: Service,
    context: Context,
    policy: Policy,
    site: Site | None,
    public_access: Callable[[], Access] | None = None,
) -> Application:
    """Return an endpoint: the public one with its own access, else the admin one."""
    clock, public = SystemClock(), public_access is not None
    access = service.access() if public_access is None else public_access()
    calls, pages = None, None
    if site is not None:
        calls, pages = site.endpoint(context, access, public=public, workers=service.transport.workers)
    return Application(
        replace(context, status_calls=calls),
        access,
        clock,
        public=public,
        policy=policy,
        buckets=buckets(clock, service.rate if public else service.admin_rate),
        behind_proxy=service.transport.behind_proxy,
        pages=pages,
    )


class _OwnersFile(WatchedFileHandler):
    """A log file that is its owner's alone, the one too that is made anew after it was rotated away."""

    def _open(self) -> TextIOWrapper:
        handle = os.open(self.baseFilename, os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        return TextIOWrapper(os.fdopen(handle, "ab"), encoding=self.encoding)


def write_usage(path: Path) -> None:
    """Append a line of JSON for each request to a file of mode 0600; it may be rotated away (T14).

    Raises ``SettingsError`` if it can't be written, or another user can say where it leads.
    """
    try:
        if why := unsafe_way(path.absolute()):
            raise SettingsError(f"the usage log {path} is unsafe: {why}", way_out="choose another folder")
        path.touch(mode=0o600)
        handler = _OwnersFile(path, encoding="ascii", delay=False)
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
            fault = fault or probe(listen.host, port, tls=transport.certificate is not None, whole=False)
        except OSError as error:
            fault = f"it doesn't answer: {error}"
    if fault is None:
        announce([f"{transport.scheme}://{listen.address(port)}" for listen, port in places])
        return
    log.error("the service can't be reached as it must: %s", fault)
    sys.stderr.flush()
    os._exit(_BOOT_ERROR)
