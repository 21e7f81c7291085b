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
from configdb_sync.tenants.app import TenantsApplication, refused, usage
from configdb_sync.tenants.outbox_worker import Connected, OutboxWorker
from configdb_sync.tenants.policy import Policy
from configdb_sync.tenants.proxy_check import probe
from configdb_sync.tenants.registry import Registry, open_registry
from configdb_sync.tenants.requests import ApiLimits, Context, PageHandler, StatusCalls
from configdb_sync.tenants.status_chain import Chain
from configdb_sync.web.access import Access, buckets
from configdb_sync.web.service import Gunicorn, GunicornOptions, Listen, check_bindable, check_reach

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment


log = logging.getLogger(__name__)

_BOOT_ERROR = 3
"""gunicorn stops as a whole when a worker ends with this code."""


class Site(Protocol):
    """What is added to the API in a process, for people."""

    def endpoint(
        self, context: Context, access: Access, *, public: bool, workers: int
    ) -> tuple[StatusCalls | None, PageHandler | None]:
        """Return an endpoint's status calls and pages, None if it has none; ``workers``: processes that have them."""


@dataclass(frozen=True)
class TenantsService:
    """All that a server process needs to be told. ``connect`` gives a client of ConfigDB, ``drivers`` the status
    drivers and ``policy`` the rules, in each process. ``rate``, ``admin_rate``: requests a second of one client at
    each endpoint, 0 for no limit; ``metrics_tenants``: how many tenants have metrics of their own."""

    admin: Listen
    access: Callable[[], Access]
    database_url: str
    transport: GunicornOptions = field(default_factory=GunicornOptions)
    limits: ApiLimits = field(default_factory=ApiLimits)
    listed: int = 100
    unguarded: bool = False
    connect: Callable[[], AbstractContextManager[ConfigDBClient]] | None = None
    drivers: Callable[[Registry, Connected], Chain | None] = lambda _registry, _client: None
    usage_log: Path | None = None
    public: Listen | None = None
    public_access: Callable[[], Access] | None = None
    site: Callable[[Registry], Site] | None = None
    policy: Callable[[], Policy] = lambda: Policy(SystemClock())
    rate: float = 0.0
    admin_rate: float = 0.0
    metrics_tenants: int = 100
    log_formatter: logging.Formatter | None = None


def check(service: TenantsService) -> None:
    """Raise ``SettingsError`` if the service would be open to whom it must not."""
    check_reach(service.admin, service.transport, unguarded=service.unguarded)
    if service.public is not None:
        check_reach(service.public, service.transport, unguarded=False)
        # They are told apart by the port that a request came in at.
        if service.public.port == service.admin.port != 0:
            raise SettingsError("--admin and --public have the same port", way_out="give them different ones")


def serve(service: TenantsService, announce: Callable[[list[str]], None]) -> None:
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


def _serve(service: TenantsService, announce: Callable[[list[str]], None], numbers: Path) -> None:
    listens = [service.admin] if service.public is None else [service.admin, service.public]

    def make(ports: list[int]) -> tuple[Any, Any]:
        if service.usage_log is not None:
            write_usage(service.usage_log)
        registry = Registry(
            open_registry(service.database_url, connections=service.transport.threads + 1), listed=service.listed
        )
        context, drivers = Context(registry, service.limits), None
        if service.connect is not None:
            client = Connected(service.connect)
            drivers = service.drivers(registry, client)
            worker = OutboxWorker(registry, client, SystemClock())
            context = Context(registry, service.limits, worker, drivers, client)
        failures = {} if drivers is None else drivers.failures
        context = replace(context, meter=metrics.Prometheus(numbers, service.metrics_tenants, lambda: failures))
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
        arguments = (list(zip(listens, ports, strict=True)), service.transport, announce)
        threading.Thread(target=_check_itself, args=arguments, daemon=True).start()

    Gunicorn(
        "tenants",
        listens,
        service.transport,
        make,
        refused=lambda refusal: refused(refusal, new_run_id()),
        body_limit=max(service.limits.body, _ANY_BODY),
        started=started,
        formatter=service.log_formatter,
    ).run()


_ANY_BODY = 1024 * 1024
"""Bytes of a body that a request without any may have, to be told so."""


def _endpoint(
    service: TenantsService,
    context: Context,
    policy: Policy,
    site: Site | None,
    public_access: Callable[[], Access] | None = None,
) -> TenantsApplication:
    """Return an endpoint: the public one with its own access, else the admin one."""
    clock, public = SystemClock(), public_access is not None
    access = service.access() if public_access is None else public_access()
    calls, pages = None, None
    if site is not None:
        calls, pages = site.endpoint(context, access, public=public, workers=service.transport.workers)
    return TenantsApplication(
        replace(context, status_calls=calls),
        access,
        clock,
        policy,
        public=public,
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
        raise SettingsError(
            f"the usage log {path} can't be written: {error.strerror}", way_out="name another with --usage-log"
        ) from None
    handler.setFormatter(logging.Formatter("%(message)s"))
    usage.handlers[:] = [handler]
    usage.setLevel(logging.INFO)
    usage.propagate = False


@dataclass(frozen=True)
class Endpoints:
    """The two endpoints in one process, told apart by the port that a request came in at, never by a header."""

    public_port: int
    admin: TenantsApplication
    public: TenantsApplication

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        public = environ["SERVER_PORT"] == str(self.public_port)
        return (self.public if public else self.admin)(environ, start_response)


def _check_itself(
    places: list[tuple[Listen, int]], transport: GunicornOptions, announce: Callable[[list[str]], None]
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
