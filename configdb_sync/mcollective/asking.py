"""Who has been asked in one call, who is due and until when: the bookkeeping, apart from clocks and connections."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

_SHARE = 20
_LEAST_PATIENCE = 1.0


class Asking:
    """The nodes of a call. Times are monotonic seconds and never go back.

    No more than ``window`` nodes are at work at once. One that has been silent for a while (a twentieth of its time)
    holds no one up any more, so that silent nodes cost their own time alone.
    """

    def __init__(self, identities: Iterable[str], window: int, timeout: float) -> None:
        self._waiting = deque(identities)
        self._absent: dict[str, float] = {}
        # All in the order of time, so that the oldest is the first.
        self._asked: dict[str, float] = {}
        self._busy: dict[str, float] = {}
        self._window = window
        self._timeout = timeout
        self._patience = max(_LEAST_PATIENCE, timeout / _SHARE)

    @property
    def open(self) -> bool:
        """Whether anybody is still due."""
        return bool(self._waiting or self._asked or self._absent)

    @property
    def due(self) -> list[str]:
        """Everybody who is still due."""
        return [*self._asked, *self._waiting, *self._absent]

    @property
    def absent(self) -> list[str]:
        """Everybody who has yet to be seen before it is asked."""
        return list(self._absent)

    def next(self, now: float) -> str | None:
        """Return who is to be asked now (it then counts as asked), None if nobody is."""
        while self._busy and now - self._oldest(self._busy) >= self._patience:
            del self._busy[next(iter(self._busy))]
        if not self._waiting or len(self._busy) >= self._window:
            return None
        identity = self._waiting.popleft()
        self._asked[identity] = self._busy[identity] = now
        return identity

    def answered(self, identity: str) -> bool:
        """Take note of an answer; tell whether it was due."""
        self._busy.pop(identity, None)
        return self._asked.pop(identity, None) is not None

    def lose_sight(self, now: float) -> None:
        """Take everybody who is due for absent: whoever comes is asked, again if need be, and has all its time.

        What is sent to a node that isn't there (yet) is dropped without a word.
        """
        self._absent = dict.fromkeys(self.due, now)
        self._waiting.clear()
        self._asked.clear()
        self._busy.clear()

    def came(self, identity: str) -> None:
        """Take note that a node is there."""
        if self._absent.pop(identity, None) is not None:
            self._waiting.append(identity)

    def give_up(self) -> list[str]:
        """Return everybody who was asked and has not answered; they are due no more."""
        found = list(self._asked)
        self._asked.clear()
        self._busy.clear()
        return found

    def expired(self, now: float) -> list[str]:
        """Return whose time is over; they are due no more."""
        found = []
        for times in (self._asked, self._absent):
            while times and now - self._oldest(times) >= self._timeout:
                identity = next(iter(times))
                del times[identity]
                self._busy.pop(identity, None)
                found.append(identity)
        return found

    def wait(self, now: float) -> float:
        """Return for how many seconds there is nothing to do but to wait for replies."""
        ends = [self._oldest(times) + self._timeout for times in (self._asked, self._absent) if times]
        if self._waiting and self._busy:
            ends.append(self._oldest(self._busy) + self._patience)
        return max(0.0, min(ends) - now) if ends else 0.0

    @staticmethod
    def _oldest(times: dict[str, float]) -> float:
        return next(iter(times.values()))
