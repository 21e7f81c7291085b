"""One way to open the product's databases: SQLite by default, PostgreSQL by URL, brought up to date by Alembic."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import alembic.command
import alembic.config
import sqlalchemy
from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from configdb_sync.errors import StateError

BUSY_SECONDS = 60
READS_ONLY = "configdb_sync_reads_only"


def open_database(url: str, migrations: Path) -> Engine:
    """Return an engine for a database whose schema is that of the newest of ``migrations``.

    A SQLite file is created with mode 0600; its transactions take the write lock at their start, so that none
    fails half way for another's. Raises ``StateError`` (without the URL's password) if the database can't be used.
    """
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise StateError(
            "a database URL can't be read", way_out="write sqlite:////path or postgresql+psycopg://user@host/name"
        ) from error
    shown = parsed.render_as_string(hide_password=True)
    try:
        engine = _engine(parsed)
        with _one_at_a_time(parsed), engine.connect() as connection:
            _migrate(connection, migrations)
    except (SQLAlchemyError, OSError, ModuleNotFoundError) as error:
        reason = (
            type(error.orig).__name__
            if isinstance(error, sqlalchemy.exc.DBAPIError) and error.orig
            else type(error).__name__
        )
        detail = str(getattr(error, "orig", None) or error).splitlines()[0]
        raise StateError(f"the database {shown} can't be used: {reason}: {detail}") from error
    return engine


def _engine(url: sqlalchemy.URL) -> Engine:
    if url.get_backend_name() != "sqlite":
        return sqlalchemy.create_engine(url, pool_pre_ping=True)
    if url.database and url.database != ":memory:":
        Path(url.database).touch(mode=0o600, exist_ok=True)
    engine = sqlalchemy.create_engine(url, connect_args={"timeout": BUSY_SECONDS})

    @event.listens_for(engine, "connect")
    def _prepare(connection: Any, _record: Any) -> None:
        connection.isolation_level = None
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}").close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        reads = connection.get_execution_options().get(READS_ONLY)
        connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")

    return engine


def reading(engine: Engine) -> Engine:
    """Return the same database for transactions that only read: they wait for no writer."""
    return engine.execution_options(**{READS_ONLY: True})


@contextmanager
def _one_at_a_time(url: sqlalchemy.URL) -> Iterator[None]:
    if url.get_backend_name() != "sqlite" or not url.database or url.database == ":memory:":
        yield
        return
    lock = os.open(f"{url.database}.migrating", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _migrate(connection: Connection, migrations: Path) -> None:
    config = alembic.config.Config()
    config.set_main_option("script_location", str(migrations).replace("%", "%%"))
    config.attributes["connection"] = connection
    with connection.begin():
        if connection.dialect.name == "postgresql":
            connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7230917552)")
        alembic.command.upgrade(config, "head")
