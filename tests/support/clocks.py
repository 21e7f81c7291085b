"""Clocks that a test turns or puts forward by hand."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from configdb_sync.clock import SystemClock

_START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class ManualClock:
    """Stands still but when it is turned."""

    passed: float = 0.0

    def now(self) -> datetime:
        return _START + timedelta(seconds=self.passed)

    def monotonic(self) -> float:
        return self.passed

    def sleep(self, seconds: float) -> None:
        self.passed += seconds

    def advance(self, seconds: float) -> None:
        self.passed += seconds


class Hasty(SystemClock):
    """The machine's clock, put forward when a peer has said all that it has to say.

    So a limit may be long, whatever else the machine has to do, and nobody waits for its end.
    """

    def __init__(self) -> None:
        self.ahead = 0.0

    def monotonic(self) -> float:
        """Return the machine's monotonic seconds and those that went by at once."""
        return time.monotonic() + self.ahead

    def forward(self, seconds: float = 1000.0) -> None:
        """Let so many seconds go by at once."""
        self.ahead += seconds
