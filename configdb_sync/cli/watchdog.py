"""Ends the process in time though something hangs: a run may end at any moment, its report must not be lost (F5)."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import Self

LAST_WORDS = 1.0
"""Seconds that what is done after the report may take."""


class Watchdog:
    """Calls ``act`` from a thread of its own after ``seconds`` and ends the process with the code that it returns.

    ``act`` has printed what is to be said; ``then`` (the rest, which may hang itself) gets a second. None for
    ``seconds`` never ends anything.
    """

    def __init__(self, seconds: float | None, act: Callable[[], int], then: Callable[[], None]) -> None:
        self._seconds = seconds
        self._act = act
        self._then = then
        self._over = threading.Event()
        self._acting = threading.Lock()

    def __enter__(self) -> Self:
        if self._seconds is not None:
            threading.Thread(target=self._watch, name="watchdog", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        # If it acts already, it ends the process: there is nothing to come back to.
        with self._acting:
            self._over.set()

    def _watch(self) -> None:
        if self._over.wait(self._seconds):
            return
        with self._acting:
            if not self._over.is_set():
                code = 1
                try:
                    code = self._act()
                    sys.stdout.flush()
                    last = threading.Thread(target=self._then, name="last words", daemon=True)
                    last.start()
                    last.join(LAST_WORDS)
                finally:
                    os._exit(code)
