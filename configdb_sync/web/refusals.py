"""What a server refuses by itself, told in the log by a line a minute, without a byte of the client's (R5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

EVERY = 60.0


class RefusalLog:
    """Counts refusals: the first is told at once, what comes within a minute after it in one line."""

    def __init__(self, warn: Callable[[str], object]) -> None:
        self._warn = warn
        self._seen: Counter[str] = Counter()
        self._address = ""
        self._since: float | None = None

    def note(self, reason: str, address: str, now: float) -> None:
        """Count one; the reason is in words of the server's own."""
        self._seen[reason] += 1
        self._address = address
        if self._since is None:
            self._tell("")
            self._since = now

    def tick(self, now: float, *, last: bool = False) -> None:
        """Tell of what has come since the last line, if it is a minute old or there will be no other."""
        if self._since is None or (now - self._since < EVERY and not last):
            return
        if self._seen:
            self._tell(f" in {now - self._since:.0f} s")
            self._since = now
        else:
            self._since = None

    def _tell(self, span: str) -> None:
        counts = ", ".join(f"{count} x {reason}" for reason, count in sorted(self._seen.items()))
        self._warn(f"requests refused before the service saw them{span}: {counts}; the last from {self._address}")
        self._seen.clear()
