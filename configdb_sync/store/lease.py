"""One run at a time for an environment over all masters of a database: a leased row (U14).

The row is renewed while its run works. It is free once it has stood unchanged for as long as a lease lasts, by the
monotonic seconds of the one that waits for it: no clock can be wrong about that. A run on the same machine that is
known to be over (the kernel has freed its lock) is not waited for.
"""

from __future__ import annotations

import fcntl
import os
import stat
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from configdb_sync.clock import Clock
from configdb_sync.errors import BusyError, ProductError, StateError
from configdb_sync.store.database import Database
from configdb_sync.store.schema import LEASES, now_of

LASTS = 60.0
"""Seconds after which the lease of a run that no longer renews it is free; its row says until when that is, for those
who only look."""
RENEWED = 15.0
_POLL = 1.0


@dataclass(frozen=True)
class _Held:
    run: str
    host: str
    until: float


@dataclass
class Lease:
    """The lease of one run on one environment."""

    database: Database
    environment: int
    run: str
    host: str
    clock: Clock
    _sure_until: float = 0.0
    _lost: bool = False
    _ended: threading.Event = field(default_factory=threading.Event, repr=False)

    def check(self) -> None:
        """Raise ``BusyError`` if the lease may be another's by now: nothing new may then be begun."""
        if self._lost or self.clock.monotonic() >= self._sure_until:
            raise BusyError(
                f"this run lost its lock on environment {self.environment}: it could not renew it in time",
                way_out="see that the database can be reached, run again",
            )

    def take(self, over: Collection[str], wait: float) -> None:
        """Take the lease; wait at most ``wait`` seconds. ``over`` are runs of this host that are known to be over.

        Raises ``BusyError`` that names the run that holds it.
        """
        began = self.clock.monotonic()
        seen: tuple[_Held, float] | None = None
        while True:
            now = self.clock.monotonic()
            abandoned = seen[0] if seen is not None and now - seen[1] >= LASTS else None
            held = self._try(over, abandoned)
            if held is None:
                return
            if seen is None or held != seen[0]:
                seen = held, now
            left = began + wait - self.clock.monotonic()
            if left <= 0:
                raise busy(self.environment, wait, f"run {held.run} on {held.host}")
            self.clock.sleep(min(_POLL, left))

    def _try(self, over: Collection[str], abandoned: _Held | None) -> _Held | None:
        """Take the lease if it is free; return who holds it."""
        began = self.clock.monotonic()
        here = LEASES.c.environment == self.environment

        def work(connection: Connection) -> _Held | None:
            mine = {"run": self.run, "host": self.host, "until": now_of(connection, self.clock) + LASTS}
            free = sa.and_(LEASES.c.host == self.host, LEASES.c.run.in_(over))
            if abandoned is not None:
                unchanged = sa.and_(LEASES.c.run == abandoned.run, LEASES.c.until == abandoned.until)
                free = sa.or_(free, unchanged)
            if connection.execute(sa.update(LEASES).where(here, free).values(mine)).rowcount:
                return None
            held = connection.execute(sa.select(LEASES.c.run, LEASES.c.host, LEASES.c.until).where(here)).first()
            if held is not None:
                return _Held(*held)
            connection.execute(sa.insert(LEASES).values(environment=self.environment, **mine))
            return None

        try:
            held = self.database.write(work)
        except IntegrityError:
            held = _Held("unknown", "another master", 0.0)
        if held is None:
            self._sure_until = began + LASTS
        return held

    def renew(self) -> None:
        """Renew it; take note if it is another's by now."""
        began = self.clock.monotonic()

        def work(connection: Connection) -> int:
            until = now_of(connection, self.clock) + LASTS
            return connection.execute(sa.update(LEASES).where(self._mine()).values(until=until)).rowcount

        if self.database.write(work):
            self._sure_until = began + LASTS
        else:
            self._lost = True

    def keep(self) -> None:
        """Renew it from time to time until it ends; what fails is tried again."""
        while not self._ended.wait(RENEWED) and not self._lost:
            try:
                self.renew()
            except ProductError:
                # ``check`` stops the run if this goes on until the lease may have expired.
                continue

    def release(self) -> None:
        """Give it back."""
        self._ended.set()
        try:
            self.database.write(lambda connection: connection.execute(sa.delete(LEASES).where(self._mine())))
        except ProductError:
            # It expires; the run's own outcome matters more.
            return

    def _mine(self) -> sa.ColumnElement[bool]:
        return sa.and_(LEASES.c.environment == self.environment, LEASES.c.run == self.run)


@contextmanager
def leased(lease: Lease, over: Collection[str], wait: float) -> Iterator[Lease]:
    """Hold the lease; raises as ``Lease.take``."""
    lease.take(over, wait)
    keeper = threading.Thread(target=lease.keep, name="lease", daemon=True)
    keeper.start()
    try:
        yield lease
    finally:
        lease.release()
        keeper.join()


_POLL_lock = 0.2
_REMEMBERED = 8
_LONGEST = 4096


@contextmanager
def run_lock(folder: Path, environment: int, wait: float, clock: Clock, run: str = "") -> Iterator[frozenset[str]]:
    """Hold the environment's lock in the state folder; wait at most ``wait`` seconds for it.

    Yields the identities of the last runs that held it before: whoever holds it knows that those are over. ``run``
    is the identity that later holders get told. Raises ``BusyError`` if another run still holds it when the wait is
    over, ``StateError`` if the file can't be used.
    """
    path = folder / f"environment-{environment}.lock"
    try:
        handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except OSError as error:
        raise StateError(f"the lock {path} can't be used: {error.strerror}") from error
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise StateError(f"the lock {path} can't be used: it is no file", way_out="remove it")
        end = clock.monotonic() + wait
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                left = end - clock.monotonic()
                if left <= 0:
                    raise busy(environment, wait) from None
                clock.sleep(min(_POLL_lock, left))
            except OSError as error:
                raise StateError(f"the lock {path} can't be used: {error.strerror}") from error
        yield frozenset(_remember(handle, run))
    finally:
        os.close(handle)


def busy(environment: int, wait: float, who: str = "another run") -> BusyError:
    """Return the error that says who works on the environment still, after the time waited."""
    return BusyError(
        f"{who} works on environment {environment}, also after {wait:.0f} s",
        way_out="wait until it is done and run again, or wait longer with --wait",
    )


def _remember(handle: int, run: str) -> list[str]:
    earlier = os.pread(handle, _LONGEST, 0).decode("ascii", "replace").split()[-_REMEMBERED:]
    if run:
        text = "".join(f"{one}\n" for one in [*earlier, run]).encode("ascii", "replace")
        os.pwrite(handle, text, 0)
        os.ftruncate(handle, len(text))
    return earlier
