"""The tenants' tables in the product's own database, apart from ``schema``: few commands need them.

A *holding* is what one tenant has in one environment; data sources hang on it, so that moving an environment is one
row where the destination had nothing there. Counters of data sources by status stand at the holding and the tenant.
``version`` grows with any change of what a representation shows, ``tag`` with a change of what a move action shows.
Times are microseconds since 1970, UTC.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.types import TypeEngine

from configdb_sync.store.schema import metadata


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
    # Of homes alone, as the migration says: a dialect's option here would load that dialect into every run.
    sa.Index("uq_tenant_holdings_home", "environment", unique=True),
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
