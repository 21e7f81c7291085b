"""The owners of an environment's data sources, for a run; the tenant registry is behind this interface (T, S8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Owners(Protocol):
    """The owners of data sources. What changes something is called by ``sync`` alone, never by ``plan``."""

    def home(self, environment: int, recorded: str | None, setting: str) -> str:
        """Return the tenant to which new data sources of an environment go.

        ``recorded``: as our own records in ConfigDB have it; ``setting``: where nothing else holds.
        """

    def check(self, environment: int, data_source: str, home: str) -> None:
        """Raise ``ProductError`` if a data source can't be worked on now: its tenant is marked for deletion."""

    def made(self, environment: int, home: str, definitions: Mapping[str, int]) -> None:
        """Take note of the home, and of the definitions in its component."""

    def begins(self, environment: int, run: str) -> None:
        """Report that a run is at work (BUILD)."""

    def ended(self, environment: int) -> None:
        """Report how each data source does after a run (ACTIVE, ERROR)."""


class NoOwners:
    """Knows no tenants: the setting holds, everything may be worked on."""

    def home(self, environment: int, recorded: str | None, setting: str) -> str:
        """Return what is recorded, else the setting."""
        return recorded or setting

    def check(self, environment: int, data_source: str, home: str) -> None:
        """Let it through."""

    def made(self, environment: int, home: str, definitions: Mapping[str, int]) -> None:
        """Forget it."""

    def begins(self, environment: int, run: str) -> None:
        """Tell nobody."""

    def ended(self, environment: int) -> None:
        """Tell nobody."""
