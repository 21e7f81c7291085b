"""One first request at a time for what the reference server breaks when two come at once (U6, R1)."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager


class Gates:
    """For each key, lets one thread through until it came back without an exception; then the gate stays open."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: set[Hashable] = set()
        self._gates: dict[Hashable, threading.RLock] = {}

    @contextmanager
    def through(self, key: Hashable) -> Iterator[None]:
        """Hold the gate of ``key`` unless it is open. The thread that holds it may come through again."""
        with self._lock:
            gate = None if key in self._open else self._gates.setdefault(key, threading.RLock())
        if gate is None:
            yield
            return
        with gate:
            yield
            with self._lock:
                self._open.add(key)
                self._gates.pop(key, None)
