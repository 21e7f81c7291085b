"""A status driver under guard: whatever it does, the service goes on (R6)."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from typing import Any

from configdb_sync.errors import ConfigDBError
from configdb_sync.tenants.drivers import StatusContext, StatusDriver
from configdb_sync.tenants.status import Status

AT_ONCE = 4
"""Questions to one driver at the same time; those that it never answered count."""
LONGEST_ANSWER = 65_536


class DriverFault(Exception):  # noqa: N818  # what a driver did, not what went wrong here
    """A driver failed. Its text says how, in words without the driver's own."""


@dataclass
class _Question:
    """What a driver is asked in a thread of its own, and what it has said in time."""

    driver: StatusDriver
    method: str
    contexts: Sequence[StatusContext]
    found: list[StatusContext] = field(default_factory=list)
    fault: str | None = "it ended without a word"
    over: bool = False
    late: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)
    ended: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Ask for one context after the other, until all are told, one fails or nobody waits any more."""
        try:
            # A driver that was written by the documents' words alone has no such method.
            begin = getattr(self.driver, "begin", None)
            if begin is not None:
                begin()
            ask: Callable[[StatusContext], Any] = getattr(self.driver, self.method)
            for context in self.contexts:
                after = checked(context, ask(replace(context)))
                with self.lock:
                    if self.over:
                        return
                    self.found.append(after)
            self.fault = None
        except BaseException as error:  # an exit is a failure of the driver's too
            self.fault = type(error).__name__
            with contextlib.suppress(Exception):
                self.fault = str(error) if isinstance(error, (ConfigDBError, DriverFault)) else self.fault
        finally:
            self.ended.set()

    def result(self, seconds: float) -> tuple[list[StatusContext], str | None]:
        """Return what was told within a time, and why it isn't all."""
        in_time = self.ended.wait(seconds)
        with self.lock:
            self.over = True
            return list(self.found), self.fault if in_time else f"it took more than {seconds:g} s"


class GuardedDriver:
    """Asks a driver in threads that the service doesn't wait for longer than ``deadline`` seconds."""

    def __init__(self, driver: StatusDriver) -> None:
        self._driver = driver
        self._slots = threading.BoundedSemaphore(AT_ONCE)
        self._stuck = 0
        self._lock = threading.Lock()
        self.local = bool(getattr(driver, "local", True))
        self.deadline = float(getattr(driver, "deadline", StatusDriver.deadline))

    def ask(self, kind: str, contexts: Sequence[StatusContext]) -> tuple[list[StatusContext], str | None]:
        """Return what the driver tells of resources of a kind, and why it failed, None if it didn't.

        After a failure there are fewer answers than contexts: those in front.
        """
        with self._lock:
            seconds = 0.0 if self._stuck >= AT_ONCE else self.deadline
        if not self._slots.acquire(timeout=seconds):
            return [], f"{AT_ONCE} earlier questions have no answer yet"
        question = _Question(self._driver, f"get_{kind}_status", contexts)
        thread = threading.Thread(target=copy_context().run, args=(self._run, question), daemon=True)
        try:
            thread.start()
        except RuntimeError:
            self._slots.release()
            return [], "no thread could be started"
        told, fault = question.result(self.deadline)
        with self._lock:
            if not question.ended.is_set():
                question.late = True
                self._stuck += 1
        return told, fault

    def _run(self, question: _Question) -> None:
        try:
            question.run()
        finally:
            with self._lock:
                self._stuck -= question.late
            self._slots.release()


def checked(before: StatusContext, after: object) -> StatusContext:
    """Return what a driver gave back for a context. Raises ``DriverFault`` if it isn't the same one with another status
    or other details."""
    if not isinstance(after, StatusContext):
        raise DriverFault(f"it returned {type(after).__name__}, not a StatusContext")
    if not (after.status is None or isinstance(after.status, Status)):
        raise DriverFault(f"it returned {type(after.status).__name__} for a status, not a Status or None")
    if not (after.details is None or isinstance(after.details, str)):
        raise DriverFault(f"it returned {type(after.details).__name__} for details, not text or None")
    if after.details is not None and len(after.details) > LONGEST_ANSWER:
        raise DriverFault(f"it returned {len(after.details)} characters of details, more than {LONGEST_ANSWER}")
    told = before.told(after.status, after.details)
    if after != told:
        raise DriverFault("it returned another place's context, or changed more than status and details")
    return told
