"""A clock that a test puts forward."""

from __future__ import annotations

import time

from configdb_sync.clock import SystemClock


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
