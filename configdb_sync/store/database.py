"""One of the product's databases: SQLite or PostgreSQL by URL, the same to whoever uses it.

Reads run statement by statement without a transaction; writes run whole in one (SQLite: BEGIN IMMEDIATE) and again
from the start where the database says that two of them met. Nothing is cached here. Errors hide what was to be
stored: it may be a password. PostgreSQL may go away and come back, even as another server (R2;
``docs/decisions/failover.md``).
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import sqlalchemy
import sqlalchemy as sa
from sqlalchemy import (
    Column,
    Connection,
    DateTime,
    Engine,
    ExceptionContext,
    Integer,
    MetaData,
    String,
    Table,
    delete,
    event,
    func,
    insert,
    select,
    text,
)
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.sql.compiler import SQLCompiler

from configdb_sync.clock import Clock, SystemClock, new_call_id
from configdb_sync.errors import StateError
from configdb_sync.store.connections import SESSION, Outage, away, connection_parameters, key_file_of, parsed, several
from configdb_sync.store.encryption import REFUSED, Sealed, SealedText, Sealing
from configdb_sync.store.keyring import Keyring

Result = TypeVar("Result")

_TRIES = 8
_BUSY_SECONDS = 30
_PATIENCE = 20.0
_FORGET_EVERY = 1000
_MEETINGS = frozenset({"40001", "40P01"})  # PostgreSQL: serialization failure, deadlock


class Database:
    """One engine, safe to use from many threads; ``close`` gives its connections back.

    ``what`` names the database in errors. ``unavailable`` makes the error for a database that can't be asked (any
    more): ``StateError`` unless its user has a better one. ``patience`` is for how many seconds a PostgreSQL that went
    away is waited for. With ``signed`` a change whose connection is lost at COMMIT is found again (``commits``); the
    table for it must be there. The URL may name the keys that contents are sealed with (``sealing``); ``settle`` asks
    the database anew whether they are.
    """

    signed = False
    settle: Callable[[], None] | None = None

    def __init__(
        self,
        url: str,
        *,
        what: str,
        connections: int = 8,
        unavailable: Callable[[], Exception] | None = None,
        patience: float = _PATIENCE,
        clock: Clock | None = None,
    ) -> None:
        """Raise ``StateError`` for a URL that isn't SQLite's or PostgreSQL's, or an unusable file.

        Raises ``SettingsError`` for a key file that can't be used.
        """
        self.what = what
        self.url, key_file = key_file_of(parsed(url, what))
        self.sealing = Sealing(what, None if key_file is None else Keyring(key_file))
        self.unavailable = unavailable or self._unusable
        self.dialect = self.url.get_backend_name()
        self.postgresql = self.dialect == "postgresql"
        self._engine = _engine(self.url, what, connections)
        self.sealing.of(self._engine.dialect)
        self._outage = Outage(clock or SystemClock(), patience, expected=several(self.url))
        self._written = itertools.count(1)
        self._cursors: deque[Any] = deque()
        self._complaint: type[Exception] = self._engine.dialect.loaded_dbapi.Error
        self._reader = self._engine.execution_options(isolation_level="AUTOCOMMIT") if self.postgresql else self._engine
        self._snapshot = self._engine.execution_options(
            **{"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
            if self.postgresql
            else {"configdb_begin": "BEGIN"}
        )

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

    def read(self, work: Callable[[Connection], Result], *, snapshot: bool = False) -> Result:
        """Return what ``work`` reads; with ``snapshot`` all its statements see the same state.

        Raises what ``unavailable`` gives if the database can't be asked.
        """
        reader = self._snapshot if snapshot else self._reader

        def once() -> Result:
            with reader.connect() as connection:
                return work(connection)

        return self._tried(once, meeting=False)

    def write(self, work: Callable[[Connection], Result], *, meeting: bool = False) -> Result:
        """Return what ``work`` does in one transaction; it must bear being run again from the start.

        ``meeting`` says that a broken constraint means another writer got in between, so that it is worth trying
        again; otherwise ``IntegrityError`` goes to the caller. What is returned was stored. If what ``unavailable``
        gives is raised, it wasn't, or can't be known to be.
        """
        if self.signed:
            return self._write_signed(Change(work, new_call_id()), meeting=meeting)

        def once() -> Result:
            try:
                with self.transaction() as connection:
                    return work(connection)
            except OutcomeUnknownError as error:
                raise self.unavailable() from error.__cause__

        return self._tried(once, meeting=meeting)

    def _write_signed(self, change: Change[Result], *, meeting: bool) -> Result:
        def once() -> Result:
            if not (change.unknown and self._stored(change)):
                try:
                    with self.transaction() as connection:
                        change.attempt(connection)
                except OutcomeUnknownError:
                    change.unknown = True
                    raise
                except IntegrityError:
                    # The first attempt's server may have been at work until now.
                    if not (change.unknown and self._stored(change)):
                        raise
            return change.results[-1]

        result = self._tried(once, meeting=meeting)
        if not next(self._written) % _FORGET_EVERY:
            self._tried_once(forget_old)
        return result

    def _stored(self, change: Change[Any]) -> bool:
        with self.reading() as connection:
            return change.stored(connection)

    def _tried_once(self, work: Callable[[Connection], object]) -> None:
        """Do what may as well be done another time."""
        passing = (DBAPIError, OutcomeUnknownError, sqlalchemy.exc.TimeoutError)
        with contextlib.suppress(*passing), self.transaction() as connection:
            work(connection)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A writing transaction as a context, never repeated. Raises ``OutcomeUnknownError`` if its end isn't known."""
        with self._engine.connect().execution_options(configdb_begin="BEGIN IMMEDIATE") as connection:
            transaction = connection.begin()
            yield connection
            try:
                transaction.commit()
            except DBAPIError as error:
                if self.postgresql and away(error):
                    raise OutcomeUnknownError from error
                raise

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

    def patiently(self, once: Callable[[], Result]) -> Result:
        """Return what ``once`` returns, tried again while PostgreSQL is away for now. Its errors come through."""
        waited = 0
        while True:
            try:
                result = once()
            except OutcomeUnknownError:
                if not self._outage.wait(waited):
                    raise
            except DBAPIError as error:
                if not (self.postgresql and away(error) and self._outage.wait(waited)):
                    raise
            else:
                self._outage.over()
                return result
            waited += 1

    def _tried(self, once: Callable[[], Result], *, meeting: bool) -> Result:
        for left in range(_TRIES - 1, -1, -1):
            try:
                return self.patiently(once)
            except IntegrityError as error:
                if left and self.settle is not None and REFUSED in str(error.orig):
                    self.settle()
                elif not meeting or not left:
                    raise
            except OutcomeUnknownError as error:
                raise self.unavailable() from error.__cause__
            except DBAPIError as error:
                if getattr(error.orig, "sqlstate", None) not in _MEETINGS or not left:
                    raise self.unavailable() from error
            except sqlalchemy.exc.TimeoutError as error:
                raise self.unavailable() from error
        raise AssertionError  # the last try either returned or raised

    def _unusable(self) -> StateError:
        # The driver's own text may hold the database's address and parameters.
        where = self.url.render_as_string(hide_password=True)
        return StateError(f"{self.what} {where} can't be used now", way_out="is it there, and not full or locked?")


def _engine(url: sqlalchemy.URL, what: str, connections: int) -> Engine:
    try:
        if url.get_backend_name() == "postgresql":
            engine = sqlalchemy.create_engine(
                url,
                pool_size=connections,
                max_overflow=connections,
                pool_timeout=30,
                hide_parameters=True,
                connect_args=connection_parameters(url),
            )
            event.listen(engine, "connect", _bound)
            event.listen(engine, "handle_error", _leave_standby)
            return engine
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
    if (begin := connection.get_execution_options().get("configdb_begin")) is not None:
        connection.exec_driver_sql(begin)


def _bound(connection: Any, _record: object) -> None:
    connection.autocommit = True
    connection.execute(SESSION)
    connection.autocommit = False


def _leave_standby(context: ExceptionContext) -> None:
    # A connection that leads to a standby works as long as nothing is changed: it must not go back into the pool.
    if getattr(context.original_exception, "sqlstate", None) == "25006":
        context.is_disconnect = True


Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class _Compiled:
    """A statement in a driver's own words: ``known`` are the values of all its parameters, ``order`` their order where
    the driver takes no names."""

    text: str
    known: dict[str, Any]
    order: tuple[str, ...] | None

    def given(self, values: dict[str, Any]) -> tuple[Any, ...] | dict[str, Any]:
        told = self.known | values
        return told if self.order is None else tuple(map(told.__getitem__, self.order))


@dataclass(frozen=True)
class Lookup:
    """A SELECT. Values come as the driver has them: texts for enumerations, SQLite's numbers for booleans."""

    statement: sa.Select[Any]
    _compiled: dict[str, _Compiled] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # The driver's own values: what is sealed would come out sealed.
        assert not any(isinstance(one.type, (Sealed, SealedText)) for one in self.statement.selected_columns)

    def rows(self, database: Database, **values: Any) -> Rows:
        """Return all rows; ``values`` are the statement's parameters. Raises as ``Database.read``."""
        compiled = self._compiled.get(database.dialect) or self._compile(database)
        found = database.fetch(compiled.text, compiled.given(values))
        if found is not None:
            return found
        # The driver complained. The ordinary way tells a lost connection from a fault, and says it as ever.
        return database.read(lambda one: [tuple(row) for row in one.execute(self.statement, values)])

    def _compile(self, database: Database) -> _Compiled:
        made = database.compiled(self.statement)
        order = tuple(made.positiontup or ()) if made.positional else None
        self._compiled[database.dialect] = _Compiled(str(made), dict(made.params), order)
        return self._compiled[database.dialect]


COMMITS = Table(
    "configdb_sync_commits",
    MetaData(),
    Column("token", String(40), primary_key=True),
    Column("attempt", Integer, nullable=False),
    Column("time", DateTime(timezone=True), nullable=False, server_default=func.now(), index=True),
)
"""Beside the tables of every room that keeps a database on PostgreSQL."""

_ADD = insert(COMMITS)
_OLD = delete(COMMITS).where(COMMITS.c.time < text("now() - interval '1 day'"))


class OutcomeUnknownError(Exception):
    """The connection was lost at COMMIT."""


@dataclass
class Change(Generic[Result]):
    """One change through all its attempts, under one token: of two attempts that overlap (the first one's server may
    still be at work) the second waits for the first and then fails."""

    work: Callable[[Connection], Result]
    token: str
    results: list[Result] = field(default_factory=list)
    unknown: bool = False

    def attempt(self, connection: Connection) -> None:
        """Do the work in a transaction that is open."""
        self.results.append(self.work(connection))
        told: dict[str, Any] = {"token": self.token, "attempt": len(self.results) - 1}
        connection.execute(_ADD, told)

    def stored(self, connection: Connection) -> bool:
        """Tell whether an attempt was committed; its result is then the last one."""
        found = connection.execute(select(COMMITS.c.attempt).where(COMMITS.c.token == self.token)).scalar()
        if found is None:
            return False
        del self.results[found + 1 :]
        return True


def forget_old(connection: Connection) -> None:
    """Drop the rows that nobody asks for any more."""
    connection.execute(_OLD)
