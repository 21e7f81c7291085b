"""What was worked out once and holds until what it was made of changes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class Kept:
    """The newest ``most`` results, each with the stamp of what it was made of. Safe for several threads."""

    def __init__(self, most: int = 16) -> None:
        self._most = most
        self._found: OrderedDict[Hashable, tuple[Any, Any]] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, key: Hashable, stamp: object, make: Callable[[], T]) -> T:
        """Return what was kept under the key if its stamp is equal, else what is made now."""
        with self._lock:
            found = self._found.get(key)
            if found is not None and found[0] == stamp:
                self._found.move_to_end(key)
                value: T = found[1]
                return value
        made = make()
        with self._lock:
            self._found[key] = (stamp, made)
            self._found.move_to_end(key)
            while len(self._found) > self._most:
                self._found.popitem(last=False)
        return made
