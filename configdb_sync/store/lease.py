"""One at a time (U14): on this machine by a file lock, over all masters of a database by a lease.

The kernel frees a file lock when its holder ends.

A lease is a row that is renewed while its holder works. It is free once it has stood unchanged for as long as a lease
lasts, by the monotonic seconds of the one that waits for it: no clock can be wrong about that. A holder that is known
to have ended is not waited for.
"""

from __future__ import annotations

import fcntl
import os
import stat
import threading
from collections.abc import Callable, Iterator
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
"""Seconds after which the lease of a holder that no longer renews it is free. Its row holds the end of that time for
readers that don't wait."""
RENEWED = 15.0
_LEASE_POLL = 1.0
_LOCK_POLL = 0.2
_LOCK = "name another state folder with --state DIR"
_REMEMBERED = 8
_LONGEST = 4096


def process_exists(pid: int) -> bool:
    """Tell whether there is a process of this number on this machine."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@dataclass(frozen=True)
class Holder:
    """Who has a lease: a row of ``LEASES``."""

    holder: str
    host: str
    until: float


@dataclass
class Lease:
    """The lease of one holder, such as a run by its identity. ``name`` says what is leased.

    ``ended`` tells of holders of this host that have ended. With ``by_clock`` a row whose time is over is free at
    once: for those who don't wait.
    """

    database: Database
    name: str
    holder: str
    host: str
    clock: Clock
    ended: Callable[[str], bool] = lambda _: False
    by_clock: bool = False
    _sure_until: float = 0.0
    _lost: bool = False
    _released: threading.Event = field(default_factory=threading.Event, repr=False)

    def check(self) -> None:
        """Raise ``BusyError`` if the lease may be another's by now: nothing new may then be begun."""
        if self._lost or self.clock.monotonic() >= self._sure_until:
            raise BusyError(
                f"this run lost its lock on {self.name}: it could not renew it in time",
                way_out="see that the database can be reached, run again",
            )

    def take(self, wait: float) -> None:
        """Take the lease; wait at most ``wait`` seconds. Raises ``BusyError`` that names the run that holds it."""
        began = self.clock.monotonic()
        seen: tuple[Holder, float] | None = None
        while True:
            now = self.clock.monotonic()
            abandoned = seen[0] if seen is not None and now - seen[1] >= LASTS else None
            held = self.try_take(abandoned)
            if held is None:
                return
            if seen is None or held != seen[0]:
                seen = held, now
            left = began + wait - self.clock.monotonic()
            if left <= 0:
                raise _busy(self.name, wait, f"run {held.holder} on {held.host}")
            self.clock.sleep(min(_LEASE_POLL, left))

    def try_take(self, abandoned: Holder | None = None) -> Holder | None:
        """Take the lease if it is free, or still as an ``abandoned`` one was; else return who holds it."""
        began = self.clock.monotonic()

        def work(connection: Connection) -> Holder | None:
            now = now_of(connection, self.clock)
            mine = {"holder": self.holder, "host": self.host, "until": now + LASTS}
            row = connection.execute(
                sa.select(LEASES.c.holder, LEASES.c.host, LEASES.c.until).where(LEASES.c.name == self.name)
            ).first()
            if row is None:
                connection.execute(sa.insert(LEASES).values(name=self.name, **mine))
                return None
            held = Holder(*row)
            # One that ends later than any can was taken under another clock.
            late = self.by_clock and not now < held.until <= now + LASTS
            if late or held == abandoned or (held.host == self.host and self.ended(held.holder)):
                unchanged = [LEASES.c[name] == value for name, value in vars(held).items()]
                here = sa.and_(LEASES.c.name == self.name, *unchanged)
                if connection.execute(sa.update(LEASES).where(here).values(mine)).rowcount:
                    return None
            return held

        try:
            held = self.database.write(work)
        except IntegrityError:
            held = Holder("unknown", "another master", 0.0)
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

    def release(self) -> None:
        """Give it back."""
        self._released.set()
        try:
            self.database.write(lambda connection: connection.execute(sa.delete(LEASES).where(self._mine())))
        except ProductError:
            # It expires; what was done under it matters more.
            return

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Renew it from time to time, and give it back at the end. It was taken."""
        keeper = threading.Thread(target=self._keep, name="lease", daemon=True)
        keeper.start()
        try:
            yield
        finally:
            self.release()
            keeper.join()

    def _keep(self) -> None:
        while not self._released.wait(RENEWED) and not self._lost:
            try:
                self.renew()
            except ProductError:
                # ``check`` stops the work if this goes on until the lease may have expired.
                continue

    def _mine(self) -> sa.ColumnElement[bool]:
        return sa.and_(LEASES.c.name == self.name, LEASES.c.holder == self.holder, LEASES.c.host == self.host)


def lease_name(environment: int) -> str:
    """Return the name of the lease of runs on an environment."""
    return f"environment {environment}"


@contextmanager
def run_lock(folder: Path, environment: int, wait: float, clock: Clock, run: str = "") -> Iterator[frozenset[str]]:
    """Hold the environment's lock in the state folder; wait at most ``wait`` seconds for it.

    Yields the identities of the last runs that held it before: whoever holds it knows that those are over. ``run``
    is the identity that later holders get. Raises ``BusyError`` if another run still holds it when the wait is
    over, ``StateError`` if the file can't be used.
    """
    path = folder / f"environment-{environment}.lock"
    try:
        handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except OSError as error:
        raise StateError(f"the lock {path} can't be used: {error.strerror}", way_out=_LOCK) from error
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
                    raise _busy(lease_name(environment), wait) from None
                clock.sleep(min(_LOCK_POLL, left))
            except OSError as error:
                raise StateError(f"the lock {path} can't be used: {error.strerror}", way_out=_LOCK) from error
        yield frozenset(_remember(handle, run))
    finally:
        os.close(handle)


def _busy(name: str, wait: float, who: str = "another run") -> BusyError:
    return BusyError(
        f"{who} works on {name}, also after {wait:.0f} s",
        way_out="wait until it is done and run again, or wait longer with --wait",
    )


def _remember(handle: int, run: str) -> list[str]:
    earlier = os.pread(handle, _LONGEST, 0).decode("ascii", "replace").split()[-_REMEMBERED:]
    if run:
        text = "".join(f"{one}\n" for one in [*earlier, run]).encode("ascii", "replace")
        os.pwrite(handle, text, 0)
        os.ftruncate(handle, len(text))
    return earlier
