"""What the product itself keeps of a server's overrides: one JSON document for each environment (U27)."""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa
from sqlalchemy import Connection

from configdb_sync.jsonvalues import Document, Json, packed, unpacked
from configdb_sync.store.database import Database
from configdb_sync.store.schema import OVERRIDE_NOTES


def read_notes(database: Database, server: str, environment: int) -> dict[str, Json]:
    """Return the document of an environment of a server (by its address), ``{}`` where there is none."""
    return database.read(lambda connection: _read(connection, server, environment))


def rewrite_notes(database: Database, server: str, environment: int, make: Callable[[Document], Document]) -> None:
    """Replace the document by what ``make`` makes of it; an empty one is dropped. No other writer comes between."""

    def work(connection: Connection) -> None:
        if connection.dialect.name == "postgresql":
            # One writer at a time, as on SQLite.
            connection.execute(sa.text("LOCK TABLE override_notes IN SHARE ROW EXCLUSIVE MODE"))
        after = make(_read(connection, server, environment))
        connection.execute(sa.delete(OVERRIDE_NOTES).where(*_of(server, environment)))
        if after:
            row = {"server": server, "environment": environment, "body": packed(after)}
            connection.execute(sa.insert(OVERRIDE_NOTES).values(row))

    database.write(work)


def _read(connection: Connection, server: str, environment: int) -> dict[str, Json]:
    body = connection.execute(sa.select(OVERRIDE_NOTES.c.body).where(*_of(server, environment))).scalar()
    return {} if body is None else unpacked(body)


def _of(server: str, environment: int) -> list[sa.ColumnElement[bool]]:
    return [OVERRIDE_NOTES.c.server == server, OVERRIDE_NOTES.c.environment == environment]
