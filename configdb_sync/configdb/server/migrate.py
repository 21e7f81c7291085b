"""Brings the database to this version's tables, once, however many processes start at the same time."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import DBAPIError

from configdb_sync.configdb.server.database import Database
from configdb_sync.errors import StateError

HEAD = "0001"
"""The newest migration; a test keeps it true."""

FOLDER = Path(__file__).parent / "migrations"

_TABLE = "configdb_schema"
_LOCK = 0x636F6E66  # any number, the same in all processes


def opened(url: str, *, connections: int = 8) -> Database:
    """Return the database at a URL, its tables made or brought up to date.

    Raises ``StateError`` if it can't be reached or was made by a newer version.
    """
    database = Database(url, connections=connections)
    try:
        _migrate(database)
    except BaseException:
        database.close()
        raise
    return database


def _migrate(database: Database) -> None:
    try:
        if _present(database) == HEAD:
            return
        with _alone(database), database.transaction() as connection:
            if database.postgresql:
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
            _upgrade(connection)
    except DBAPIError as error:
        where = database.url.render_as_string(hide_password=True)
        raise StateError(f"the ConfigDB database {where} can't be used: {_first_line(error)}") from error


def _first_line(error: DBAPIError) -> str:
    return str(error.orig).strip().partition("\n")[0]


def _present(database: Database) -> str | None:
    def work(connection: Connection) -> str | None:
        if not inspect(connection).has_table(_TABLE):
            return None
        found: str | None = connection.execute(text(f"SELECT version_num FROM {_TABLE}")).scalar()  # noqa: S608
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


def _upgrade(connection: Connection) -> None:
    # Alembic takes long to import, and most starts find the database up to date.
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes.update(connection=connection, version_table=_TABLE)
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise StateError(
            f"the ConfigDB database's tables are of another version: {error}",
            way_out="use the version of configdb-sync that made it, or a newer one",
        ) from error
