"""Standard streams that never break a command: closed before it began, by a reader that left, or full.

What a command does matters more than whether someone reads it to its end: ``configdb-sync plan | head -1`` ends with
the command's own exit code, and a run isn't stopped because its log went away.
"""

from __future__ import annotations

import contextlib
import io
import os
import select
import sys
from typing import Any, TextIO

from configdb_sync.errors import SettingsError


class Output(io.RawIOBase):
    """A descriptor to write to. Once a write failed, all that follows is dropped.

    A reader that left is nothing to be told of. Any other failure is a ``SettingsError`` where ``heed`` is set.
    """

    def __init__(self, descriptor: int, *, heed: bool) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._heed = heed
        self._over = False

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._descriptor

    def isatty(self) -> bool:
        """Tell whether it is a terminal."""
        return os.isatty(self._descriptor)

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any, /) -> int:
        """Write what can be written at once and return its length; a descriptor that isn't ready is waited for."""
        while not self._over:
            try:
                return os.write(self._descriptor, data)
            except BlockingIOError:
                select.select((), (self._descriptor,), ())
            except OSError as error:
                self._over = True
                if self._heed and not isinstance(error, BrokenPipeError):
                    raise SettingsError(
                        f"the output can't be written: {error.strerror}", way_out="lead it to another place"
                    ) from None
        return len(data)


def guard() -> None:
    """Put such streams in the place of this process's own; those that someone replaced already are left alone."""
    for descriptor in (0, 1, 2):
        # Else the next file that is opened, a database, gets the number that messages are printed to.
        with contextlib.suppress(OSError):
            os.fstat(descriptor)
            continue
        os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stdout is sys.__stdout__:
        sys.stdout = _wrapped(sys.__stdout__, 1, heed=True)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _wrapped(sys.__stderr__, 2, heed=False)


def _wrapped(stream: TextIO | None, descriptor: int, *, heed: bool) -> TextIO:
    encoding, by_line = "utf-8", True
    if isinstance(stream, io.TextIOWrapper):
        stream.flush()
        encoding, by_line = stream.encoding, stream.line_buffering
    # Names in a locale's own bytes, and characters that its terminal lacks, are shown rather than a reason to fail.
    return io.TextIOWrapper(
        io.BufferedWriter(Output(descriptor, heed=heed)),
        encoding=encoding,
        errors="backslashreplace",
        line_buffering=by_line,
    )
