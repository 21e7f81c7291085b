"""The tables of the product's own database. Migrations make them; a test keeps the two equal.

Runs: times are seconds since the epoch. A *record* is what is remembered of one document of one node.

Tenants: a *holding* is what one tenant has in one environment; data sources hang on it, so that moving an environment
is one row where the destination had nothing there. Counters of data sources by status stand at the holding and the
tenant. ``version`` grows with any change of what a representation shows, ``tag`` with a change of what a move action
shows. Times are microseconds since 1970, UTC.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Connection,
    Double,
    Enum,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    extract,
    false,
    func,
    select,
    text,
    true,
    update,
)
from sqlalchemy.types import TypeEngine

from configdb_sync.clock import Clock
from configdb_sync.store.encryption import Sealed, SealedTable, SealedText

NAMING = {
    "pk": "pk_%(table_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
}
"""How constraints and indexes without a name of their own are called, in tables and in migrations."""

metadata = MetaData(naming_convention=NAMING)

RUNS = Table(
    "runs",
    metadata,
    Column("identity", Text, primary_key=True),
    Column("environment", Integer, nullable=False),
    Column("place", Text, nullable=False),
    Column("author", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("kind", Text, nullable=False),
    Column("stage", Text),
    Column("started", Double, nullable=False),
    Column("finished", Double),
    Column("outcome", Text),
    Column("exit", Integer),
    Column("nodes", Integer),
    Column("uploads", Integer),
    Column("writes", Integer),
    Column("problems", Integer),
    Column("digest", Text),
    Column("bytes", BigInteger),
    Column("number", BigInteger, nullable=False, server_default="0"),
    Index("runs_by_environment", "environment", "number"),
    Index("runs_by_number", "number"),
)

RUN_NODES = Table(
    "run_nodes",
    metadata,
    Column("run", Text, primary_key=True),
    Column("node", Text, primary_key=True),
    Column("outcome", Text, nullable=False),
    Column("uploads", Integer, nullable=False),
    Column("writes", Integer, nullable=False),
    Column("problems", Integer, nullable=False),
)

RUN_REPORTS = Table(
    "run_reports", metadata, Column("run", Text, primary_key=True), Column("body", Sealed, nullable=False)
)

OPEN_PROBLEMS = Table(
    "open_problems",
    metadata,
    Column("environment", Integer, primary_key=True),
    Column("place", Text, primary_key=True),
    Column("node", Text, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("data_source", Text),
    Column("what", Text, nullable=False),
    Column("run", Text, nullable=False),
)

LEASES = Table(
    "leases",
    metadata,
    Column("name", Text, primary_key=True),
    Column("holder", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("until", Double, nullable=False),
)

WITHHELD = Table(
    "withheld",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("environment", Integer),
    Column("run", Text),
    Column("noted", Double, nullable=False),
    Column("changes", Sealed),
    Column("author", Text),
    Column("approved", Double),
    Column("spent", Text),
    Column("runs", Integer, nullable=False, server_default="0"),
)

BLOBS = Table(
    "document_blobs", metadata, Column("address", Text, primary_key=True), Column("body", Sealed, nullable=False)
)

VERSIONS = Table(
    "document_versions",
    metadata,
    Column("server", Text, primary_key=True),
    Column("environment", BigInteger, primary_key=True),
    Column("level", Text, primary_key=True),
    Column("data_source", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("time", Double, nullable=False),
    Column("author", Text),
    Column("run", Text),
    Column("comment", Text),
    Column("digest", SealedText, nullable=False),
    Column("content", Text, ForeignKey("document_blobs.address"), nullable=False),
    Index("document_versions_by_content", "content"),
)

RECORDS = Table(
    "records",
    metadata,
    Column("place", Text, primary_key=True),
    Column("environment", Integer, primary_key=True),
    Column("node", Text, primary_key=True),
    Column("data_source", Text, primary_key=True),
    Column("body", Sealed, nullable=False),
    Column("run", Text, nullable=False),
    Column("number", BigInteger, nullable=False, server_default="0"),
    Index("records_by_number", "number"),
    Index("records_by_node", "node"),
)

OVERRIDE_NOTES = Table(
    "override_notes",
    metadata,
    Column("server", Text, primary_key=True),
    Column("environment", BigInteger, primary_key=True),
    Column("body", Sealed, nullable=False),
)

NODES = Table(
    "nodes",
    metadata,
    Column("place", Text, primary_key=True),
    Column("environment", Integer, primary_key=True),
    Column("node", Text, primary_key=True),
    Column("fqdn", Text, nullable=False),
    Column("run", Text, nullable=False),
)

FINGERPRINTS = Table(
    "quiet",
    metadata,
    Column("place", Text, primary_key=True),
    Column("environment", Integer, primary_key=True),
    Column("node", Text, primary_key=True),
    Column("body", Sealed, nullable=False),
)


def _readdress(connection: Connection, old: str, new: str) -> None:
    connection.execute(update(VERSIONS).where(VERSIONS.c.content == old).values(content=new))


SEALED = (
    SealedTable(RECORDS),
    SealedTable(FINGERPRINTS),
    SealedTable(OVERRIDE_NOTES),
    SealedTable(RUN_REPORTS),
    SealedTable(WITHHELD),
    SealedTable(BLOBS, _readdress),
    SealedTable(VERSIONS),
)
"""Those whose contents can be sealed (U30)."""


def next_number(connection: Connection, column: Column[int]) -> int:
    """Return a number above all that a table has: an order of rows that no clock can turn around."""
    last = connection.execute(select(func.max(column))).scalar()
    return 1 if last is None else last + 1


def now_of(connection: Connection, clock: Clock) -> float:
    """Return seconds since the epoch by the clock that all masters share: the database server's where there is one."""
    if connection.dialect.name == "sqlite":
        return clock.now().timestamp()
    return float(connection.execute(select(extract("epoch", func.clock_timestamp()))).scalar_one())


def _number() -> TypeEngine[int]:
    return BigInteger().with_variant(Integer, "sqlite")


def by_code_point() -> TypeEngine[str]:
    """Text that is compared and sorted by code point in either database (T1)."""
    return Text().with_variant(Text(collation="C"), "postgresql")


def resource_status() -> TypeEngine[str]:
    """The nullable enum of S5."""
    return Enum("active", "build", "error", name="resource_status", native_enum=True)


def _state() -> list[Column[object]]:
    return [
        Column("status", resource_status(), nullable=True),
        Column("status_details", String(4096), nullable=True),
        Column("version", BigInteger, nullable=False, server_default="1"),
        Column("tag", BigInteger, nullable=False, server_default="1"),
        Column("created", BigInteger, nullable=False),
        Column("updated", BigInteger, nullable=False),
    ]


def _counts() -> list[Column[int]]:
    return [Column(name, Integer, nullable=False, server_default="0") for name in ("size", "active", "build", "error")]


def _to(target: str) -> ForeignKey:
    return ForeignKey(target, ondelete="CASCADE")


TENANTS = Table(
    "tenants",
    metadata,
    Column("number", _number(), primary_key=True),
    Column("id", by_code_point(), nullable=False, unique=True),
    Column("metadata", Text, nullable=False, server_default="{}"),
    Column("updatable", Boolean, nullable=False, server_default=true()),
    *_counts(),
    *_state(),
    Column("deleted", BigInteger, nullable=True),
    Column("purge_after", BigInteger, nullable=True),
    CheckConstraint("length(id) BETWEEN 1 AND 255", name="id_length"),
    Index("ix_tenants_purge_after", "purge_after"),
    sqlite_autoincrement=True,
)

HOLDINGS = Table(
    "tenant_holdings",
    metadata,
    Column("number", _number(), primary_key=True),
    Column("tenant", _number(), _to("tenants.number"), nullable=False),
    Column("environment", BigInteger, nullable=False),
    Column("home", Boolean, nullable=False, server_default=false()),
    *_counts(),
    *_state(),
    UniqueConstraint("tenant", "environment"),
    Index("ix_tenant_holdings_environment", "environment"),
    Index(
        "uq_tenant_holdings_home",
        "environment",
        unique=True,
        sqlite_where=text("home"),
        postgresql_where=text("home"),
    ),
    sqlite_autoincrement=True,
)

RESOURCES = Table(
    "tenant_resources",
    metadata,
    Column("number", _number(), primary_key=True),
    Column("holding", _number(), _to("tenant_holdings.number"), nullable=False),
    Column("environment", BigInteger, nullable=False),
    Column("name", by_code_point(), nullable=False),
    Column("definition", BigInteger, nullable=True),
    Column("entered", BigInteger, nullable=False),
    Column("run", Text, nullable=True),
    *_state(),
    UniqueConstraint("environment", "name"),
    Index("ix_tenant_resources_holding_name", "holding", "name"),
    sqlite_autoincrement=True,
)

FORMER_HOMES = Table(
    "tenant_former_homes",
    metadata,
    # No foreign keys: PostgreSQL looks each row's up by itself, which was half of a large move. Numbers are never
    # given twice, and a purge takes the rows away.
    Column("tenant", _number(), primary_key=True),
    Column("resource", _number(), primary_key=True, index=True),
)

FORMER_HOLDERS = Table(
    "tenant_former_holders",
    metadata,
    Column("tenant", _number(), _to("tenants.number"), primary_key=True),
    Column("holding", _number(), _to("tenant_holdings.number"), primary_key=True, index=True),
    Column("cut", BigInteger, nullable=False),
    Column("moved", BigInteger, nullable=False),
)

OUTBOX = Table(
    "tenant_outbox",
    metadata,
    Column("number", _number(), primary_key=True),
    Column("kind", String(16), nullable=False),
    Column("environment", BigInteger, nullable=False),
    Column("body", Text, nullable=False),
    Column("noted", BigInteger, nullable=False),
    Column("tries", Integer, nullable=False, server_default="0"),
    Column("failure", Text, nullable=True),
    sqlite_autoincrement=True,
)

ENDED_SESSIONS = Table(
    "tenant_ended_sessions",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("until", BigInteger, nullable=False, index=True),
)
"""Cookies that were signed out with (their SHA-256), kept for as long as they would have held (seconds since 1970)."""

STATUS_TURNS = Table(
    "tenant_status_turns",
    metadata,
    Column("place", String(64), primary_key=True),
    Column("asked", BigInteger, nullable=False, index=True),
    Column("fresh", Boolean, nullable=False, server_default=true()),
)

AUDIT = Table(
    "tenant_audit",
    metadata,
    Column("number", _number(), primary_key=True),
    Column("time", BigInteger, nullable=False),
    Column("tenant", by_code_point(), nullable=False),
    Column("path", Text, nullable=False),
    Column("action", String(32), nullable=False),
    Column("actor", Text, nullable=False),
    Column("origin", Text, nullable=False),
    Column("request", Text, nullable=False),
    Column("details", Text, nullable=False, server_default="{}"),
    Index("ix_tenant_audit_tenant_number", "tenant", "number"),
    sqlite_autoincrement=True,
)
