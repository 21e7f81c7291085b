"""The server on a socket: gunicorn with threads, and what must hold before it listens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from configdb_sync.configdb_server.access import Access, Guard, OpenAccess, guarded
from configdb_sync.configdb_server.app import create_app
from configdb_sync.configdb_server.messages import PRODUCT, PRODUCT_HEADER, Limits, refused
from configdb_sync.configdb_server.schema import open_configdb
from configdb_sync.web.refusals import refuse
from configdb_sync.web.service import Gunicorn, Listen, Transport, check_bindable, check_reach, read_listen

__all__ = ["Listen", "Service", "check", "read_listen", "serve"]


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

    @property
    def transport(self) -> Transport:
        """How it is reached."""
        return Transport(self.certificate, self.key, self.behind_proxy, self.workers, self.threads)


def check(service: Service) -> None:
    """Raise ``SettingsError`` if the server would be open to whom it must not: it holds every password of a cloud."""
    check_reach(service.listen, service.transport, unguarded=isinstance(service.access, OpenAccess))


def serve(service: Service, announce: Callable[[str], None]) -> None:
    """Listen until SIGTERM or SIGINT; ``announce`` gets the URL once connections are taken.

    Never returns but by ``SystemExit``: 0 after a clean stop. Raises ``SettingsError``, ``StateError`` before it
    listens.
    """
    check(service)
    check_bindable(service.listen)
    open_configdb(service.database_url, connections=1).close()  # connections don't outlive a fork

    def make(_ports: list[int]) -> tuple[Any, Any]:
        access = service.access.access if isinstance(service.access, Guard) else service.access
        application = create_app(
            service.database_url, access=access, limits=service.limits, connections=service.threads
        )
        return application, guarded(application, service.access) if isinstance(service.access, Guard) else application

    def ready(ports: list[int]) -> None:
        announce(f"{service.transport.scheme}://{service.listen.address(ports[0])}")

    Gunicorn(
        "configdb",
        [service.listen],
        service.transport,
        make,
        refusal=refusal,
        body_limit=service.limits.body,
        ready=ready,
    ).run()


_REFUSALS = {
    408: "the request came too slowly",
    413: "the body is too large, or comes in more than 100000 chunks",
    414: "the request line is longer than the 8190 characters that are taken",
    417: "no such expectation can be met",
    431: "the headers are too long, or more than 64",
    500: "the server failed; its log tells more",
    501: "no such transfer coding is taken",
}


def refusal(status: int) -> tuple[bytes, bytes]:
    """Return head and body of the answer where the server itself refuses a request, in the one shape of errors."""
    answer = refused(refuse(status, _REFUSALS.get(status, "the request isn't HTTP as it is taken here")))
    answer.headers[PRODUCT_HEADER] = PRODUCT
    answer.headers["Connection"] = "close"
    lines = [f"HTTP/1.1 {answer.status}", *(f"{name}: {value}" for name, value in answer.headers.items()), "", ""]
    return "\r\n".join(lines).encode("latin-1"), answer.get_data()
