"""When a run must not begin more work: too little time left (U2, F5), a lost lock, or an unavailable server."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from configdb_sync.clock import Clock
from configdb_sync.errors import AccessError, OutOfTimeError, ProductError, StateError, UnavailableError

STAGE_LIMIT = 280.0
"""Seconds that a run has by default when Fuel calls it: on 9.0 and 9.1 Astute kills it after 300."""

_RESERVE = 5.0
_TRUST = 1.5


class Deadline:
    """The time that a run has, and how long its steps have taken so far. Safe for several threads.

    A step is begun only if the time left suffices for ``_TRUST`` times the longest of its kind, and a reserve for
    the report. ``guards`` are asked before each step too and may raise (a lost lock).
    """

    def __init__(self, clock: Clock, limit: float | None = None, guards: tuple[Callable[[], None], ...] = ()) -> None:
        self._clock = clock
        self._end = math.inf if limit is None else clock.monotonic() + limit
        self._limit = limit
        self._guards = guards
        self._longest: dict[str, float] = {}
        self._lock = threading.Lock()

    def guarded(self, guard: Callable[[], None]) -> Deadline:
        """Return the same time with one more guard."""
        found = Deadline(self._clock, None, (*self._guards, guard))
        found._end, found._limit = self._end, self._limit
        return found

    @property
    def left(self) -> float:
        """Seconds until the limit; infinite without one."""
        return self._end - self._clock.monotonic()

    @property
    def reserve(self) -> float:
        """Seconds kept for the report."""
        return 0.0 if self._limit is None else min(_RESERVE, self._limit / 10)

    @property
    def until_the_last_moment(self) -> float | None:
        """Seconds until the report must be given whatever is still at work; None without a limit."""
        return None if self._limit is None else max(0.0, self.left - self.reserve / 2)

    def wait(self, asked: float) -> float:
        """Return how long the run may wait for another: what was asked for, less if the time is shorter."""
        return max(0.0, min(asked, self.left - self.reserve))

    def check(self, kind: str) -> None:
        """Raise ``OutOfTimeError`` if no step of this kind may be begun; whatever a guard raises."""
        for guard in self._guards:
            guard()
        if self.left < self.reserve + _TRUST * self._longest.get(kind, 0.0):
            raise self.out_of_time()

    @contextmanager
    def step(self, kind: str) -> Iterator[None]:
        """Do one step, and remember how long it took. Raises as ``check`` before it is begun."""
        self.check(kind)
        began = self._clock.monotonic()
        try:
            yield
        finally:
            took = self._clock.monotonic() - began
            with self._lock:
                self._longest[kind] = max(took, self._longest.get(kind, 0.0))

    def out_of_time(self) -> OutOfTimeError:
        """Return the error that says so."""
        limit = "" if self._limit is None else f" of {self._limit:g} s"
        return OutOfTimeError(
            f"the time limit{limit} is too short for the next step",
            way_out="run again, which continues with the rest, or set a longer --time-limit",
        )


class CircuitBreaker:
    """Counts failures in a row, over all threads of a run.

    One document that the server chokes on is that document's failure; several in a row without any success
    mean that the server is away. Refused credentials will be refused again, and without records nothing may be written.
    """

    def __init__(self, limit: int = 3) -> None:
        self._limit = limit
        self._row = 0
        self._lock = threading.Lock()

    def worked(self) -> None:
        """Note that something was done with ConfigDB's help."""
        with self._lock:
            self._row = 0

    def failed(self, error: ProductError) -> None:
        """Note a failure; raise the error itself if the run is to stop for it."""
        if isinstance(error, AccessError | StateError):
            raise error
        if isinstance(error, UnavailableError):
            with self._lock:
                self._row += 1
                stop = self._row >= self._limit
            if stop:
                raise error
