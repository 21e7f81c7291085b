"""One of the product's databases: SQLite or PostgreSQL by URL, the same to whoever uses it.

Reads run statement by statement without a transaction; writes run whole in one (SQLite: BEGIN IMMEDIATE) and again
from the start where the database says that two of them met. Nothing is cached here. Errors hide what was to be
stored: it may be a password.
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy
from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, NoSuchModuleError
from sqlalchemy.sql.compiler import SQLCompiler

from configdb_sync.errors import StateError

Result = TypeVar("Result")

_TRIES = 8
_BUSY_SECONDS = 30
_MEETINGS = frozenset({"40001", "40P01"})  # PostgreSQL: serialization failure, deadlock


class Database:
    """One engine, safe to use from many threads; ``close`` gives its connections back.

    ``what`` names the database in errors. ``unavailable`` makes the error for a database that can't be asked (any
    more): ``StateError`` unless its user has a better one.
    """

    def __init__(
        self,
        url: str,
        *,
        what: str,
        connections: int = 8,
        unavailable: Callable[[], Exception] | None = None,
    ) -> None:
        """Raise ``StateError`` for a URL that isn't SQLite's or PostgreSQL's, or an unusable file."""
        self.what = what
        self.url = _parsed(url, what)
        self._unavailable = unavailable or self._unusable
        self.dialect = self.url.get_backend_name()
        self.postgresql = self.dialect == "postgresql"
        self._engine = _engine(self.url, what, connections)
        self._cursors: deque[Any] = deque()
        self._complaint: type[Exception] = self._engine.dialect.loaded_dbapi.Error
        self._reader = self._engine.execution_options(isolation_level="AUTOCOMMIT") if self.postgresql else self._engine

    def close(self) -> None:
        """Close the connections that no one uses."""
        with contextlib.suppress(IndexError):
            while True:
                self._cursors.pop().connection.close()
        self._engine.dispose()

    def insert(self, table: sqlalchemy.Table) -> Any:
        """Return the dialect's INSERT, which knows ``on_conflict_do_nothing``."""
        from sqlalchemy.dialects import postgresql, sqlite

        return postgresql.insert(table) if self.postgresql else sqlite.insert(table)

    def read(self, work: Callable[[Connection], Result]) -> Result:
        """Return what ``work`` reads. Raises what ``unavailable`` gives if it can't be asked."""

        def once() -> Result:
            with self.reading() as connection:
                return work(connection)

        return self._tried(once, meeting=False)

    def write(self, work: Callable[[Connection], Result], *, meeting: bool = False) -> Result:
        """Return what ``work`` does in one transaction; it must bear being run again from the start.

        ``meeting`` says that a broken constraint means another writer got in between, so that it is worth trying
        again; otherwise ``IntegrityError`` goes to the caller.
        """

        def once() -> Result:
            with self.transaction() as connection:
                return work(connection)

        return self._tried(once, meeting=meeting)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A writing transaction as a context, never repeated."""
        with self._engine.connect().execution_options(configdb_write=True) as connection, connection.begin():
            yield connection

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection to read by, each statement for itself, never repeated."""
        with self._reader.connect() as connection:
            yield connection

    def compiled(self, statement: sqlalchemy.Select[Any]) -> SQLCompiler:
        """Return a statement in the words of this database's driver."""
        made = statement.compile(dialect=self._engine.dialect)
        assert isinstance(made, SQLCompiler)
        return made

    def fetch(self, text: str, values: Any) -> list[tuple[Any, ...]] | None:
        """Return the rows of one SELECT in the driver's own words, None if the driver complained. See ``Lookup``."""
        cursor: Any = None
        try:
            # Not from the pool: its ways cost as much as the query. Both calls are atomic.
            cursor = self._cursors.pop() if self._cursors else self._cursor()
            cursor.execute(text, values)
            rows: list[tuple[Any, ...]] = cursor.fetchall()
        except (IndexError, DBAPIError, sqlalchemy.exc.TimeoutError):
            return None  # another thread was quicker, or there is no connection to be had
        except self._complaint:
            cursor.connection.close()
            return None
        self._cursors.append(cursor)
        return rows

    def _cursor(self) -> Any:
        """Return a cursor on a connection of the driver's own, that no pool counts and that knows no transactions."""
        lent = self._engine.raw_connection()
        driver: Any = lent.driver_connection
        lent.detach()
        if self.postgresql:
            driver.autocommit = True  # BEGIN and ROLLBACK take as long as the query
        return driver.cursor()

    def _tried(self, once: Callable[[], Result], *, meeting: bool) -> Result:
        for left in range(_TRIES - 1, -1, -1):
            try:
                return once()
            except IntegrityError:
                if not meeting or not left:
                    raise
            except DBAPIError as error:
                again = error.connection_invalidated or getattr(error.orig, "sqlstate", None) in _MEETINGS
                if not again or not left:
                    raise self._unavailable() from error
            except sqlalchemy.exc.TimeoutError as error:
                raise self._unavailable() from error
        raise AssertionError  # the last try either returned or raised

    def _unusable(self) -> StateError:
        # The driver's own text may hold the database's address and parameters.
        where = self.url.render_as_string(hide_password=True)
        return StateError(f"{self.what} {where} can't be used now", way_out="is it there, and not full or locked?")


def _parsed(text: str, what: str) -> sqlalchemy.URL:
    try:
        url = sqlalchemy.make_url(text)
        backend = url.get_backend_name()
    except (ArgumentError, NoSuchModuleError, ValueError):
        raise StateError(
            f"the URL of {what} can't be read",
            way_out="sqlite:////path/file or postgresql://host/name",
        ) from None
    if backend == "postgresql":
        return url.set(drivername="postgresql+psycopg")
    if backend != "sqlite":
        raise StateError(f"{what} can't be kept in {backend}", way_out="use sqlite:// or postgresql://")
    if not url.database or url.database == ":memory:" or url.database.startswith("file:"):
        raise StateError(f"{what} can't be kept in memory", way_out="name a file: sqlite:////path/file")
    return url


def _engine(url: sqlalchemy.URL, what: str, connections: int) -> Engine:
    try:
        if url.get_backend_name() == "postgresql":
            return sqlalchemy.create_engine(
                url, pool_size=connections, max_overflow=connections, pool_timeout=30, hide_parameters=True
            )
        _born_closed(Path(url.database or ""), what)
        engine = sqlalchemy.create_engine(
            url,
            pool_size=connections,
            max_overflow=connections,
            pool_timeout=60,
            pool_use_lifo=True,
            hide_parameters=True,
            connect_args={"timeout": _BUSY_SECONDS, "check_same_thread": False},
        )
    except ModuleNotFoundError as error:
        raise StateError(
            f"the database driver {error.name} isn't installed",
            way_out="pip install 'configdb-sync[postgresql]'",
        ) from None
    event.listen(engine, "connect", _set_up)
    event.listen(engine, "begin", _begin)
    return engine


def _born_closed(path: Path, what: str) -> None:
    # It holds passwords; SQLite would create it under the umask, and its side files take its mode.
    try:
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except OSError as error:
        raise StateError(f"{what} {path} can't be used: {error.strerror}") from None


def _set_up(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # no BEGIN of the driver's own: it would be a deferred one
    cursor = connection.cursor()
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.close()


def _begin(connection: Connection) -> None:
    if connection.get_execution_options().get("configdb_write"):
        connection.exec_driver_sql("BEGIN IMMEDIATE")
