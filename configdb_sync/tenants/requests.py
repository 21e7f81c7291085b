"""A request to the tenant API as its handlers see it, and what all share: the registry, limits, status, ConfigDB."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from configdb_sync import jsonvalues
from configdb_sync.clock import Clock
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.tenants.metrics import Prometheus
from configdb_sync.tenants.outbox_worker import OutboxWorker
from configdb_sync.tenants.paths import ResourcePath, Route
from configdb_sync.tenants.registry import Registry
from configdb_sync.tenants.status_chain import Chain
from configdb_sync.web.access import Caller
from configdb_sync.web.refusals import refuse
from configdb_sync.web.requests import (
    Environ,
    Preconditions,
    Target,
    content_coding,
    is_conditional,
    json_fault,
    media_type,
    parameters,
    read_body,
    read_preconditions,
)
from configdb_sync.web.responses import ApiResponse


@dataclass(frozen=True)
class TenantRequest:
    """A request that was let in."""

    environ: Environ
    method: str
    route: Route
    query: str | None
    caller: Caller
    identity: str
    clock: Clock

    @property
    def place(self) -> ResourcePath:
        """The tenant, environment or data source that the URL names."""
        assert self.route.place is not None
        return self.route.place

    def parameters(self, *known: str) -> dict[str, str]:
        """Return the query's parameters. Raises ``RefusalError`` 400 for others, and for one given twice."""
        return parameters(self.query, frozenset(known))

    @property
    def conditional(self) -> bool:
        """Whether it has If-Match or If-None-Match."""
        return is_conditional(self.environ)

    def conditions(self) -> Preconditions:
        """Return If-Match and If-None-Match. Raises ``RefusalError`` 400 for malformed ones."""
        return read_preconditions(self.environ)


def read_json(environ: Environ, limit: int) -> Any:
    """Return the body's JSON value, ``...`` if there is no body. Raises ``RefusalError`` 400, 411, 413, 415."""
    content = read_body(environ, limit)
    if not content:
        return ...
    if media_type(environ) not in {"", "application/json"}:
        raise refuse(415, "a body must be of type application/json")
    if content_coding(environ):
        raise refuse(415, "a body must come without Content-Encoding")
    try:
        return jsonvalues.loads(content.decode("utf-8"), once=True)
    except ValueError as error:
        raise refuse(400, f"the body isn't JSON as it is taken here: {json_fault(error)}") from None


def refuse_body(environ: Environ) -> None:
    """Raise ``RefusalError`` 400 if the request has a body; a Content-Type with an empty one is fine."""
    if read_body(environ, 1024 * 1024):
        raise refuse(400, "this request has no body")


def wants_xml(environ: Environ) -> bool:
    """Tell whether Accept prefers XML to JSON; without a word JSON is given."""
    best = {"xml": 0.0, "json": 0.0}
    accept = environ.get("HTTP_ACCEPT") or "*/*"
    for part in accept.split(","):
        kind, *options = (one.strip().lower() for one in part.split(";"))
        quality = 1.0
        for option in options:
            name, _, value = option.partition("=")
            if name.strip() == "q":
                try:
                    quality = min(max(float(value), 0.0), 1.0)
                except ValueError:
                    quality = 0.0
        if kind in {"application/xml", "text/xml"}:
            best["xml"] = max(best["xml"], quality)
        elif kind in {"application/json", "application/*", "*/*"}:
            best["json"] = max(best["json"], quality)
    return best["xml"] > best["json"] or (
        best["xml"] == best["json"] > 0 and accept.strip().startswith("application/xml")
    )


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
