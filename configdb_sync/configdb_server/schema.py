"""The tables of the embedded ConfigDB. Migrations make them; a test keeps the two equal.

A stored document is one row, the root included (empty level and value, never NULL, so that UNIQUE holds). Its two
halves, values and overrides, point to contents by address: the sha256 of the exact text, so that key order is kept,
while ``digest`` is of the value, key order aside (``jsonvalues.document_digest``). Where contents are sealed (U30) the
address is an HMAC, and it stays when the key changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.types import TypeEngine

from configdb_sync.errors import ConfigDBError
from configdb_sync.store.database import Database
from configdb_sync.store.encryption import Sealed, SealedTable, SealedText
from configdb_sync.store.opening import TableSet, opened
from configdb_sync.store.schema import NAMING
from configdb_sync.web.refusals import RefusalError

metadata = sa.MetaData(naming_convention=NAMING)


def _id_type() -> TypeEngine[int]:
    return sa.BigInteger().with_variant(sa.Integer, "sqlite")


components = sa.Table(
    "components",
    metadata,
    sa.Column("id", _id_type(), primary_key=True),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    sqlite_autoincrement=True,  # values hang on definitions' ids: none is ever given twice
)

resource_definitions = sa.Table(
    "resource_definitions",
    metadata,
    sa.Column("id", _id_type(), primary_key=True),
    sa.Column("component_id", _id_type(), sa.ForeignKey("components.id", ondelete="CASCADE"), nullable=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("content", sa.Text, nullable=False, server_default="null"),
    sa.UniqueConstraint("component_id", "name"),
    sqlite_autoincrement=True,
)

environments = sa.Table("environments", metadata, sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False))

environment_components = sa.Table(
    "environment_components",
    metadata,
    sa.Column("environment_id", sa.BigInteger, sa.ForeignKey("environments.id", ondelete="CASCADE"), primary_key=True),
    sa.Column(
        "component_id",
        _id_type(),
        sa.ForeignKey("components.id", ondelete="CASCADE"),
        primary_key=True,
        index=True,
    ),
)

hierarchy_levels = sa.Table(
    "hierarchy_levels",
    metadata,
    sa.Column("id", _id_type(), primary_key=True),
    sa.Column("environment_id", sa.BigInteger, sa.ForeignKey("environments.id", ondelete="CASCADE"), nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("position", sa.Integer, nullable=False),
    sa.UniqueConstraint("environment_id", "name"),
    sqlite_autoincrement=True,
)

contents = sa.Table(
    "contents",
    metadata,
    sa.Column("address", sa.String(64), primary_key=True),
    sa.Column("digest", SealedText, nullable=False),
    sa.Column("body", Sealed, nullable=False),
    sa.Column("key_digests", Sealed, nullable=False),
)

# The current contents have no foreign key: each is also a version's, and that one has it.
documents = sa.Table(
    "documents",
    metadata,
    sa.Column("id", _id_type(), primary_key=True),
    sa.Column("environment_id", sa.BigInteger, sa.ForeignKey("environments.id", ondelete="CASCADE"), nullable=False),
    sa.Column(
        "definition_id",
        _id_type(),
        sa.ForeignKey("resource_definitions.id", ondelete="CASCADE"),
        nullable=False,
        index=True,
    ),
    sa.Column("level", sa.Text, nullable=False),
    sa.Column("level_value", sa.Text, nullable=False),
    sa.Column("values_version", sa.Integer, nullable=False, server_default="0"),
    sa.Column("values_digest", SealedText, nullable=False),
    sa.Column("values_content", sa.String(64), nullable=True),
    sa.Column("overrides_version", sa.Integer, nullable=False, server_default="0"),
    sa.Column("overrides_digest", SealedText, nullable=False),
    sa.Column("overrides_content", sa.String(64), nullable=True),
    sa.UniqueConstraint("environment_id", "definition_id", "level", "level_value"),
    sa.Index("ix_documents_place", "environment_id", "level", "level_value"),
    sqlite_autoincrement=True,
)

versions = sa.Table(
    "versions",
    metadata,
    sa.Column("document_id", _id_type(), sa.ForeignKey("documents.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("kind", sa.String(9), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("content", sa.String(64), sa.ForeignKey("contents.address"), nullable=False, index=True),
    sa.Column("time", sa.BigInteger, nullable=False),  # microseconds since 1970, UTC
    sa.Column("author", sa.Text, nullable=False),
    sa.Column("run", sa.Text, nullable=True),
    sa.Column("comment", sa.Text, nullable=True),
)


def _readdress(connection: Connection, old: str, new: str) -> None:
    holders = sa.select(versions.c.document_id).where(versions.c.content == old)
    for column in (documents.c.values_content, documents.c.overrides_content):
        here = documents.c.id.in_(holders), column == old
        connection.execute(sa.update(documents).where(*here).values({column: new}))
    connection.execute(sa.update(versions).where(versions.c.content == old).values(content=new))


SCHEMA = TableSet(
    folder=Path(__file__).parent / "migrations",
    head="v0001",
    table="configdb_schema",
    sealed=(SealedTable(contents, _readdress), SealedTable(documents)),
)


def open_configdb(url: str, *, connections: int = 8) -> Database:
    """Return the database at a URL, its tables up to date; ``StateError`` if it can't be used."""
    return opened(url, SCHEMA, what="the ConfigDB database", connections=connections, unavailable=_unavailable)


@dataclass(eq=False)
class DatabaseOutageError(RefusalError, ConfigDBError):
    """The server's database can't be used now: 503 for a client, ConfigDB's failure for a command."""


def _unavailable() -> DatabaseOutageError:
    # The driver's own text may hold the database's address and parameters: not for a client.
    return DatabaseOutageError("the server's database can't be used now", status=503, headers=(("Retry-After", "5"),))
