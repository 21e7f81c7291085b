"""A database's URL, SQLite's or PostgreSQL's, and what a connection to it is told. Pure.

PostgreSQL's may name several servers, of which one is the primary (R2): ``postgresql://user@one:5432,two:5432/name`` as
libpq takes it, or ``?host=one:5432&host=two:5432`` as SQLAlchemy does.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

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
