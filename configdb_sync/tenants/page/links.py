"""Where the pages lead: to each other over HTTP, or to places in one file. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from configdb_sync.tenants.page import routes
from configdb_sync.tenants.paths import Kind
from configdb_sync.web.requests import encoded


class Links(Protocol):
    """Addresses of what pages show; None for what has none. ``joint``: what stands between a data source's address and
    its level."""

    @property
    def joint(self) -> str:
        """The text between."""

    def environment(self, environment: int) -> str:
        """Return that of an environment's matrix."""

    def runs(self, environment: int) -> str:
        """Return that of its runs."""

    def run(self, environment: int, run: str) -> str | None:
        """Return that of a run."""

    def source(self, tenant: str, environment: int, name: str) -> str | None:
        """Return that of a data source, to which ``joint`` and a level are added."""


@dataclass(frozen=True)
class ServedLinks:
    """Over HTTP. ``scope``: a tenant whose pages these are, None for an operator's."""

    scope: str | None
    joint: str = "?level="

    def environment(self, environment: int) -> str:
        """As ``Links``."""
        return routes.page_url(routes.environment_page(self.scope, environment))

    def runs(self, environment: int) -> str:
        """As ``Links``."""
        return routes.page_url(routes.environment_page(self.scope, environment, Kind.RUNS))

    def run(self, environment: int, run: str) -> str | None:
        """As ``Links``."""
        return routes.page_url(routes.environment_page(self.scope, environment, Kind.RUN, run))

    def source(self, tenant: str, environment: int, name: str) -> str | None:
        """As ``Links``."""
        return routes.page_url(routes.source_page(tenant, environment, name))


def level_text(level: Mapping[str, str] | None) -> str | None:
    """Return a level path as a query's value, percent-encoded: ``nodes%3D46``; None for one that isn't known."""
    if level is None:
        return None
    text = ",".join(f"{name}={value}" for name, value in level.items())
    name, _, value = text.partition("=")
    # Mostly one level and a number, many times.
    return f"{name}%3D{value}" if (name + value).isalnum() and text.isascii() else encoded(text)
