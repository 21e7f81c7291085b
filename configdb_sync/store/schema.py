"""The tables of the product's own database. Migrations make them; a test keeps the two equal.

Runs: times are seconds since the epoch. A *record* is what is remembered of one document of one node.

Tenants have theirs in ``tenant_schema``.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Connection

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

metadata = sa.MetaData(naming_convention=NAMING)

RUNS = sa.Table(
    "runs",
    metadata,
    sa.Column("identity", sa.Text, primary_key=True),
    sa.Column("environment", sa.Integer, nullable=False),
    sa.Column("place", sa.Text, nullable=False),
    sa.Column("author", sa.Text, nullable=False),
    sa.Column("host", sa.Text, nullable=False),
    sa.Column("pid", sa.Integer, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("stage", sa.Text),
    sa.Column("started", sa.Double, nullable=False),
    sa.Column("finished", sa.Double),
    sa.Column("outcome", sa.Text),
    sa.Column("exit", sa.Integer),
    sa.Column("nodes", sa.Integer),
    sa.Column("uploads", sa.Integer),
    sa.Column("writes", sa.Integer),
    sa.Column("problems", sa.Integer),
    sa.Column("digest", sa.Text),
    sa.Column("bytes", sa.BigInteger),
    sa.Column("number", sa.BigInteger, nullable=False, server_default="0"),
    sa.Index("runs_by_environment", "environment", "number"),
    sa.Index("runs_by_number", "number"),
)

RUN_NODES = sa.Table(
    "run_nodes",
    metadata,
    sa.Column("run", sa.Text, primary_key=True),
    sa.Column("node", sa.Text, primary_key=True),
    sa.Column("outcome", sa.Text, nullable=False),
    sa.Column("uploads", sa.Integer, nullable=False),
    sa.Column("writes", sa.Integer, nullable=False),
    sa.Column("problems", sa.Integer, nullable=False),
)

RUN_REPORTS = sa.Table(
    "run_reports", metadata, sa.Column("run", sa.Text, primary_key=True), sa.Column("body", Sealed, nullable=False)
)

OPEN_PROBLEMS = sa.Table(
    "open_problems",
    metadata,
    sa.Column("environment", sa.Integer, primary_key=True),
    sa.Column("place", sa.Text, primary_key=True),
    sa.Column("node", sa.Text, primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("data_source", sa.Text),
    sa.Column("what", sa.Text, nullable=False),
    sa.Column("run", sa.Text, nullable=False),
)

LEASES = sa.Table(
    "leases",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("holder", sa.Text, nullable=False),
    sa.Column("host", sa.Text, nullable=False),
    sa.Column("until", sa.Double, nullable=False),
)

WITHHELD = sa.Table(
    "withheld",
    metadata,
    sa.Column("digest", sa.Text, primary_key=True),
    sa.Column("environment", sa.Integer),
    sa.Column("run", sa.Text),
    sa.Column("noted", sa.Double, nullable=False),
    sa.Column("changes", Sealed),
    sa.Column("author", sa.Text),
    sa.Column("approved", sa.Double),
    sa.Column("spent", sa.Text),
    sa.Column("runs", sa.Integer, nullable=False, server_default="0"),
)

BLOBS = sa.Table(
    "document_blobs",
    metadata,
    sa.Column("address", sa.Text, primary_key=True),
    sa.Column("body", Sealed, nullable=False),
)

VERSIONS = sa.Table(
    "document_versions",
    metadata,
    sa.Column("server", sa.Text, primary_key=True),
    sa.Column("environment", sa.BigInteger, primary_key=True),
    sa.Column("level", sa.Text, primary_key=True),
    sa.Column("data_source", sa.Text, primary_key=True),
    sa.Column("kind", sa.Text, primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("time", sa.Double, nullable=False),
    sa.Column("author", sa.Text),
    sa.Column("run", sa.Text),
    sa.Column("comment", sa.Text),
    sa.Column("digest", SealedText, nullable=False),
    sa.Column("content", sa.Text, sa.ForeignKey("document_blobs.address"), nullable=False),
    sa.Index("document_versions_by_content", "content"),
)

RECORDS = sa.Table(
    "records",
    metadata,
    sa.Column("place", sa.Text, primary_key=True),
    sa.Column("environment", sa.Integer, primary_key=True),
    sa.Column("node", sa.Text, primary_key=True),
    sa.Column("data_source", sa.Text, primary_key=True),
    sa.Column("body", Sealed, nullable=False),
    sa.Column("run", sa.Text, nullable=False),
    sa.Column("number", sa.BigInteger, nullable=False, server_default="0"),
    sa.Index("records_by_number", "number"),
    sa.Index("records_by_node", "node"),
)

OVERRIDE_NOTES = sa.Table(
    "override_notes",
    metadata,
    sa.Column("server", sa.Text, primary_key=True),
    sa.Column("environment", sa.BigInteger, primary_key=True),
    sa.Column("body", Sealed, nullable=False),
)

NODES = sa.Table(
    "nodes",
    metadata,
    sa.Column("place", sa.Text, primary_key=True),
    sa.Column("environment", sa.Integer, primary_key=True),
    sa.Column("node", sa.Text, primary_key=True),
    sa.Column("fqdn", sa.Text, nullable=False),
    sa.Column("run", sa.Text, nullable=False),
)

FINDINGS = sa.Table(
    "findings",
    metadata,
    sa.Column("identity", sa.String(32), primary_key=True),
    sa.Column("environment", sa.Integer, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("node", sa.Text, nullable=False),
    sa.Column("data_source", sa.Text, nullable=False),
    sa.Column("level", sa.Text, nullable=False),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("count", sa.Integer, nullable=False),
    sa.Column("first_seen", sa.Double, nullable=False),
    sa.Column("last_seen", sa.Double, nullable=False),
    sa.Column("settled", sa.Double),
    sa.Column("notification", sa.Integer),
    sa.Index("findings_by_environment", "environment", "settled"),
)
"""What the watch found (U29). ``settled``: when it no longer was so, None while it is. ``notification``: the number of
the notification in the Fuel UI that tells of it and has not been marked as read."""

FINDING_CHANGES = sa.Table(
    "finding_changes",
    metadata,
    sa.Column("finding", sa.String(32), primary_key=True),
    sa.Column("body", Sealed, nullable=False),
)
"""How a file differs, a line for each key, of the finding of that identity."""

WATCH_ROUNDS = sa.Table(
    "watch_rounds",
    metadata,
    sa.Column("environment", sa.Integer, primary_key=True),
    sa.Column("started", sa.Double, nullable=False),
    sa.Column("finished", sa.Double, nullable=False),
    sa.Column("outcome", sa.Text, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("complete", sa.Double),
    sa.Column("nodes", sa.Integer),
    sa.Column("overrides", sa.Integer),
    sa.Column("expiring", sa.Integer),
)
"""Each environment's last round of the watch; ``complete`` and the counts are those of the last one with a plan."""

FINGERPRINTS = sa.Table(
    "quiet",
    metadata,
    sa.Column("place", sa.Text, primary_key=True),
    sa.Column("environment", sa.Integer, primary_key=True),
    sa.Column("node", sa.Text, primary_key=True),
    sa.Column("body", Sealed, nullable=False),
)


def _readdress(connection: Connection, old: str, new: str) -> None:
    connection.execute(sa.update(VERSIONS).where(VERSIONS.c.content == old).values(content=new))


SEALED = (
    SealedTable(RECORDS),
    SealedTable(FINGERPRINTS),
    SealedTable(OVERRIDE_NOTES),
    SealedTable(RUN_REPORTS),
    SealedTable(WITHHELD),
    SealedTable(FINDING_CHANGES),
    SealedTable(BLOBS, _readdress),
    SealedTable(VERSIONS),
)
"""Those whose contents can be sealed (U30)."""


def next_number(connection: Connection, column: sa.Column[int]) -> int:
    """Return a number above all that a table has: an order of rows that no clock can turn around."""
    last = connection.execute(sa.select(sa.func.max(column))).scalar()
    return 1 if last is None else last + 1


def now_of(connection: Connection, clock: Clock) -> float:
    """Return seconds since the epoch by the clock that all masters share: the database server's where there is one."""
    if connection.dialect.name == "sqlite":
        return clock.now().timestamp()
    return float(connection.execute(sa.select(sa.extract("epoch", sa.func.clock_timestamp()))).scalar_one())
