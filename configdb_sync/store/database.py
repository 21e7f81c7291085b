"""A database: SQLite or PostgreSQL by URL, the same for its users.

Reads run statement by statement without a transaction. A write runs whole in one transaction (SQLite: BEGIN IMMEDIATE),
and again from the start if the database says that two writers met. Nothing is cached here. Errors don't show the values
to be stored: they may be passwords. PostgreSQL may go away and come back, even as another server (R2;
``docs/decisions/failover.md``).
"""

from __future__ import annotations

import contextlib
import itertools
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.sql.compiler import SQLCompiler

from configdb_sync.clock import Clock, SystemClock, new_call_id
from configdb_sync.errors import StateError
from configdb_sync.store.encryption import REFUSED, Sealed, SealedText, Sealing
from configdb_sync.store.engine import Outage, away, engine_of, key_file_of, parsed, several
from configdb_sync.store.keyring import Keyring

Result = TypeVar("Result")
Rows = list[tuple[Any, ...]]

_TRIES = 8
_PATIENCE = 20.0
_FORGET_EVERY = 1000
_MEETINGS = frozenset({"40001", "40P01"})  # PostgreSQL: serialization failure, deadlock

COMMITS = sa.Table(
    "configdb_sync_commits",
    sa.MetaData(),
    sa.Column("token", sa.String(40), primary_key=True),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("time", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now(), index=True),
)
"""The writes of a day: in every database on PostgreSQL, beside its other tables."""


def insert_of(dialect: str) -> Callable[[sa.Table], Any]:
    """Return a dialect's INSERT, which knows ``on_conflict_do_nothing``."""
    # Each dialect takes long to load, and a process needs one.
    if dialect == "postgresql":
        from sqlalchemy.dialects.postgresql import insert

        return insert
    from sqlalchemy.dialects import sqlite

    return sqlite.insert


class OutcomeUnknownError(Exception):
    """The connection was lost at COMMIT."""


@dataclass
class _SignedWrite(Generic[Result]):
    """A write that stores a token in the same transaction. If its connection is lost at COMMIT, the token shows whether
    the write was committed (R2).

    Without the token the write could only be reported as failed though it is stored, or be repeated, perhaps over what
    another has written since. Transaction ids don't help: a promoted standby gives them out again. All attempts have
    one token: if two overlap (the first one's server may still be at work) the second waits and then fails.
    """

    work: Callable[[Connection], Result]
    token: str
    results: list[Result] = field(default_factory=list)
    unknown: bool = False

    def attempt(self, connection: Connection) -> None:
        """Do the work in a transaction that is open."""
        self.results.append(self.work(connection))
        row = {"token": self.token, "attempt": len(self.results) - 1}
        connection.execute(sa.insert(COMMITS), row)

    def stored(self, connection: Connection) -> bool:
        """Tell whether an attempt was committed; its result is then the last one."""
        query = sa.select(COMMITS.c.attempt).where(COMMITS.c.token == self.token)
        found = connection.execute(query).scalar()
        if found is None:
            return False
        del self.results[found + 1 :]
        return True


class Database:
    """One engine, safe to use from many threads; ``close`` gives its connections back.

    ``what`` names the database in errors. ``unavailable`` makes the error for a database that can't be asked (any
    more): ``StateError`` unless its user has a better one. ``patience`` is for how many seconds to wait for a
    PostgreSQL that went away. With ``signed`` a write whose connection is lost at COMMIT is found again
    (``COMMITS``, which must be there). The URL may name the keys that contents are encrypted with (``encryption``);
    ``settle`` asks the database anew whether they are.
    """

    signed = False
    settle: Callable[[], None] | None = None

    def __init__(
        self,
        url: str,
        *,
        what: str,
        connections: int = 8,
        patience: float = _PATIENCE,
        clock: Clock | None = None,
    ) -> None:
        """Raise ``StateError`` for a URL that isn't SQLite's or PostgreSQL's, or an unusable file.

        Raises ``SettingsError`` for a key file that can't be used.
        """
        self.what = what
        self.url, key_file = key_file_of(parsed(url, what))
        self.sealing = Sealing(what, None if key_file is None else Keyring(key_file))
        self.unavailable: Callable[[], Exception] = self._unusable
        self.dialect = self.url.get_backend_name()
        self.postgresql = self.dialect == "postgresql"
        self._engine = engine_of(self.url, what, connections)
        self.sealing.of(self._engine.dialect)
        self._outage = Outage(clock or SystemClock(), patience, expected=several(self.url))
        self._written = itertools.count(1)
        self._cursors: deque[Any] = deque()
        self._driver_error: type[Exception] = self._engine.dialect.loaded_dbapi.Error
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

    def insert(self, table: sa.Table) -> Any:
        """Return the dialect's INSERT, which knows ``on_conflict_do_nothing``."""
        return insert_of(self.dialect)(table)

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
        """Return what ``work`` does in one transaction; it may be run again from the start.

        ``meeting``: a broken constraint means that another writer got in between, so the write is tried again;
        otherwise the caller gets ``IntegrityError``. A result was stored. If the error of ``unavailable`` is raised,
        it wasn't, or this can't be known.
        """
        if self.signed:
            return self._write_signed(_SignedWrite(work, new_call_id()), meeting=meeting)

        def once() -> Result:
            try:
                with self.transaction() as connection:
                    return work(connection)
            except OutcomeUnknownError as error:
                raise self.unavailable() from error.__cause__

        return self._tried(once, meeting=meeting)

    def _write_signed(self, write: _SignedWrite[Result], *, meeting: bool) -> Result:
        def stored() -> bool:
            if not write.unknown:
                return False
            with self.reading() as connection:
                return write.stored(connection)

        def once() -> Result:
            if not stored():
                try:
                    with self.transaction() as connection:
                        write.attempt(connection)
                except OutcomeUnknownError:
                    write.unknown = True
                    raise
                except IntegrityError:
                    # The first attempt's server may have been at work until now.
                    if not stored():
                        raise
            return write.results[-1]

        result = self._tried(once, meeting=meeting)
        if not next(self._written) % _FORGET_EVERY:
            # What fails here is done after the next thousand writes.
            passing = (DBAPIError, OutcomeUnknownError, PoolTimeoutError)
            with contextlib.suppress(*passing), self.transaction() as connection:
                connection.execute(sa.delete(COMMITS).where(COMMITS.c.time < sa.text("now() - interval '1 day'")))
        return result

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

    def compiled(self, statement: sa.Select[Any]) -> SQLCompiler:
        """Return a statement in the words of this database's driver."""
        made = statement.compile(dialect=self._engine.dialect)
        assert isinstance(made, SQLCompiler)
        return made

    def fetch(self, text: str, values: Any) -> Rows | None:
        """Return the rows of one SELECT in the driver's own words, None if the driver fails. See ``Lookup``."""
        cursor: Any = None
        try:
            # Not from the pool, which costs as much as the query. Both calls are atomic.
            cursor = self._cursors.pop() if self._cursors else self._cursor()
            cursor.execute(text, values)
            rows: Rows = cursor.fetchall()
        except (IndexError, DBAPIError, PoolTimeoutError):
            return None  # another thread was quicker, or there is no free connection
        except self._driver_error:
            cursor.connection.close()
            return None
        self._cursors.append(cursor)
        return rows

    def _cursor(self) -> Any:
        """Return a cursor on a connection of the driver's own, outside of the pool and without transactions."""
        lent = self._engine.raw_connection()
        driver: Any = lent.driver_connection
        lent.detach()
        if self.postgresql:
            driver.autocommit = True  # BEGIN and ROLLBACK take as long as the query
        return driver.cursor()

    def patiently(self, once: Callable[[], Result]) -> Result:
        """Return what ``once`` returns, tried again while PostgreSQL is away for now. Its errors come through."""
        for tried in itertools.count():
            try:
                result = once()
            except OutcomeUnknownError:
                if not self._outage.wait(tried):
                    raise
            except DBAPIError as error:
                if not (self.postgresql and away(error) and self._outage.wait(tried)):
                    raise
            else:
                self._outage.over()
                return result
        raise AssertionError  # the loop has no end

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
            except PoolTimeoutError as error:
                raise self.unavailable() from error
        raise AssertionError  # the last try either returned or raised

    def _unusable(self) -> StateError:
        # The driver's own text may hold the database's address and parameters.
        where = self.url.render_as_string(hide_password=True)
        return StateError(f"{self.what} {where} can't be used now", way_out="is it there, and not full or locked?")


@dataclass(frozen=True)
class _Compiled:
    """A statement in a driver's own words: ``known`` are the values of all its parameters, ``order`` their order where
    the driver takes no names."""

    text: str
    known: dict[str, Any]
    order: tuple[str, ...] | None

    def given(self, values: dict[str, Any]) -> tuple[Any, ...] | dict[str, Any]:
        merged = self.known | values
        return merged if self.order is None else tuple(map(merged.__getitem__, self.order))


@dataclass(frozen=True)
class Lookup:
    """A SELECT that nearly every request makes: compiled once, then given to the driver itself.

    SQLAlchemy's work around one statement takes several times as long as SQLite's search for a row by its key, and was
    most of a request. Only the statement's text is kept between two calls: each sees what is committed. Values come as
    the driver has them: texts for enumerations, SQLite's numbers for booleans.
    """

    statement: sa.Select[Any]
    _compiled: dict[str, _Compiled] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # The driver returns encrypted values as they are stored.
        assert not any(isinstance(one.type, (Sealed, SealedText)) for one in self.statement.selected_columns)

    def rows(self, database: Database, **values: Any) -> Rows:
        """Return all rows; ``values`` are the statement's parameters. Raises as ``Database.read``."""
        compiled = self._compiled.get(database.dialect) or self._compile(database)
        found = database.fetch(compiled.text, compiled.given(values))
        if found is not None:
            return found
        # The driver failed. The usual way tells a lost connection from a fault, with the usual errors.
        return database.read(lambda one: [tuple(row) for row in one.execute(self.statement, values)])

    def _compile(self, database: Database) -> _Compiled:
        made = database.compiled(self.statement)
        order = tuple(made.positiontup or ()) if made.positional else None
        self._compiled[database.dialect] = _Compiled(str(made), dict(made.params), order)
        return self._compiled[database.dialect]
