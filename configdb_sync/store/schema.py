"""The tables of the product's own database. Migrations make them; a test keeps the two equal.

Runs: times are seconds since the epoch. A *record* is what is remembered of one document of one node.

Tenants: a *holding* is what one tenant has in one environment; data sources hang on it, so that moving an environment
is one row where the destination had nothing there. Counters of data sources by status stand at the holding and the
tenant. ``version`` grows with any change of what a representation shows, ``tag`` with a change of what a move action
shows. Times are microseconds since 1970, UTC.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Connection
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


def _number() -> TypeEngine[int]:
    return sa.BigInteger().with_variant(sa.Integer, "sqlite")


def by_code_point() -> TypeEngine[str]:
    """Text that is compared and sorted by code point in either database (T1)."""
    return sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def resource_status() -> TypeEngine[str]:
    """The nullable enum of S5."""
    return sa.Enum("active", "build", "error", name="resource_status", native_enum=True)


def _state() -> list[sa.Column[object]]:
    return [
        sa.Column("status", resource_status(), nullable=True),
        sa.Column("status_details", sa.String(4096), nullable=True),
        sa.Column("version", sa.BigInteger, nullable=False, server_default="1"),
        sa.Column("tag", sa.BigInteger, nullable=False, server_default="1"),
        sa.Column("created", sa.BigInteger, nullable=False),
        sa.Column("updated", sa.BigInteger, nullable=False),
    ]


def _counts() -> list[sa.Column[int]]:
    return [
        sa.Column(name, sa.Integer, nullable=False, server_default="0") for name in ("size", "active", "build", "error")
    ]


def _to(target: str) -> sa.ForeignKey:
    return sa.ForeignKey(target, ondelete="CASCADE")


TENANTS = sa.Table(
    "tenants",
    metadata,
    sa.Column("number", _number(), primary_key=True),
    sa.Column("id", by_code_point(), nullable=False, unique=True),
    sa.Column("metadata", sa.Text, nullable=False, server_default="{}"),
    sa.Column("updatable", sa.Boolean, nullable=False, server_default=sa.true()),
    *_counts(),
    *_state(),
    sa.Column("deleted", sa.BigInteger, nullable=True),
    sa.Column("purge_after", sa.BigInteger, nullable=True),
    sa.CheckConstraint("length(id) BETWEEN 1 AND 255", name="id_length"),
    sa.Index("ix_tenants_purge_after", "purge_after"),
    sqlite_autoincrement=True,
)

HOLDINGS = sa.Table(
    "tenant_holdings",
    metadata,
    sa.Column("number", _number(), primary_key=True),
    sa.Column("tenant", _number(), _to("tenants.number"), nullable=False),
    sa.Column("environment", sa.BigInteger, nullable=False),
    sa.Column("home", sa.Boolean, nullable=False, server_default=sa.false()),
    *_counts(),
    *_state(),
    sa.UniqueConstraint("tenant", "environment"),
    sa.Index("ix_tenant_holdings_environment", "environment"),
    sa.Index(
        "uq_tenant_holdings_home",
        "environment",
        unique=True,
        sqlite_where=sa.text("home"),
        postgresql_where=sa.text("home"),
    ),
    sqlite_autoincrement=True,
)

RESOURCES = sa.Table(
    "tenant_resources",
    metadata,
    sa.Column("number", _number(), primary_key=True),
    sa.Column("holding", _number(), _to("tenant_holdings.number"), nullable=False),
    sa.Column("environment", sa.BigInteger, nullable=False),
    sa.Column("name", by_code_point(), nullable=False),
    sa.Column("definition", sa.BigInteger, nullable=True),
    sa.Column("entered", sa.BigInteger, nullable=False),
    sa.Column("run", sa.Text, nullable=True),
    *_state(),
    sa.UniqueConstraint("environment", "name"),
    sa.Index("ix_tenant_resources_holding_name", "holding", "name"),
    sqlite_autoincrement=True,
)

FORMER_HOMES = sa.Table(
    "tenant_former_homes",
    metadata,
    # No foreign keys: PostgreSQL looks each row's up by itself, which was half of a large move. Numbers are never
    # given twice, and a purge takes the rows away.
    sa.Column("tenant", _number(), primary_key=True),
    sa.Column("resource", _number(), primary_key=True, index=True),
)

FORMER_HOLDERS = sa.Table(
    "tenant_former_holders",
    metadata,
    sa.Column("tenant", _number(), _to("tenants.number"), primary_key=True),
    sa.Column("holding", _number(), _to("tenant_holdings.number"), primary_key=True, index=True),
    sa.Column("cut", sa.BigInteger, nullable=False),
    sa.Column("moved", sa.BigInteger, nullable=False),
)

OUTBOX = sa.Table(
    "tenant_outbox",
    metadata,
    sa.Column("number", _number(), primary_key=True),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("environment", sa.BigInteger, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("noted", sa.BigInteger, nullable=False),
    sa.Column("tries", sa.Integer, nullable=False, server_default="0"),
    sa.Column("failure", sa.Text, nullable=True),
    sqlite_autoincrement=True,
)

ENDED_SESSIONS = sa.Table(
    "tenant_ended_sessions",
    metadata,
    sa.Column("digest", sa.String(64), primary_key=True),
    sa.Column("until", sa.BigInteger, nullable=False, index=True),
)
"""Cookies that were signed out with (their SHA-256), kept for as long as they would have held (seconds since 1970)."""

STATUS_TURNS = sa.Table(
    "tenant_status_turns",
    metadata,
    sa.Column("place", sa.String(64), primary_key=True),
    sa.Column("asked", sa.BigInteger, nullable=False, index=True),
    sa.Column("fresh", sa.Boolean, nullable=False, server_default=sa.true()),
)

AUDIT = sa.Table(
    "tenant_audit",
    metadata,
    sa.Column("number", _number(), primary_key=True),
    sa.Column("time", sa.BigInteger, nullable=False),
    sa.Column("tenant", by_code_point(), nullable=False),
    sa.Column("path", sa.Text, nullable=False),
    sa.Column("action", sa.String(32), nullable=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("origin", sa.Text, nullable=False),
    sa.Column("request", sa.Text, nullable=False),
    sa.Column("details", sa.Text, nullable=False, server_default="{}"),
    sa.Index("ix_tenant_audit_tenant_number", "tenant", "number"),
    sqlite_autoincrement=True,
)
