"""The server on a socket: gunicorn with threads, and what must hold before it listens."""

from __future__ import annotations

import ipaddress
import logging
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gunicorn.app.base import BaseApplication

from configdb_sync.configdb.server.access import Access, OpenAccess
from configdb_sync.configdb.server.app import Application, create_app
from configdb_sync.configdb.server.call import Limits
from configdb_sync.configdb.server.keystone import Guard, guarded
from configdb_sync.configdb.server.opening import open_configdb
from configdb_sync.errors import SettingsError

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

log = logging.getLogger(__name__)

_STOP_SECONDS = 10


@dataclass(frozen=True)
class Listen:
    """Where to listen; port 0 has the system choose one."""

    host: str
    port: int

    @property
    def loopback(self) -> bool:
        """Tell whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def address(self, port: int | None = None) -> str:
        """Return host and port as a URL has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port if port is None else port}"


@dataclass(frozen=True)
class Service:
    """All that a server process needs to be told. ``certificate`` and ``key`` are PEM files, both or none."""

    listen: Listen
    access: Access | Guard
    database_url: str
    certificate: Path | None = None
    key: Path | None = None
    behind_proxy: bool = False
    workers: int = 2
    threads: int = 4
    limits: Limits = field(default_factory=Limits)


def read_listen(text: str) -> Listen:
    """Return ``HOST:PORT`` (``[::1]:8082`` for IPv6). Raises ``SettingsError``."""
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if not (host and colon and port.isascii() and port.isdigit() and int(port) < 65536):
        raise SettingsError(
            f"--listen {text!r} is no HOST:PORT", way_out="for example 127.0.0.1:8082, or [::1]:8082; port 0 takes any"
        )
    return Listen(host, int(port))


def check(service: Service) -> None:
    """Raise ``SettingsError`` if the server would be open to whom it must not: it holds every password of a cloud."""
    if (service.certificate is None) != (service.key is None):
        raise SettingsError("TLS needs both a certificate and a key", way_out="give --tls-cert and --tls-key")
    if isinstance(service.access, OpenAccess) and (not service.listen.loopback or service.behind_proxy):
        raise SettingsError(
            f"--auth none would give every password to whoever reaches {service.listen.address()}",
            way_out="use --auth token, or listen on 127.0.0.1 without a proxy",
        )
    if not service.listen.loopback and service.certificate is None and not service.behind_proxy:
        raise SettingsError(
            f"passwords would cross the network in clear at {service.listen.address()}",
            way_out="give --tls-cert and --tls-key, or --behind-proxy if a proxy does TLS, or listen on 127.0.0.1",
        )
    if service.certificate is not None and service.key is not None:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(service.certificate, service.key, password=_none)
        except (OSError, ValueError) as error:
            raise SettingsError(f"the certificate {service.certificate} and its key can't be used: {error}") from None


def serve(service: Service, announce: Callable[[str], None]) -> None:
    """Listen until SIGTERM or SIGINT; ``announce`` gets the URL once connections are taken.

    Never returns but by ``SystemExit``: 0 after a clean stop. Raises ``SettingsError``, ``StateError`` before it
    listens.
    """
    check(service)
    _bindable(service.listen)
    open_configdb(service.database_url, connections=1).close()  # connections don't outlive a fork
    _Gunicorn(service, announce).run()


class _Gunicorn(BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    def __init__(self, service: Service, announce: Callable[[str], None]) -> None:
        self._service = service
        self._announce = announce
        self._application: Application | None = None  # a worker's own
        super().__init__()

    def load_config(self) -> None:
        service = self._service
        settings: dict[str, Any] = {
            "bind": service.listen.address(),
            "worker_class": "gthread",
            "workers": service.workers,
            "threads": service.threads,
            "limit_request_line": 8190,
            "limit_request_fields": 64,
            "keepalive": 75,
            "graceful_timeout": _STOP_SECONDS,
            "loglevel": "warning",
            "proc_name": "configdb",
            "umask": 0o077,
            "when_ready": self._ready,
            "worker_exit": self._done,
        }
        if service.certificate is not None:
            settings.update(certfile=str(service.certificate), keyfile=str(service.key))
        # Newer releases open a control socket in the user's home, and there may be none.
        if "control_socket_disable" in self.cfg.settings:
            settings["control_socket_disable"] = True
        for name, value in settings.items():
            self.cfg.set(name, value)

    def load(self) -> WSGIApplication:
        service = self._service
        access = service.access.access if isinstance(service.access, Guard) else service.access
        self._application = application = create_app(
            service.database_url, access=access, limits=service.limits, connections=service.threads
        )
        return guarded(application, service.access) if isinstance(service.access, Guard) else application

    def _done(self, _arbiter: Any, _worker: Any) -> None:
        if self._application is not None:
            self._application.close()

    def _ready(self, arbiter: Any) -> None:
        scheme = "http" if self._service.certificate is None else "https"
        port = arbiter.LISTENERS[0].sock.getsockname()[1]
        self._announce(f"{scheme}://{self._service.listen.address(port)}")


def _bindable(listen: Listen) -> None:
    # gunicorn would try five times and end with a log line; asked here, it is an error that names the address.
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            listen.host, listen.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        raise SettingsError(
            f"{listen.address()} can't be listened on: {error.strerror}", way_out="choose another --listen"
        ) from None


def _none() -> bytes:
    # An encrypted key would otherwise stop at a prompt on the terminal.
    return b""
