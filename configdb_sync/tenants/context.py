"""What the handlers work with beside the request: the registry, limits, status, and the way to ConfigDB."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.tenants.answers import Answer
from configdb_sync.tenants.metrics import Meter, NoMeter
from configdb_sync.tenants.paths import Place, Route
from configdb_sync.tenants.registry import Registry
from configdb_sync.tenants.requests import Caller, Environ, Request
from configdb_sync.web.requests import Target

DAY = 24 * 3600 * 1_000_000


@dataclass(frozen=True)
class Limits:
    """``body``: bytes of a request's; ``page``: items of a page unless asked for fewer or more, at most ``longest``;
    ``retention``: microseconds in which a deleted tenant can be recovered."""

    body: int = 1024 * 1024
    page: int = 100
    longest: int = 1000
    retention: int = 30 * DAY


class Follower(Protocol):
    """ConfigDB as it follows the registry."""

    def check_movable(self) -> None:
        """Raise ``RefusalError`` if ConfigDB can't move definitions, or it isn't known whether it can."""

    def wake(self) -> None:
        """Take note that there is something to do."""


class NoFollower:
    """ConfigDB isn't told here; whoever runs the outbox next tells it."""

    def check_movable(self) -> None:
        """Let every move through."""

    def wake(self) -> None:
        """Leave it."""


class Pull(Protocol):
    """The status drivers. ``asks``: there are any."""

    asks: bool

    @property
    def failures(self) -> Mapping[str, int]:
        """How often each driver failed or hung, by name."""

    def refresh(self, place: Place) -> bool:
        """Bring the stored status of a place up to date; return False if who knows it couldn't be asked."""


class NoPull:
    """Asks nobody."""

    asks = False
    failures: Mapping[str, int] = MappingProxyType({})

    def refresh(self, place: Place) -> bool:
        """The stored status holds."""
        return True


StatusCalls = Callable[[Request], Answer]
"""Answers the API's reading calls on environments, nodes, runs and documents."""
Admit = Callable[[Caller, Route, "str | None"], Caller]
"""Returns the caller if it may see what a route of the API gives, by the query; raises ``RefusalError`` 403, 429."""


class Pages(Protocol):
    """Pages for people at an endpoint."""

    @property
    def root(self) -> str:
        """The first segment of their paths."""

    def answer(
        self, environ: Environ, method: str, target: Target, identity: str, *, asked: list[Route], admit: Admit
    ) -> Answer:
        """Answer a request for a page; its route is added to ``asked``, and ``admit`` checks the caller."""


@dataclass(frozen=True)
class Context:
    """All that an application's requests share. ``status_calls``: None if the endpoint has no status."""

    registry: Registry
    limits: Limits = field(default_factory=Limits)
    follower: Follower = field(default_factory=NoFollower)
    pull: Pull = field(default_factory=NoPull)
    client: Callable[[], ConfigDBClient] | None = None
    status_calls: StatusCalls | None = None
    meter: Meter = field(default_factory=NoMeter)
