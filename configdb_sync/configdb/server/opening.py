"""Opens the server's own database."""

from __future__ import annotations

from pathlib import Path

from configdb_sync.configdb.server.refusals import RefusalError, refuse
from configdb_sync.database import Database, Schema, opened

SCHEMA = Schema(folder=Path(__file__).parent / "migrations", head="0001", table="configdb_schema")


def open_configdb(url: str, *, connections: int = 8) -> Database:
    """Return the database at a URL, its tables up to date; ``StateError`` if it can't be used."""
    return opened(url, SCHEMA, what="the ConfigDB database", connections=connections, unavailable=_unavailable)


def _unavailable() -> RefusalError:
    # The driver's own text may hold the database's address and parameters: not for a client.
    return refuse(503, "the server's database can't be used now", ("Retry-After", "5"))
