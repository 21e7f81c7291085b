"""Memory of parsed blocks, bounded: the least recently used go first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Memory(Generic[T]):
    """Remembers values by key as long as their costs (any unit) stay within ``budget`` together. Safe for threads."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._held: OrderedDict[Hashable, tuple[T, int]] = OrderedDict()
        self._cost = 0
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> T | None:
        """Return the value remembered for ``key``, or None."""
        with self._lock:
            found = self._held.get(key)
            if found is None:
                return None
            self._held.move_to_end(key)
            return found[0]

    def put(self, key: Hashable, value: T, cost: int) -> None:
        """Remember ``value``; whatever then is over the budget is forgotten, ``value`` itself if need be."""
        with self._lock:
            before = self._held.pop(key, None)
            if before is not None:
                self._cost -= before[1]
            self._held[key] = (value, cost)
            self._cost += cost
            while self._cost > self._budget and self._held:
                self._cost -= self._held.popitem(last=False)[1][1]

    def grow(self, budget: int) -> None:
        """Raise the budget to ``budget`` if it is lower."""
        with self._lock:
            self._budget = max(self._budget, budget)

    @property
    def cost(self) -> int:
        """What is remembered now costs this much."""
        return self._cost
