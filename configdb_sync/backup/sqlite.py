"""SQLite's databases copied while others write to them, and written over while others read them."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path

from configdb_sync.errors import StateError

_BUSY_SECONDS = 60.0


def copy_all(sources: Mapping[Path, Path]) -> None:
    """Copy databases to new files of mode 0600, all as they were at one moment. Raises ``StateError``.

    Writers are held up for the moment alone in which reading begins: a product that was killed then would have left
    just that, and goes on from it.
    """
    with contextlib.ExitStack() as stack, _told("copied"):
        writers = [stack.enter_context(_opened(source)) for source in sources]
        readers = [stack.enter_context(_opened(source)) for source in sources]
        for writer in writers:
            writer.execute("BEGIN IMMEDIATE")
        for reader in readers:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM sqlite_master").fetchone()
        for writer in writers:
            writer.execute("ROLLBACK")
        for reader, target in zip(readers, sources.values(), strict=True):
            _born_closed(target)
            with _opened(target) as copy:
                reader.backup(copy)
                # One file, without the side files of the other mode.
                copy.execute("PRAGMA journal_mode=DELETE")


def lay_over(source: Path, target: Path) -> None:
    """Give a database (made with mode 0600 if it isn't there) another one's content, in one transaction.

    Whoever has it open sees the old content or the new. Raises ``StateError``.
    """
    with _told("restored"):
        if not target.exists():
            _born_closed(target)
        with _opened(source) as copy, _opened(target) as live:
            live.execute("PRAGMA journal_mode=WAL")
            copy.backup(live)


def check(path: Path, name: str) -> None:
    """Raise ``StateError`` if a file is no sound SQLite database."""
    try:
        with _opened(path) as connection:
            found = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error:
        found = None
    if found is None or found[0] != "ok":
        raise StateError(f"{name} in the backup is no sound database")


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
    try:
        yield connection
    finally:
        connection.close()


@contextlib.contextmanager
def _told(what: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise StateError(f"a database can't be {what} now: {error}") from None
    except OSError as error:
        raise StateError(f"a database can't be {what}: {error.strerror}") from None


def _born_closed(path: Path) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
