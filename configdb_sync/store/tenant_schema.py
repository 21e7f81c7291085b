"""The tenants' tables in the product's own database, apart from ``schema``: few commands need them.

A *holding* is what one tenant has in one environment; data sources hang on it, so that moving an environment is one
row where the destination had nothing there. Counters of data sources by status stand at the holding and the tenant.
``version`` grows with any change of what a representation shows, ``tag`` with a change of what a move action shows.
Times are microseconds since 1970, UTC.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Enum,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
    true,
)
from sqlalchemy.types import TypeEngine

from configdb_sync.store.schema import metadata


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
    # Of homes alone, as the migration says: a dialect's option here would load that dialect into every run.
    Index("uq_tenant_holdings_home", "environment", unique=True),
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
