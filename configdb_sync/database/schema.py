"""Brings the database to this version's tables, once, however many processes start at the same time."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import DBAPIError

from configdb_sync.database import commits
from configdb_sync.database.database import Database
from configdb_sync.errors import StateError


@dataclass(frozen=True)
class Schema:
    """A set of tables: the folder of its migrations, the newest of them, and the table that says which one holds."""

    folder: Path
    head: str
    table: str


_LOCK = 0x636F6E66  # any number, the same in all processes


def opened(
    url: str,
    schema: Schema,
    *,
    what: str,
    connections: int = 8,
    unavailable: Callable[[], Exception] | None = None,
) -> Database:
    """Return the database at a URL, its tables made or brought up to date.

    Raises ``StateError`` if it can't be reached or was made by a newer version.
    """
    database = Database(url, what=what, connections=connections, unavailable=unavailable)
    try:
        _migrate(database, schema)
        database.signed = database.postgresql
    except BaseException:
        database.close()
        raise
    return database


def _migrate(database: Database, schema: Schema) -> None:
    def once() -> None:
        if _present(database, schema) == schema.head:
            return
        with _alone(database), database.transaction() as connection:
            if database.postgresql:
                connection.execute(text("SET LOCAL lock_timeout = 0"))  # others may have much to bring up to date
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
                commits.TABLE.create(connection, checkfirst=True)
            _upgrade(connection, schema, database.what)

    try:
        database.patiently(once)
    except (DBAPIError, commits.OutcomeUnknownError) as error:
        where = database.url.render_as_string(hide_password=True)
        raise StateError(f"{database.what} {where} can't be used: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return str(getattr(error, "orig", error.__cause__)).strip().partition("\n")[0]


def _present(database: Database, schema: Schema) -> str | None:
    def work(connection: Connection) -> str | None:
        found_tables = inspect(connection)
        if not found_tables.has_table(schema.table):
            return None
        if database.postgresql and not found_tables.has_table(commits.TABLE.name):
            return None
        found: str | None = connection.execute(text(f"SELECT version_num FROM {schema.table}")).scalar()  # noqa: S608
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


def _upgrade(connection: Connection, schema: Schema, what: str) -> None:
    # Alembic takes long to import, and most starts find the database up to date.
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(schema.folder).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes.update(connection=connection, version_table=schema.table)
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise StateError(
            f"the tables of {what} are of another version: {error}",
            way_out="use the version of configdb-sync that made it, or a newer one",
        ) from error
