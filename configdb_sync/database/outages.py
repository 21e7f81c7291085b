"""A database that is away: restarted, or its standby just being promoted (R2). Who asks it waits for a while.

The first of those who find it away begins the wait for all: when it has been away for longer, each asks once and is
told so at once, so that a service doesn't fill up with requests that wait.
"""

from __future__ import annotations

import threading

from sqlalchemy.exc import DBAPIError, OperationalError

from configdb_sync.clock import Clock

_AWAY = frozenset({"57P01", "57P02", "57P03", "25006", "53300"})
"""PostgreSQL: shut down, crashed, starting, a standby, no connection left."""

_FIRST, _LONGEST = 0.05, 1.0


def away(error: DBAPIError) -> bool:
    """Tell whether PostgreSQL's error says that the server, or the way to it, is away for now."""
    state: str | None = getattr(error.orig, "sqlstate", None)
    if error.connection_invalidated or (state is None and isinstance(error, OperationalError)):
        return True
    return state is not None and (state in _AWAY or state.startswith("08"))


class Outage:
    """Whether to wait for the database. ``patience`` seconds from when it was first found away.

    ``expected``: wait also for one that was never there; otherwise its address is more likely wrong. Thread-safe.
    """

    def __init__(self, clock: Clock, patience: float, *, expected: bool) -> None:
        self._clock = clock
        self._patience = patience
        self._known = expected
        self._since: float | None = None
        self._spent = False
        self._lock = threading.Lock()

    def over(self) -> None:
        """Take note that it answered."""
        if self._since is not None or not self._known:
            with self._lock:
                self._since, self._spent, self._known = None, False, True

    def wait(self, tried: int) -> bool:
        """Wait a little longer at each try, from 0; False where the patience is at its end."""
        pause = min(_LONGEST, _FIRST * 2.0**tried)
        with self._lock:
            now = self._clock.monotonic()
            if self._since is None:
                self._since = now
            self._spent = self._spent or not self._known or now + pause > self._since + self._patience
            if self._spent:
                return False
        self._clock.sleep(pause)
        return True
