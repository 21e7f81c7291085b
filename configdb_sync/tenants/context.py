"""What the handlers need besides the request: the registry, limits, status, and the connection to ConfigDB."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.tenants.metrics import Prometheus
from configdb_sync.tenants.outbox_worker import OutboxWorker
from configdb_sync.tenants.paths import ResourcePath, Route
from configdb_sync.tenants.registry import Registry
from configdb_sync.tenants.requests import TenantRequest
from configdb_sync.tenants.status_chain import Chain
from configdb_sync.web.access import Caller
from configdb_sync.web.requests import Environ, Target
from configdb_sync.web.responses import ApiResponse

DAY = 24 * 3600 * 1_000_000


@dataclass(frozen=True)
class ApiLimits:
    """Limits of an endpoint.

    ``body``: bytes of a request's body. ``page``: items of a page by default, ``longest``: at most. ``retention``:
    microseconds for which a deleted tenant can be recovered.
    """

    body: int = 1024 * 1024
    page: int = 100
    longest: int = 1000
    retention: int = 30 * DAY


StatusCalls = Callable[[TenantRequest], ApiResponse]
"""Answers the API's reading calls on environments, nodes, runs and documents."""
Admit = Callable[[Caller, Route, "str | None"], Caller]
"""Returns the caller if it may see what a route of the API gives, by the query; raises ``RefusalError`` 403, 429."""


class PageHandler(Protocol):
    """Pages for people at an endpoint."""

    @property
    def root(self) -> str:
        """The first segment of their paths."""

    def answer(
        self, environ: Environ, method: str, target: Target, identity: str, *, asked: list[Route], admit: Admit
    ) -> ApiResponse:
        """Answer a request for a page; its route is added to ``asked``, and ``admit`` checks the caller."""


@dataclass(frozen=True)
class Context:
    """All that an application's requests share.

    None means: ``worker``, another process handles the outbox; ``drivers``, there are no status drivers;
    ``status_calls``, the endpoint has no status; ``meter``, requests aren't counted.
    """

    registry: Registry
    limits: ApiLimits = field(default_factory=ApiLimits)
    worker: OutboxWorker | None = None
    drivers: Chain | None = None
    client: Callable[[], ConfigDBClient] | None = None
    status_calls: StatusCalls | None = None
    meter: Prometheus | None = None

    def wake_worker(self) -> None:
        """Have the outbox handled at once."""
        if self.worker is not None:
            self.worker.wake()

    def refresh(self, place: ResourcePath) -> bool:
        """Update the stored status of a path; return False if a driver's source was unavailable."""
        return self.drivers is None or self.drivers.refresh(place)
