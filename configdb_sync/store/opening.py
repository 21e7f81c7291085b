"""Brings the database to this version's tables, once, however many processes start at the same time."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, inspect, literal, select, text
from sqlalchemy.exc import DBAPIError

from configdb_sync.errors import StateError
from configdb_sync.store import encryption, schema
from configdb_sync.store.database import COMMITS, Database, OutcomeUnknownError
from configdb_sync.store.encryption import Marker, SealedTable


@dataclass(frozen=True)
class TableSet:
    """The tables of one database: the folder of their migrations, the newest of them, the table that says which one
    holds, and those of the tables whose contents can be encrypted (U30)."""

    folder: Path
    head: str
    table: str
    sealed: tuple[SealedTable, ...] = ()


STORE = TableSet(Path(__file__).parent / "migrations", "v0001", "configdb_sync_schema", schema.SEALED)
"""The product's own database."""

_LOG = logging.getLogger(__name__)

_LOCK = 0x636F6E66  # any number, the same in all processes


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
            database.settle = functools.partial(settle, database, tables)
            _begin_sealed(database, tables)
            database.settle()
        database.unavailable = unavailable or database.unavailable
        database.signed = database.postgresql
    except BaseException:
        database.close()
        raise
    return database


def settle(database: Database, tables: TableSet) -> None:
    """Have a database write as it says itself. Raises ``KeysError`` if the key that this takes isn't there."""
    encryption.settle(database.sealing, database.read(functools.partial(encryption.marker_of, tables=tables.table)))


def _begin_sealed(database: Database, tables: TableSet) -> None:
    """Have a database that holds nothing yet keep its contents sealed, if there are keys."""

    def work(connection: Connection) -> bool:
        alone(connection)
        if encryption.marker_of(connection, tables.table) is not None:
            return True
        assert database.sealing.keyring is not None
        for one in tables.sealed:
            if connection.execute(select(literal(1)).select_from(one.table).limit(1)).first() is not None:
                return False
        marker = Marker(sealed=True, key=database.sealing.keyring.primary.id)
        encryption.mark(connection, tables.table, marker, tables.sealed)
        return True

    if database.sealing.keyring is None:
        return
    there = database.read(functools.partial(encryption.marker_of, tables=tables.table)) is not None
    if not there and not database.write(work, meeting=True):
        _LOG.warning("%s isn't encrypted, though key_file is set: `configdb-sync keys convert` does it", database.what)


def _migrate(database: Database, tables: TableSet) -> None:
    def once() -> None:
        if _present(database, tables) == tables.head:
            return
        with _alone(database), database.transaction() as connection:
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
        raise StateError(f"{database.what} {where} can't be used: {_first_line(error)}") from error


def alone(connection: Connection) -> None:
    """Wait until no other process changes tables; until the transaction ends none begins."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SET LOCAL lock_timeout = 0"))  # others may have much to bring up to date
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})


def _first_line(error: Exception) -> str:
    return str(getattr(error, "orig", error.__cause__)).strip().partition("\n")[0]


def _present(database: Database, tables: TableSet) -> str | None:
    def work(connection: Connection) -> str | None:
        found_tables = inspect(connection)
        if not found_tables.has_table(tables.table):
            return None
        if database.postgresql and not found_tables.has_table(COMMITS.name):
            return None
        found: str | None = connection.execute(text(f"SELECT version_num FROM {tables.table}")).scalar()  # noqa: S608
        return found

    with database.reading() as connection:
        return work(connection)


@contextlib.contextmanager
def _alone(database: Database) -> Iterator[None]:
    if database.postgresql:
        yield
        return
    # Switching to WAL wants the file alone, so the first starters go one by one; the kernel frees the lock.
    lock = os.open(f"{database.url.database}.lock", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with database.reading() as connection:
            connection.exec_driver_sql("PRAGMA journal_mode=WAL")
        yield
    finally:
        os.close(lock)


def _upgrade(connection: Connection, tables: TableSet, what: str) -> None:
    # Alembic takes long to import, and most starts find the database up to date.
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(tables.folder).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
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
