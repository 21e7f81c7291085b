"""One run at a time for an environment on this machine: a lock that the kernel frees when its holder ends."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from configdb_sync.clock import Clock
from configdb_sync.errors import BusyError, StateError

_POLL = 0.2
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
                clock.sleep(min(_POLL, left))
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
