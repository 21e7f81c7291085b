"""The tables of the embedded ConfigDB. Migrations make them; a test keeps the two equal.

A stored document is one row, the root included (empty level and value, never NULL, so that UNIQUE holds). Its two
halves, values and overrides, point to contents by address: the sha256 of the exact text, so that key order is kept,
while ``digest`` is of the value, key order aside (``jsonvalues.document_digest``). Where contents are sealed (U30) the
address is an HMAC, and it stays when the key changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    select,
    update,
)
from sqlalchemy.types import TypeEngine

from configdb_sync.errors import ConfigDBError
from configdb_sync.store.database import Database
from configdb_sync.store.encryption import Sealed, SealedTable, SealedText
from configdb_sync.store.opening import TableSet, opened
from configdb_sync.store.schema import NAMING
from configdb_sync.web.refusals import RefusalError

metadata = MetaData(naming_convention=NAMING)


def _id_type() -> TypeEngine[int]:
    return BigInteger().with_variant(Integer, "sqlite")


components = Table(
    "components",
    metadata,
    Column("id", _id_type(), primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    sqlite_autoincrement=True,  # values hang on definitions' ids: none is ever given twice
)

resource_definitions = Table(
    "resource_definitions",
    metadata,
    Column("id", _id_type(), primary_key=True),
    Column("component_id", _id_type(), ForeignKey("components.id", ondelete="CASCADE"), nullable=True),
    Column("name", Text, nullable=False),
    Column("content", Text, nullable=False, server_default="null"),
    UniqueConstraint("component_id", "name"),
    sqlite_autoincrement=True,
)

environments = Table("environments", metadata, Column("id", BigInteger, primary_key=True, autoincrement=False))

environment_components = Table(
    "environment_components",
    metadata,
    Column("environment_id", BigInteger, ForeignKey("environments.id", ondelete="CASCADE"), primary_key=True),
    Column(
        "component_id",
        _id_type(),
        ForeignKey("components.id", ondelete="CASCADE"),
        primary_key=True,
        index=True,
    ),
)

hierarchy_levels = Table(
    "hierarchy_levels",
    metadata,
    Column("id", _id_type(), primary_key=True),
    Column("environment_id", BigInteger, ForeignKey("environments.id", ondelete="CASCADE"), nullable=False),
    Column("name", Text, nullable=False),
    Column("position", Integer, nullable=False),
    UniqueConstraint("environment_id", "name"),
    sqlite_autoincrement=True,
)

contents = Table(
    "contents",
    metadata,
    Column("address", String(64), primary_key=True),
    Column("digest", SealedText, nullable=False),
    Column("body", Sealed, nullable=False),
    Column("key_digests", Sealed, nullable=False),
)

# The current contents have no foreign key: each is also a version's, and that one has it.
documents = Table(
    "documents",
    metadata,
    Column("id", _id_type(), primary_key=True),
    Column("environment_id", BigInteger, ForeignKey("environments.id", ondelete="CASCADE"), nullable=False),
    Column(
        "definition_id",
        _id_type(),
        ForeignKey("resource_definitions.id", ondelete="CASCADE"),
        nullable=False,
        index=True,
    ),
    Column("level", Text, nullable=False),
    Column("level_value", Text, nullable=False),
    Column("values_version", Integer, nullable=False, server_default="0"),
    Column("values_digest", SealedText, nullable=False),
    Column("values_content", String(64), nullable=True),
    Column("overrides_version", Integer, nullable=False, server_default="0"),
    Column("overrides_digest", SealedText, nullable=False),
    Column("overrides_content", String(64), nullable=True),
    UniqueConstraint("environment_id", "definition_id", "level", "level_value"),
    Index("ix_documents_place", "environment_id", "level", "level_value"),
    sqlite_autoincrement=True,
)

versions = Table(
    "versions",
    metadata,
    Column("document_id", _id_type(), ForeignKey("documents.id", ondelete="CASCADE"), primary_key=True),
    Column("kind", String(9), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("content", String(64), ForeignKey("contents.address"), nullable=False, index=True),
    Column("time", BigInteger, nullable=False),  # microseconds since 1970, UTC
    Column("author", Text, nullable=False),
    Column("run", Text, nullable=True),
    Column("comment", Text, nullable=True),
)


def _readdress(connection: Connection, old: str, new: str) -> None:
    holders = select(versions.c.document_id).where(versions.c.content == old)
    for column in (documents.c.values_content, documents.c.overrides_content):
        here = documents.c.id.in_(holders), column == old
        connection.execute(update(documents).where(*here).values({column: new}))
    connection.execute(update(versions).where(versions.c.content == old).values(content=new))


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
