"""Makes a backup of the state while services and runs are at work."""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from configdb_sync import __version__
from configdb_sync.backup import archive, sqlite
from configdb_sync.backup.archive import CONFIGDB, DATABASE, SECRETS, Manifest
from configdb_sync.clock import Clock
from configdb_sync.configdb_server.schema import SCHEMA as CONFIGDB_SCHEMA
from configdb_sync.configdb_server.schema import open_configdb
from configdb_sync.errors import StateError
from configdb_sync.state import State
from configdb_sync.store.connections import parsed, servers_of, with_key_file
from configdb_sync.store.conversion import convert
from configdb_sync.store.keyring import KeysError
from configdb_sync.store.lease import run_lock
from configdb_sync.store.opening import STORE, open_store
from configdb_sync.store.records import distrust
from configdb_sync.tenants.opening import open_registry


def make(path: Path, places: Places, now: datetime) -> Manifest:
    """Write the state's backup to a new file and return what is in it. Raises ``StateError``."""
    databases = {name: source for name, source in places.databases.items() if source.is_file()}
    secrets = {name: source for name, source in places.secrets.items() if source.is_file()}
    if not databases and not places.elsewhere:
        raise StateError("there is nothing to back up: the state has no database yet", way_out="see --state")
    try:
        # Beside the archive: what is as secret lies on the same disk, for its owner alone.
        with tempfile.TemporaryDirectory(prefix=".configdb-sync-backup-", dir=path.parent) as temporary:
            copies = {name: Path(temporary) / name for name in databases}
            sqlite.copy_all({databases[name]: copies[name] for name in databases})
            files = {**copies, **secrets}
            parts = {name: archive.part_of(file) for name, file in files.items()}
            described = Manifest(__version__, now.isoformat(timespec="seconds"), parts, places.elsewhere)
            archive.write(path, described, files)
    except OSError as error:
        raise StateError(f"the backup {path} can't be written: {error.strerror}", way_out="name another file") from None
    return described


_LOCK = re.compile(r"environment-(\d+)\.lock")


def restore(path: Path, folder: Path, places: Places, *, replace: bool, wait: float, clock: Clock) -> Manifest:
    """Make the state (``folder``, with its ``places``) what a backup says; return the backup's manifest.

    Nothing is changed before the whole archive was found good. Databases are written over in one transaction each, so
    services may go on. Where a key file is set they are encrypted then, whether or not those in the backup are. Raises
    ``StateError`` for a bad archive, for one of a newer version or whose key isn't there, and for a state that isn't
    empty unless ``replace`` is set; ``BusyError`` if a run is still at work after ``wait`` seconds.
    """
    if not replace and (there := list(_there(places))):
        raise StateError(
            f"the state isn't empty: {', '.join(there)}; nothing was changed",
            way_out="--replace puts the backup in its place; make a backup of it before",
        )
    with tempfile.TemporaryDirectory(prefix=".restore-", dir=folder) as temporary:
        unpacked = Path(temporary)
        found = archive.unpack(path, unpacked)
        for name in (DATABASE, CONFIGDB):
            if name in found.parts:
                _check(unpacked / name, name, places)
        if {DATABASE, CONFIGDB} <= found.parts.keys():
            # A ConfigDB elsewhere goes on meanwhile, and tells by its digests what was written since (U18).
            with closing(open_store(with_key_file(f"sqlite:///{unpacked / DATABASE}", places.key_file))) as database:
                distrust(database)
        with _no_run_at_work(folder, wait, clock):
            for name in found.parts:
                if name in places.databases:
                    sqlite.lay_over(unpacked / name, places.databases[name])
                else:
                    (unpacked / name).replace(places.secrets[name])
    return found


def _there(places: Places) -> Iterator[str]:
    for each in (places.databases, places.secrets):
        yield from (name for name, path in each.items() if path.exists() and path.stat().st_size)


def _check(path: Path, name: str, places: Places) -> None:
    if name not in places.databases:
        raise StateError(
            f"the backup holds {name}, and by the settings this is kept at {places.elsewhere[name]}",
            way_out="restore without that setting, or bring the content there by other means",
        )
    sqlite.check(path, name)
    url = with_key_file(f"sqlite:///{path}", places.key_file)
    # A newer version's tables are refused by this, an older one's are brought up to date.
    opened, schema = (open_configdb, CONFIGDB_SCHEMA) if name == CONFIGDB else (open_store, STORE)
    try:
        with closing(opened(url)) as database:
            if places.key_file is not None:
                convert(database, schema)
    except KeysError as error:
        raise StateError(f"in the backup {error.what}; nothing was changed", way_out=error.way_out) from None
    if name == DATABASE:
        open_registry(url, connections=1).close()


@contextlib.contextmanager
def _no_run_at_work(folder: Path, wait: float, clock: Clock) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for entry in sorted(folder.iterdir()):
            if lock := _LOCK.fullmatch(entry.name):
                stack.enter_context(run_lock(folder, int(lock[1]), wait, clock))
        yield


@dataclass(frozen=True)
class Places:
    """``databases``: SQLite's files by their part's name; ``secrets``: the state folder's small files by theirs;
    ``elsewhere``: databases of another kind by their part's name, each its address without a password; ``key_file``:
    what the databases are encrypted with, which is no part of a backup."""

    databases: Mapping[str, Path]
    secrets: Mapping[str, Path]
    elsewhere: Mapping[str, str]
    key_file: Path | None = None


def places_of(state: State, database: str, configdb_database: str, key_file: Path | None = None) -> Places:
    """Return where everything is, whether it is there or not. Raises ``StateError`` for a URL that is none."""
    databases: dict[str, Path] = {}
    elsewhere: dict[str, str] = {}
    for name, text in ((DATABASE, database), (CONFIGDB, configdb_database)):
        url = parsed(text, name)
        if url.get_backend_name() == "sqlite" and url.database:
            databases[name] = Path(url.database)
        else:
            elsewhere[name] = f"{url.get_backend_name()}://{servers_of(url)}/{url.database or ''}"
    return Places(databases, {name: state.folder / name for name in SECRETS}, elsewhere, key_file)
