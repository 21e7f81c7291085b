"""SQLite's databases copied while others write to them, and written over while others read them."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path

from configdb_sync.errors import StateError
from configdb_sync.store.engine import use_wal

_BUSY_SECONDS = 60.0


def copy_all(sources: Mapping[Path, Path]) -> None:
    """Copy databases to new files of mode 0600, all as they were at one moment. Raises ``StateError``.

    Writers wait only for the moment in which reading begins. The copy is what a product that was killed then would
    have left, and it continues from that.
    """
    with contextlib.ExitStack() as stack, _translated("copied"):
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
            _create_closed(target)
            with _opened(target) as copy:
                reader.backup(copy)
                # One file, without the side files of the other mode.
                copy.execute("PRAGMA journal_mode=DELETE")


def overwrite(source: Path, target: Path) -> None:
    """Replace a database's content (in a new file of mode 0600 if there is none) by another one's, in one transaction.

    Its users see the old content or the new. Raises ``StateError``.
    """
    with _translated("restored"):
        if not target.exists():
            _create_closed(target)
        with _opened(source) as copy, _opened(target) as live:
            use_wal(live.execute)
            copy.backup(live)


def check(path: Path, name: str) -> None:
    """Raise ``StateError`` if a file is no sound SQLite database."""
    try:
        with _opened(path) as connection:
            found = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error:
        found = None
    if found is None or found[0] != "ok":
        raise StateError(f"{name} in the backup is no sound database", way_out="restore another backup")


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
    try:
        yield connection
    finally:
        connection.close()


@contextlib.contextmanager
def _translated(what: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise StateError(f"a database can't be {what} now: {error}", way_out="try again later") from None
    except OSError as error:
        raise StateError(f"a database can't be {what}: {error.strerror}", way_out="is the disk full?") from None


def _create_closed(path: Path) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
