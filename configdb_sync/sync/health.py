"""Whether it is worth going on with a run after a failure."""

from __future__ import annotations

import threading

from configdb_sync.errors import AccessError, ProductError, StateError, UnavailableError


class Health:
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
