"""The tables of the product's own database. Migrations make them; a test keeps the two equal.

Runs: times are seconds since the epoch. A *record* is what is remembered of one document of one node.

Tenants have theirs in ``tenant_schema``.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    extract,
    func,
    select,
    update,
)

from configdb_sync.clock import Clock
from configdb_sync.store.encryption import Sealed, SealedTable, SealedText

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)

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

FINDINGS = Table(
    "findings",
    metadata,
    Column("identity", String(32), primary_key=True),
    Column("environment", Integer, nullable=False),
    Column("kind", Text, nullable=False),
    Column("node", Text, nullable=False),
    Column("data_source", Text, nullable=False),
    Column("level", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("count", Integer, nullable=False),
    Column("first_seen", Double, nullable=False),
    Column("last_seen", Double, nullable=False),
    Column("settled", Double),
    Column("notification", Integer),
    Index("findings_by_environment", "environment", "settled"),
)
"""What the watch found (U29). ``settled``: when it no longer was so, None while it is. ``notification``: the number of
the notification in the Fuel UI that tells of it and has not been marked as read."""

WATCH_ROUNDS = Table(
    "watch_rounds",
    metadata,
    Column("environment", Integer, primary_key=True),
    Column("started", Double, nullable=False),
    Column("finished", Double, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("complete", Double),
    Column("nodes", Integer),
    Column("overrides", Integer),
    Column("expiring", Integer),
)
"""Each environment's last round of the watch; ``complete`` and the counts are those of the last one with a plan."""

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
    SealedTable(RECORDS, ("place", "environment", "node", "data_source")),
    SealedTable(FINGERPRINTS, ("place", "environment", "node")),
    SealedTable(OVERRIDE_NOTES, ("server", "environment")),
    SealedTable(RUN_REPORTS, ("run",)),
    SealedTable(WITHHELD, ("digest",)),
    SealedTable(BLOBS, ("address",), _readdress),
    SealedTable(VERSIONS, ("server", "environment", "level", "data_source", "kind", "number")),
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
