"""One run at a time for an environment on this machine: a lock that the kernel frees when its holder ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from configdb_sync.clock import Clock
from configdb_sync.errors import BusyError, StateError

_POLL = 0.2


@contextmanager
def run_lock(folder: Path, environment: int, wait: float, clock: Clock) -> Iterator[None]:
    """Hold the environment's lock in the state folder; wait at most ``wait`` seconds for it.

    Raises ``BusyError`` if another run still holds it then.
    """
    path = folder / f"environment-{environment}.lock"
    try:
        handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StateError(f"the lock {path} can't be used: {error.strerror}") from error
    try:
        end = clock.monotonic() + wait
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                left = end - clock.monotonic()
                if left <= 0:
                    raise BusyError(
                        f"another run works on environment {environment}, also after {wait:g} s",
                        way_out="wait until it is done and run again, or wait longer with --wait",
                    ) from None
                clock.sleep(min(_POLL, left))
        yield
    finally:
        os.close(handle)
