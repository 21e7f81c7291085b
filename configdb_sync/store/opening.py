"""Opens a database and creates or upgrades its tables, once, however many processes start."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from configdb_sync.errors import StateError
from configdb_sync.store import encryption, engine, schema
from configdb_sync.store.database import COMMITS, Database, OutcomeUnknownError
from configdb_sync.store.encryption import Marker, SealedTable

_MIGRATIONS = Path(__file__).parent / "migrations"
_LOCK = 0x636F6E66  # any number, the same in all processes
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class TableSet:
    """The tables of one database: the folder with the ``versions`` of their migrations, the newest of them, the table
    that holds the current one's name, and those of the tables whose contents can be encrypted (U30)."""

    folder: Path
    head: str
    table: str
    sealed: tuple[SealedTable, ...] = ()


STORE = TableSet(_MIGRATIONS, "v0003", "configdb_sync_schema", schema.SEALED)
"""The product's own database."""


def open_store(url: str, *, connections: int = 8, unavailable: Callable[[], Exception] | None = None) -> Database:
    """Return the product's own database, its tables up to date; raises as ``opened``."""
    return opened(url, STORE, what="the product's own database", connections=connections, unavailable=unavailable)


def opened(
    url: str,
    tables: TableSet,
    *,
    what: str,
    connections: int = 8,
    unavailable: Callable[[], Exception] | None = None,
) -> Database:
    """Return the database at a URL, its tables made or brought up to date.

    Raises ``StateError`` if it can't be reached, was made by a newer version, or is encrypted and the key isn't there;
    ``SettingsError`` for a key file that can't be used.
    """
    database = Database(url, what=what, connections=connections)
    try:
        _migrate(database, tables)
        if tables.sealed:
            database.settle = functools.partial(_settle, database, tables)
            _encrypt_if_empty(database, tables)
            database.settle()
        database.unavailable = unavailable or database.unavailable
        database.signed = database.postgresql
    except BaseException:
        database.close()
        raise
    return database


def is_current(url: str, tables: TableSet, *, what: str) -> bool:
    """Tell whether the database at a URL has the newest tables; it stays as it is. Raises ``StateError``."""
    with contextlib.closing(Database(url, what=what, patience=0)) as database:
        return _version(database, tables) == tables.head


def alone(connection: Connection) -> None:
    """Wait until no other process changes tables; none begins to until the transaction ends."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text("SET LOCAL lock_timeout = 0"))  # others may have much to bring up to date
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})


def _marker(database: Database, tables: TableSet) -> Marker | None:
    return database.read(lambda connection: encryption.marker_of(connection, tables.table))


def _settle(database: Database, tables: TableSet) -> None:
    """Have a database write as its marker says. Raises ``EncryptionKeyError`` if the key for it isn't there."""
    encryption.settle(database.sealing, _marker(database, tables))


def _encrypt_if_empty(database: Database, tables: TableSet) -> None:
    """Have a database that holds nothing yet encrypt its contents, if there are keys."""
    keyring = database.sealing.keyring
    if keyring is None:
        return

    def work(connection: Connection) -> bool:
        alone(connection)
        if encryption.marker_of(connection, tables.table) is not None:
            return True
        for one in tables.sealed:
            if connection.execute(sa.select(sa.literal(1)).select_from(one.table).limit(1)).first() is not None:
                return False
        encryption.mark(connection, tables.table, Marker(sealed=True, key=keyring.primary.id), tables.sealed)
        return True

    if _marker(database, tables) is None and not database.write(work, meeting=True):
        _LOG.warning("%s isn't encrypted, though key_file is set: `configdb-sync keys convert` does it", database.what)


def _migrate(database: Database, tables: TableSet) -> None:
    def once() -> None:
        if _version(database, tables) == tables.head:
            return
        with _file_lock(database), database.transaction() as connection:
            if database.postgresql:
                alone(connection)
                COMMITS.create(connection, checkfirst=True)
            _upgrade(connection, tables, database.what)
            if (marker := encryption.marker_of(connection, tables.table)) is not None:
                for one in tables.sealed:
                    encryption.guard(connection, one, sealed=marker.sealed)

    try:
        database.patiently(once)
    except (DBAPIError, OutcomeUnknownError) as error:
        where = database.url.render_as_string(hide_password=True)
        reason = str(getattr(error, "orig", error.__cause__)).strip().partition("\n")[0]
        raise StateError(f"{database.what} {where} can't be used: {reason}", way_out="is its URL right?") from error


def _version(database: Database, tables: TableSet) -> str | None:
    with database.reading() as connection:
        inspector = sa.inspect(connection)
        if not inspector.has_table(tables.table):
            return None
        if database.postgresql and not inspector.has_table(COMMITS.name):
            return None
        found: str | None = connection.execute(sa.text(f"SELECT version_num FROM {tables.table}")).scalar()  # noqa: S608
        return found


@contextlib.contextmanager
def _file_lock(database: Database) -> Iterator[None]:
    if database.postgresql:
        yield
        return
    # Switching to WAL needs the file for one process alone: the first ones start one by one. The kernel frees the lock.
    lock = os.open(f"{database.url.database}.lock", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with database.reading() as connection:
            engine.use_wal(connection.exec_driver_sql)
        yield
    finally:
        os.close(lock)


def _upgrade(connection: Connection, tables: TableSet, what: str) -> None:
    # Alembic takes long to import, and most starts find the database up to date.
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("path_separator", "os")
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.set_main_option("version_locations", str(tables.folder / "versions").replace("%", "%%"))
    config.attributes.update(connection=connection, version_table=tables.table)
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise StateError(
            f"the tables of {what} are of another version: {error}",
            way_out="use the version of configdb-sync that made them, or a newer one; tables from before 0.1.0 can't be"
            " brought up to date: `configdb-sync dump` with the version that made them, and `load` with this one into a"
            " new database",
        ) from error
