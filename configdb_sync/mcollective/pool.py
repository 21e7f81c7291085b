"""The brokers of the pool, with fail-over, and the connections to them that are free."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress

from configdb_sync.clock import Clock
from configdb_sync.errors import BusError
from configdb_sync.mcollective.faults import IncompatibleError, LoginRefusedError, LostError, UnreachableError
from configdb_sync.mcollective.link import WAY_OUT, Link
from configdb_sync.mcollective.settings import BusSettings

_log = logging.getLogger(__name__)
_PAUSE = 0.1
_LONGEST_PAUSE = 2.0


class Pool:
    """Lends connections, each to one call at a time; may be used from several threads."""

    def __init__(self, settings: BusSettings, clock: Clock, new_id: Callable[[], str]) -> None:
        self._settings = settings
        self._clock = clock
        self._new_id = new_id
        self._lock = threading.Lock()
        self._free: list[Link] = []
        self._first = 0

    def lend(self, patience: float = 0.0) -> Link:
        """Return a free connection, or a new one. Raises ``BusError``.

        ``patience``: seconds for which is tried beyond the number of attempts, for a broker that was there just now.
        """
        while True:
            with self._lock:
                link = self._free.pop() if self._free else None
            if link is None:
                return self._connect(patience)
            if link.usable:
                return link
            link.close()

    def give_back(self, link: Link) -> None:
        """Take a connection back for the next call."""
        with self._lock:
            self._free.append(link)

    def close(self) -> None:
        """Close the connections that are free."""
        with self._lock:
            links, self._free = self._free, []
        for link in links:
            with suppress(LostError):
                link.close()

    def _connect(self, patience: float) -> Link:
        hosts = self._settings.hosts
        failures: dict[str, BusError] = {}
        end = self._clock.monotonic() + patience
        attempts = 0
        left = set(range(len(hosts)))
        while left and (attempts < self._settings.bounds.attempts or self._clock.monotonic() < end):
            if attempts:
                self._clock.sleep(min(_PAUSE * 2 ** min(attempts - 1, 10), _LONGEST_PAUSE))
            attempts += 1
            for step in range(len(hosts)):
                place = (self._first + step) % len(hosts)
                if place not in left:
                    continue
                try:
                    link = Link(hosts[place], self._settings, self._clock.monotonic, self._new_id()[:12])
                except (UnreachableError, LoginRefusedError) as error:
                    # A broker that has let us in before may refuse everybody while it starts again.
                    if isinstance(error, LoginRefusedError) and self._clock.monotonic() >= end:
                        raise
                    failures[str(hosts[place])] = error
                    if isinstance(error, IncompatibleError):
                        left.remove(place)
                    _log.debug("%s", error)
                else:
                    self._first = place
                    return link
        if len(hosts) == 1:
            only = failures[str(hosts[0])]
            kind = IncompatibleError if isinstance(only, IncompatibleError) else UnreachableError
            raise kind(_tried(only.what, attempts), way_out=only.way_out, phase=only.phase)
        raise UnreachableError(
            _tried("; ".join(f"{each.what} ({each.phase})" for each in failures.values()), attempts),
            way_out=WAY_OUT,
            phase="connect",
        )


def _tried(what: str, attempts: int) -> str:
    return f"{what} (tried {attempts} times)" if attempts > 1 else what
