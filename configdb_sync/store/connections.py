"""A database's URL, SQLite's or PostgreSQL's, and what a connection to it is told. Pure.

PostgreSQL's may name several servers, of which one is the primary (R2): ``postgresql://user@one:5432,two:5432/name`` as
libpq takes it, or ``?host=one:5432&host=two:5432`` as SQLAlchemy does.
"""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, OperationalError

from configdb_sync.clock import Clock
from configdb_sync.errors import StateError

_SERVERS = re.compile(r"(?P<head>[^/?#]+://(?:[^/?#]*@)?)(?P<servers>[^/?#@]*,[^/?#@]*)(?P<rest>.*)", re.DOTALL)

_CONNECTION = {
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}
"""libpq's parameters: without them a server that lost its power is waited for for hours."""

SESSION = """
SET idle_in_transaction_session_timeout = '60s';
SET lock_timeout = '30s';
SET tcp_keepalives_idle = 10;
SET tcp_keepalives_interval = 5;
SET tcp_keepalives_count = 3
"""
"""What each session asks of the server: a client that lost its power mustn't hold locks for hours."""


def parsed(text: str, what: str) -> sqlalchemy.URL:
    """Return the URL of ``what``. Raises ``StateError``, which doesn't show the text: it may hold a password."""
    servers = _SERVERS.fullmatch(text)
    try:
        url = sqlalchemy.make_url(text if servers is None else servers["head"] + servers["rest"])
        backend = url.get_backend_name()
        if backend == "postgresql":
            named = () if servers is None else [("host", server) for server in servers["servers"].split(",")]
            url = url.update_query_pairs(named, append=True).set(drivername="postgresql+psycopg")
            # Here it is that ports of several servers are looked at.
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


_KEYS = "key_file"


def with_key_file(text: str, path: Path | None) -> str:
    """Return a database's URL that also names the file of the keys that its contents are sealed with (U30)."""
    if path is None:
        return text
    return f"{text}{'&' if '?' in text else '?'}{_KEYS}={quote(str(path.absolute()), safe='/')}"


def key_file_of(url: sqlalchemy.URL) -> tuple[sqlalchemy.URL, Path | None]:
    """Return a URL without the key file that it names, and the file."""
    named = url.query.get(_KEYS)
    if named is None:
        return url, None
    return url.difference_update_query([_KEYS]), Path(named if isinstance(named, str) else named[-1])


def several(url: sqlalchemy.URL) -> bool:
    """Tell whether a URL names several servers."""
    return "," in servers_of(url)


def servers_of(url: sqlalchemy.URL) -> str:
    """Return the server that a URL names, or all of them as libpq takes them."""
    named = url.query.get("host", url.host or "")
    return named if isinstance(named, str) else ",".join(named)


def connection_parameters(url: sqlalchemy.URL) -> dict[str, Any]:
    """Return what libpq is told beside the URL, which has the last word. Of several servers only the primary will do:
    the others refuse every change."""
    wanted = {**_CONNECTION, "target_session_attrs": "read-write"} if several(url) else _CONNECTION
    return {name: value for name, value in wanted.items() if name not in url.query}


_AWAY = frozenset({"57P01", "57P02", "57P03", "25006", "53300"})
"""PostgreSQL: shut down, crashed, starting, a standby, no connection left."""

_FIRST, _LONGEST = 0.05, 1.0


def away(error: DBAPIError) -> bool:
    """Tell whether PostgreSQL's error says that the server, or the way to it, is away for now."""
    state: str | None = getattr(error.orig, "sqlstate", None)
    if error.connection_invalidated or (state is None and isinstance(error, OperationalError)):
        return True
    return state is not None and (state in _AWAY or state.startswith("08"))


class Outage:
    """Whether to wait for the database. ``patience`` seconds from when it was first found away.

    ``expected``: wait also for one that was never there; otherwise its address is more likely wrong. Thread-safe.
    """

    def __init__(self, clock: Clock, patience: float, *, expected: bool) -> None:
        self._clock = clock
        self._patience = patience
        self._known = expected
        self._since: float | None = None
        self._spent = False
        self._lock = threading.Lock()

    def over(self) -> None:
        """Take note that it answered."""
        if self._since is not None or not self._known:
            with self._lock:
                self._since, self._spent, self._known = None, False, True

    def wait(self, tried: int) -> bool:
        """Wait a little longer at each try, from 0; False where the patience is at its end."""
        pause = min(_LONGEST, _FIRST * 2.0**tried)
        with self._lock:
            now = self._clock.monotonic()
            if self._since is None:
                self._since = now
            self._spent = self._spent or not self._known or now + pause > self._since + self._patience
            if self._spent:
                return False
        self._clock.sleep(pause)
        return True
