"""How many requests a client may send: token buckets in this process, as many as fit into a bounded memory."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from dataclasses import dataclass, field

from configdb_sync.clock import Clock
from configdb_sync.web.refusals import RefusalError, refuse

_MOST = 10_000


@dataclass
class Buckets:
    """A bucket for each name: ``burst`` requests at once, ``rate`` a second in the long run. Safe for threads.

    The names not seen for longest are forgotten first; a forgotten bucket is a full one.
    """

    clock: Clock
    rate: float
    burst: float
    most: int = _MOST
    _levels: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def take(self, name: str) -> None:
        """Take one from a bucket. Raises ``RefusalError`` 429 with Retry-After where it is empty."""
        with self._lock:
            now, level = self._level(name)
            if level >= 1.0:
                self._levels[name] = (now, level - 1.0)
                return
        raise self._refusal(level)

    def check(self, name: str) -> None:
        """Raise ``RefusalError`` 429 if a bucket is empty; take nothing."""
        with self._lock:
            _, level = self._level(name)
        if level < 1.0:
            raise self._refusal(level)

    def _level(self, name: str) -> tuple[float, float]:
        now = self.clock.monotonic()
        known = self._levels.get(name)
        if known is None:
            level = self.burst
        else:
            level = min(self.burst, known[1] + (now - known[0]) * self.rate)
        self._levels[name] = (now, level)
        self._levels.move_to_end(name)
        if len(self._levels) > self.most:
            self._levels.popitem(last=False)
        return now, level

    def _refusal(self, level: float) -> RefusalError:
        wait = math.ceil((1.0 - level) / self.rate)
        return refuse(429, "too many requests; send fewer, or later", ("Retry-After", str(max(1, wait))))


def buckets(clock: Clock, rate: float, at_once: float = 2) -> Buckets | None:
    """Return buckets that let ``rate`` requests a second through, and at once those of ``at_once`` seconds; None for a
    rate of 0: no limit."""
    return Buckets(clock, rate, max(1.0, at_once * rate)) if rate > 0 else None
