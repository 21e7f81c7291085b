"""A clock that a test turns by hand."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

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
