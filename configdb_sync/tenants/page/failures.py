"""How many wrong tries to sign in are let through: what is guessed must be guessed slowly."""

from __future__ import annotations

import threading
from collections import OrderedDict

from configdb_sync.clock import Clock
from configdb_sync.web.refusals import refuse

MOST = 10
WITHIN = 60.0
_REMEMBERED = 10_000


class Failures:
    """Counts by address. Each process has its own, with its part of the tries. Safe for several threads."""

    def __init__(self, clock: Clock, most: int = MOST, within: float = WITHIN) -> None:
        self._clock = clock
        self._most = most
        self._within = within
        self._lock = threading.Lock()
        self._times: OrderedDict[str, list[float]] = OrderedDict()

    def check(self, address: str) -> None:
        """Raise ``RefusalError`` 429 if there were too many of late."""
        now = self._clock.monotonic()
        with self._lock:
            times = [time for time in self._times.get(address, ()) if now - time < self._within]
        if len(times) >= self._most:
            wait = max(1, round(self._within - (now - times[0])))
            raise refuse(429, f"too many tries; wait {wait} seconds", ("Retry-After", str(wait)))

    def note(self, address: str) -> None:
        """Take note of a wrong try."""
        now = self._clock.monotonic()
        with self._lock:
            times = [time for time in self._times.pop(address, ()) if now - time < self._within]
            self._times[address] = [*times, now]
            while len(self._times) > _REMEMBERED:
                self._times.popitem(last=False)
