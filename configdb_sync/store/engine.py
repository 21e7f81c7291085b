"""The engine of a database: SQLite's or PostgreSQL's by URL, and how long to wait while PostgreSQL is away (R2).

PostgreSQL's URL may name several servers, of which one is the primary: ``postgresql://user@one:5432,two:5432/name`` as
libpq takes it, or ``?host=one:5432&host=two:5432`` as SQLAlchemy does. ``docs/decisions/failover.md``.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy
from sqlalchemy import Connection, Engine, ExceptionContext, event
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, OperationalError

from configdb_sync.clock import Clock
from configdb_sync.closed_files import new_closed
from configdb_sync.errors import StateError

_SERVERS = re.compile(r"(?P<head>[^/?#]+://(?:[^/?#]*@)?)(?P<servers>[^/?#@]*,[^/?#@]*)(?P<rest>.*)", re.DOTALL)
_KEYS = "key_file"
_BUSY_SECONDS = 30
_TRIES = 8

_CONNECTION = {
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}
"""libpq's parameters: without them a client waits for hours for a server that lost its power."""

_SESSION = """
SET idle_in_transaction_session_timeout = '60s';
SET lock_timeout = '30s';
SET tcp_keepalives_idle = 10;
SET tcp_keepalives_interval = 5;
SET tcp_keepalives_count = 3
"""
"""What each session asks of the server: a client that lost its power mustn't hold locks for hours."""

_AWAY = frozenset({"57P01", "57P02", "57P03", "25006", "53300"})
"""PostgreSQL: shut down, crashed, starting, a standby, no connection left."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0


def parsed(text: str, what: str) -> sqlalchemy.URL:
    """Return the URL of ``what``. Raises ``StateError``, which doesn't show the text: it may hold a password."""
    servers = _SERVERS.fullmatch(text)
    try:
        url = sqlalchemy.make_url(text if servers is None else servers["head"] + servers["rest"])
        backend = url.get_backend_name()
        if backend == "postgresql":
            named = () if servers is None else [("host", server) for server in servers["servers"].split(",")]
            url = url.update_query_pairs(named, append=True).set(drivername="postgresql+psycopg")
            # This call checks the ports of several servers.
            url.get_dialect()().create_connect_args(url)
            return url
    except (ArgumentError, NoSuchModuleError, ValueError):
        raise StateError(
            f"the URL of {what} can't be read",
            way_out="sqlite:////path/file or postgresql://host/name",
        ) from None
    if backend != "sqlite":
        raise StateError(f"{what} can't be kept in {backend}", way_out="use sqlite:// or postgresql://")
    if not url.database or url.database == ":memory:" or url.database.startswith("file:"):
        raise StateError(f"{what} can't be kept in memory", way_out="name a file: sqlite:////path/file")
    return url


def with_key_file(text: str, path: Path | None) -> str:
    """Return a database's URL that also names the file of its encryption keys (U30)."""
    if path is None:
        return text
    return f"{text}{'&' if '?' in text else '?'}{_KEYS}={quote(str(path.absolute()), safe='/')}"


def key_file_of(url: sqlalchemy.URL) -> tuple[sqlalchemy.URL, Path | None]:
    """Return a URL without the key file that it names, and the file."""
    named = url.query.get(_KEYS)
    if named is None:
        return url, None
    return url.difference_update_query([_KEYS]), Path(named if isinstance(named, str) else named[-1])


def servers_of(url: sqlalchemy.URL) -> str:
    """Return the server that a URL names, or all of them as libpq takes them."""
    named = url.query.get("host", url.host or "")
    return named if isinstance(named, str) else ",".join(named)


def several(url: sqlalchemy.URL) -> bool:
    """Tell whether a URL names several servers."""
    return "," in servers_of(url)


def connection_parameters(url: sqlalchemy.URL) -> dict[str, Any]:
    """Return libpq's parameters, except those that the URL sets itself. Of several servers only the primary is used:
    the others refuse every change."""
    wanted = {**_CONNECTION, "target_session_attrs": "read-write"} if several(url) else _CONNECTION
    return {name: value for name, value in wanted.items() if name not in url.query}


def engine_of(url: sqlalchemy.URL, what: str, connections: int) -> Engine:
    """Return the engine of ``what``, with so many connections, twice as many at peaks.

    Raises ``StateError`` if the driver is missing, or SQLite's file can't be made.
    """
    postgresql = url.get_backend_name() == "postgresql"
    if postgresql:
        arguments, pool = connection_parameters(url), {"pool_timeout": 30}
    else:
        _create_closed(Path(url.database or ""), what)
        arguments = {"timeout": _BUSY_SECONDS, "check_same_thread": False}
        pool = {"pool_timeout": 60, "pool_use_lifo": True}
    try:
        engine = sqlalchemy.create_engine(
            url,
            pool_size=connections,
            max_overflow=connections,
            hide_parameters=True,
            connect_args=arguments,
            **pool,
        )
    except ModuleNotFoundError as error:
        raise StateError(
            f"the database driver {error.name} isn't installed",
            way_out="pip install 'configdb-sync[postgresql]'",
        ) from None
    if postgresql:
        event.listen(engine, "connect", _set_up_postgresql)
        event.listen(engine, "handle_error", _leave_standby)
    else:
        event.listen(engine, "connect", _set_up_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    return engine


def _create_closed(path: Path, what: str) -> None:
    # It holds passwords; SQLite would create it under the umask, and its side files take its mode.
    try:
        with contextlib.suppress(FileExistsError), new_closed(path):
            pass
    except OSError as error:
        raise StateError(
            f"{what} {path} can't be used: {error.strerror}", way_out="name a file in a folder that is there"
        ) from None


def _set_up_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # no BEGIN of the driver's own: it would be a deferred one
    cursor = connection.cursor()
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    if (begin := connection.get_execution_options().get("configdb_begin")) is not None:
        connection.exec_driver_sql(begin)


def use_wal(execute: Callable[[str], object]) -> None:
    """Switch an SQLite database to WAL, where readers don't wait for a writer; ``execute`` runs a statement outside of
    a transaction. Raises its ``OperationalError`` if the database stays locked.

    SQLite refuses the switch at once while anyone reads or writes, such as a backup, whatever the timeout is. Only a
    transaction that begins waits for the others to end.
    """
    for left in range(_TRIES - 1, -1, -1):
        try:
            execute("PRAGMA journal_mode=WAL")
        except (sqlite3.OperationalError, OperationalError):
            if not left:
                raise
            execute("BEGIN EXCLUSIVE")
            execute("ROLLBACK")
        else:
            return


def _set_up_postgresql(connection: Any, _record: object) -> None:
    connection.autocommit = True
    connection.execute(_SESSION)
    connection.autocommit = False


def _leave_standby(context: ExceptionContext) -> None:
    # A connection that leads to a standby works as long as nothing is changed: it must not go back into the pool.
    if getattr(context.original_exception, "sqlstate", None) == "25006":
        context.is_disconnect = True


def away(error: DBAPIError) -> bool:
    """Tell whether PostgreSQL's error says that the server, or the way to it, is away for now."""
    state: str | None = getattr(error.orig, "sqlstate", None)
    if error.connection_invalidated or (state is None and isinstance(error, OperationalError)):
        return True
    return state is not None and (state in _AWAY or state.startswith("08"))


class Outage:
    """Whether to wait for a database that is away: restarted, or its standby is just being promoted. Thread-safe.

    All wait at most ``patience`` seconds from when the first of them found it away. Once that time is over, each asks
    once and gets the error at once, so that a service doesn't fill up with waiting requests. ``expected``: wait also
    for a database that has never answered; otherwise its address is more likely wrong.
    """

    def __init__(self, clock: Clock, patience: float, *, expected: bool) -> None:
        self._clock = clock
        self._patience = patience
        self._known = expected
        self._since: float | None = None
        self._spent = False
        self._lock = threading.Lock()

    def over(self) -> None:
        """Take note that the database answered."""
        if self._since is not None or not self._known:
            with self._lock:
                self._since, self._spent, self._known = None, False, True

    def wait(self, tried: int) -> bool:
        """Wait a little longer at each try, counted from 0; return False once the patience is over."""
        pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0**tried)
        with self._lock:
            now = self._clock.monotonic()
            if self._since is None:
                self._since = now
            self._spent = self._spent or not self._known or now + pause > self._since + self._patience
            if self._spent:
                return False
        self._clock.sleep(pause)
        return True
