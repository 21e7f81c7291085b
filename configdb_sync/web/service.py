"""A service as a process: where it listens, who may reach it, how gunicorn runs it, and its log lines.

A log line names the request that its thread is at work on, also where a library logs: the formatter looks the request
up when it makes the line. Threads that work for a request run in a copy of its context.
"""

from __future__ import annotations

import ipaddress
import json
import logging
import resource
import socket
import ssl
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gunicorn.app.base import BaseApplication
from gunicorn.glogging import Logger
from werkzeug.wrappers import Response

from configdb_sync.errors import SettingsError
from configdb_sync.web.refusals import FAILED, RefusalError, refuse

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
class GunicornOptions:
    """How a service is reached. ``certificate`` and ``key`` are PEM files, both or none."""

    certificate: Path | None = None
    key: Path | None = None
    behind_proxy: bool = False
    workers: int = 2
    threads: int = 4

    @property
    def scheme(self) -> str:
        """``http`` or ``https``."""
        return "http" if self.certificate is None else "https"


def read_listen(text: str, flag: str = "--listen") -> Listen:
    """Return ``HOST:PORT`` (``[::1]:8082`` for IPv6). Raises ``SettingsError``."""
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if not (host and colon and port.isascii() and port.isdigit() and int(port) < 65536):
        raise SettingsError(
            f"{flag} {text!r} is no HOST:PORT", way_out="for example 127.0.0.1:8082, or [::1]:8082; port 0 takes any"
        )
    return Listen(host, int(port))


def check_reach(listen: Listen, transport: GunicornOptions, *, unguarded: bool) -> None:
    """Raise ``SettingsError`` if a service would be open to whom it must not; ``unguarded``: it asks for no token."""
    certificate, key = transport.certificate, transport.key
    if (certificate is None) != (key is None):
        raise SettingsError("TLS needs both a certificate and a key", way_out="give --tls-cert and --tls-key")
    if unguarded and (not listen.loopback or transport.behind_proxy):
        raise SettingsError(
            f"--auth none would give every password to whoever reaches {listen.address()}",
            way_out="use --auth token, or listen on 127.0.0.1 without a proxy",
        )
    if not listen.loopback and certificate is None and not transport.behind_proxy:
        raise SettingsError(
            f"passwords would cross the network in clear at {listen.address()}",
            way_out="give --tls-cert and --tls-key, or --behind-proxy if a proxy does TLS, or listen on 127.0.0.1",
        )
    if certificate is not None and key is not None:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password=_none)
        except (OSError, ValueError) as error:
            raise SettingsError(
                f"the certificate {certificate} and its key can't be used: {error}",
                way_out="give both in PEM form, the key without a password",
            ) from None


def check_bindable(listen: Listen, flag: str = "--listen") -> None:
    """Raise ``SettingsError`` if an address can't be listened on."""
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
            f"{listen.address()} can't be listened on: {error.strerror}", way_out=f"choose another {flag}"
        ) from None


class Gunicorn(BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    """A service under gunicorn, with threads; ``run`` never returns but by ``SystemExit``.

    ``make`` gives, in each worker, what is to be closed at its end and the WSGI application, from the ports that are
    listened on; ``ready`` is called once in the parent, ``started`` in each worker, with the ports. ``formatter``
    makes gunicorn's own log lines. ``refused`` makes the answers by which the server itself refuses a request, in the
    service's one shape of errors; ``body_limit`` is how many bytes of a body are waited for: beyond that the
    application gets none.
    """

    def __init__(
        self,
        name: str,
        listen: list[Listen],
        transport: GunicornOptions,
        make: Callable[[list[int]], tuple[Any, Any]],
        *,
        refused: Callable[[RefusalError], Response],
        body_limit: int,
        ready: Callable[[list[int]], None] | None = None,
        started: Callable[[int, list[int]], None] | None = None,
        formatter: logging.Formatter | None = None,
    ) -> None:
        self._name = name
        self._refused = refused
        self.body_limit = body_limit
        self._formatter = formatter
        self._listen = listen
        self._transport = transport
        self._make = make
        self._on_ready = ready
        self._on_started = started
        self._ports: list[int] = []
        self._made: Any = None  # a worker's own
        super().__init__()

    def load_config(self) -> None:
        """Give gunicorn its settings."""
        transport = self._transport
        settings: dict[str, Any] = {
            "bind": [listen.address() for listen in self._listen],
            "worker_class": "configdb_sync.web.worker.Worker",
            "workers": transport.workers,
            "threads": transport.threads,
            "limit_request_line": 8190,
            "limit_request_fields": 64,
            "http_parser": "python",
            # No header says which scheme, path or address a request had; what a proxy tells is read by the services.
            "forwarded_allow_ips": "",
            "secure_scheme_headers": {},
            "forwarder_headers": "",
            "worker_connections": min(1000, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2),
            "keepalive": 75,
            "graceful_timeout": _STOP_SECONDS,
            "loglevel": "warning",
            "proc_name": self._name,
            "umask": 0o077,
            "when_ready": self._ready,
            "post_worker_init": self._started,
            "worker_exit": self._ended,
        }
        if transport.certificate is not None:
            settings.update(certfile=str(transport.certificate), keyfile=str(transport.key))
        # Newer releases open a control socket in the user's home, and there may be none.
        if "control_socket_disable" in self.cfg.settings:
            settings["control_socket_disable"] = True
        if self._formatter is not None:
            settings["logger_class"] = _logger(self._formatter)
        for name, value in settings.items():
            self.cfg.set(name, value)

    def refusal(self, status: int) -> bytes:
        """Return the answer by which the server itself refuses a request."""
        return refusal_bytes(self._refused, status)

    def load(self) -> Any:
        """Return the application, in a worker."""
        self._made, application = self._make(self._ports)
        return application

    def _ready(self, arbiter: Any) -> None:
        self._ports = [listener.sock.getsockname()[1] for listener in arbiter.LISTENERS]
        if self._on_ready is not None:
            self._on_ready(self._ports)

    def _started(self, worker: Any) -> None:
        if self._on_started is not None:
            self._on_started(worker.age, self._ports)

    def _ended(self, _arbiter: Any, _worker: Any) -> None:
        if self._made is not None:
            self._made.close()


def _logger(formatter: logging.Formatter) -> type[Logger]:
    class Formatted(Logger):  # type: ignore[misc]  # gunicorn has no types
        def setup(self, cfg: Any) -> None:
            super().setup(cfg)
            for handler in self.error_log.handlers:
                handler.setFormatter(formatter)

    return Formatted


_REFUSED = {
    408: "the request came too slowly",
    413: "the body is too large, or comes in more than 100000 chunks",
    414: "the request line is longer than the 8190 characters that are taken",
    417: "no such expectation can be met",
    431: "the headers are too long, or more than 64",
    500: FAILED,
    501: "no such transfer coding is taken",
}


def refusal_bytes(refused: Callable[[RefusalError], Response], status: int) -> bytes:
    """Return an answer as it goes to a client whose connection ends with it."""
    answer = refused(refuse(status, _REFUSED.get(status, "the request isn't HTTP as it is taken here")))
    headers = [*answer.get_wsgi_headers({}), ("Connection", "close")]
    lines = [f"HTTP/1.1 {answer.status}", *(f"{name}: {value}" for name, value in headers), "", ""]
    return "\r\n".join(lines).encode("latin-1") + answer.get_data()


def _none() -> bytes:
    # An encrypted key would otherwise stop at a prompt on the terminal.
    return b""


@dataclass
class LoggedRequest:
    """The request that this thread is at work on; the tenant is known once the URL has been read."""

    request_id: str
    tenant: str | None = None


CURRENT: ContextVar[LoggedRequest | None] = ContextVar("configdb_sync_tenants_request", default=None)


class TextFormatter(logging.Formatter):
    """Makes a line of text: level, the request and its tenant, or the service where there is no request; logger."""

    def __init__(self, service: str) -> None:
        super().__init__()
        self._service = service

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  logging's own name
        """Return the line, without what is told of an exception."""
        asked = CURRENT.get()
        about = self._service
        if asked is not None:
            tenant = "no tenant" if asked.tenant is None else f"tenant {asked.tenant!a}"
            about = f"{asked.request_id} {tenant}"
        return f"{record.levelname} {about} {record.name}: {record.message}"


class JsonFormatter(logging.Formatter):
    """Makes one line of ASCII of a record, whatever it holds. ``more`` stands in every line."""

    def __init__(self, **more: str) -> None:
        super().__init__()
        self._more = more

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        time = datetime.fromtimestamp(record.created, UTC).replace(tzinfo=None)
        line: dict[str, Any] = {
            "time": f"{time.isoformat(timespec='microseconds')}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "process": record.process,
            **self._more,
        }
        asked = CURRENT.get()
        if asked is not None:
            line |= {"request_id": asked.request_id, "tenant": asked.tenant}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


def use(formatter: logging.Formatter) -> None:
    """Have the lines on standard error made by this one, warnings of libraries among them."""
    logging.captureWarnings(True)
    for handler in logging.getLogger().handlers:
        if type(handler) is logging.StreamHandler:
            handler.setFormatter(formatter)
