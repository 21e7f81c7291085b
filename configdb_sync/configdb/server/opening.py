"""Opens the server's own database."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, select, update

from configdb_sync.configdb.server import schema
from configdb_sync.configdb.server.refusals import RefusalError, refuse
from configdb_sync.store.database import Database
from configdb_sync.store.encryption import SealedTable
from configdb_sync.store.opening import TableSet, opened


def _readdress(connection: Connection, old: str, new: str) -> None:
    documents, versions = schema.documents, schema.versions
    holders = select(versions.c.document_id).where(versions.c.content == old)
    for column in (documents.c.values_content, documents.c.overrides_content):
        here = documents.c.id.in_(holders), column == old
        connection.execute(update(documents).where(*here).values({column: new}))
    connection.execute(update(versions).where(versions.c.content == old).values(content=new))


SCHEMA = TableSet(
    folder=Path(__file__).parent / "migrations",
    head="v0001",
    table="configdb_schema",
    sealed=(SealedTable(schema.contents, ("address",), _readdress), SealedTable(schema.documents, ("id",))),
)


def open_configdb(url: str, *, connections: int = 8) -> Database:
    """Return the database at a URL, its tables up to date; ``StateError`` if it can't be used."""
    return opened(url, SCHEMA, what="the ConfigDB database", connections=connections, unavailable=_unavailable)


def _unavailable() -> RefusalError:
    # The driver's own text may hold the database's address and parameters: not for a client.
    return refuse(503, "the server's database can't be used now", ("Retry-After", "5"))
