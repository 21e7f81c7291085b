"""The state as a whole: copied to a backup while services and runs are active, and restored from one.

SQLite's databases are copied while others write to them, and written over while others read them.
"""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from configdb_sync import __version__
from configdb_sync.backup import archive
from configdb_sync.backup.archive import CONFIGDB, DATABASE, SECRETS, Manifest
from configdb_sync.clock import Clock
from configdb_sync.configdb_server.schema import SCHEMA as CONFIGDB_SCHEMA
from configdb_sync.configdb_server.schema import open_configdb
from configdb_sync.errors import StateError
from configdb_sync.state import StateFolder
from configdb_sync.store.conversion import convert
from configdb_sync.store.engine import parsed, servers_of, use_wal, with_key_file
from configdb_sync.store.keyring import EncryptionKeyError
from configdb_sync.store.lease import run_lock
from configdb_sync.store.opening import STORE, open_store
from configdb_sync.store.records import distrust

_LOCK = re.compile(r"environment-(\d+)\.lock")


@dataclass(frozen=True)
class StateFiles:
    """Where the parts of the state are, by their names in a backup: ``databases`` are SQLite's files, ``secrets`` the
    small files of the state folder, ``elsewhere`` the addresses (without a password) of other databases. ``key_file``
    encrypts the databases, and is no part of a backup."""

    databases: Mapping[str, Path]
    secrets: Mapping[str, Path]
    elsewhere: Mapping[str, str]
    key_file: Path | None = None


def state_files(state: StateFolder, database: str, configdb_database: str, key_file: Path | None = None) -> StateFiles:
    """Return where everything is, or would be. Raises ``StateError`` for an unusable URL."""
    databases: dict[str, Path] = {}
    elsewhere: dict[str, str] = {}
    for name, text in ((DATABASE, database), (CONFIGDB, configdb_database)):
        url = parsed(text, name)
        if url.get_backend_name() == "sqlite" and url.database:
            databases[name] = Path(url.database)
        else:
            elsewhere[name] = f"{url.get_backend_name()}://{servers_of(url)}/{url.database or ''}"
    return StateFiles(databases, {name: state.folder / name for name in SECRETS}, elsewhere, key_file)


def make(path: Path, files: StateFiles, now: datetime) -> Manifest:
    """Write the state's backup to a new file and return what is in it. Raises ``StateError``."""
    databases = {name: source for name, source in files.databases.items() if source.is_file()}
    secrets = {name: source for name, source in files.secrets.items() if source.is_file()}
    if not databases and not files.elsewhere:
        raise StateError("there is nothing to back up: the state has no database yet", way_out="see --state")
    try:
        # Beside the archive: it holds the same secrets, on the same disk, for its owner alone.
        with tempfile.TemporaryDirectory(prefix=".configdb-sync-backup-", dir=path.parent) as temporary:
            copies = {name: Path(temporary) / name for name in databases}
            copy_all({databases[name]: copies[name] for name in databases})
            packed = {**copies, **secrets}
            parts = {name: archive.part_of(file) for name, file in packed.items()}
            described = Manifest(__version__, now.isoformat(timespec="seconds"), parts, files.elsewhere)
            archive.write(path, described, packed)
    except OSError as error:
        raise StateError(f"the backup {path} can't be written: {error.strerror}", way_out="name another file") from None
    return described


def restore(path: Path, folder: Path, files: StateFiles, *, replace: bool, wait: float, clock: Clock) -> Manifest:
    """Restore the state (``folder`` and ``files``) from a backup; return the backup's manifest.

    Nothing is changed before the whole archive is checked. Each database is written over in one transaction, so
    services may go on. With a key file the databases are encrypted, whether or not those in the backup are. Raises
    ``StateError`` for a bad archive, for one of a newer version or whose key isn't there, and for a state that isn't
    empty unless ``replace`` is set; ``BusyError`` if a run is still at work after ``wait`` seconds.
    """
    if not replace and (there := list(_present(files))):
        raise StateError(
            f"the state isn't empty: {', '.join(there)}; nothing was changed",
            way_out="--replace puts the backup in its place; make a backup of it before",
        )
    with tempfile.TemporaryDirectory(prefix=".restore-", dir=folder) as temporary:
        unpacked = Path(temporary)
        found = archive.unpack(path, unpacked)
        for name in (DATABASE, CONFIGDB):
            if name in found.parts:
                _check(unpacked / name, name, files)
        if {DATABASE, CONFIGDB} <= found.parts.keys():
            # If ConfigDB isn't restored with it, ConfigDB's digests show what was written since the backup (U18).
            with closing(open_store(with_key_file(f"sqlite:///{unpacked / DATABASE}", files.key_file))) as database:
                distrust(database)
        with _no_run_at_work(folder, wait, clock):
            for name in found.parts:
                if name in files.databases:
                    overwrite(unpacked / name, files.databases[name])
                else:
                    (unpacked / name).replace(files.secrets[name])
    return found


def _present(files: StateFiles) -> Iterator[str]:
    for each in (files.databases, files.secrets):
        yield from (name for name, path in each.items() if path.exists() and path.stat().st_size)


def _check(path: Path, name: str, files: StateFiles) -> None:
    if name not in files.databases:
        raise StateError(
            f"the backup holds {name}, and by the settings this is kept at {files.elsewhere[name]}",
            way_out="restore without that setting, or bring the content there by other means",
        )
    check_sound(path, name)
    url = with_key_file(f"sqlite:///{path}", files.key_file)
    # Opening refuses a newer version's tables and brings an older one's up to date.
    opened, tables = (open_configdb, CONFIGDB_SCHEMA) if name == CONFIGDB else (open_store, STORE)
    try:
        with closing(opened(url)) as database:
            if files.key_file is not None:
                convert(database, tables)
    except EncryptionKeyError as error:
        raise StateError(f"in the backup {error.what}; nothing was changed", way_out=error.way_out) from None


@contextlib.contextmanager
def _no_run_at_work(folder: Path, wait: float, clock: Clock) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for entry in sorted(folder.iterdir()):
            if lock := _LOCK.fullmatch(entry.name):
                stack.enter_context(run_lock(folder, int(lock[1]), wait, clock))
        yield


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


def check_sound(path: Path, name: str) -> None:
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
