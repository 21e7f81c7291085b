"""The registry: tenants, what they hold, where it was before; the outbox to ConfigDB, leases, audit, status page."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "v0001"
down_revision = None
branch_labels = None
depends_on = None

_STATUSES = ("active", "build", "error")


def _number() -> sa.types.TypeEngine[int]:
    return sa.BigInteger().with_variant(sa.Integer, "sqlite")


def _by_code_point() -> sa.types.TypeEngine[str]:
    return sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def _state() -> list[sa.Column[Any]]:
    status: Any = sa.Enum(*_STATUSES, name="resource_status")
    if op.get_bind().dialect.name == "postgresql":
        status = postgresql.ENUM(*_STATUSES, name="resource_status", create_type=False)
    return [
        sa.Column("status", status, nullable=True),
        sa.Column("status_details", sa.String(4096), nullable=True),
        sa.Column("version", sa.BigInteger, nullable=False, server_default="1"),
        sa.Column("tag", sa.BigInteger, nullable=False, server_default="1"),
        sa.Column("created", sa.BigInteger, nullable=False),
        sa.Column("updated", sa.BigInteger, nullable=False),
    ]


def _counts() -> list[sa.Column[Any]]:
    return [
        sa.Column(name, sa.Integer, nullable=False, server_default="0") for name in ("size", "active", "build", "error")
    ]


def _to(table: str, column: str, target: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        [column], [f"{target}.number"], name=f"fk_{table}_{column}_{target}"[:63], ondelete="CASCADE"
    )


def upgrade() -> None:
    """Create the tables."""
    if op.get_bind().dialect.name == "postgresql":
        postgresql.ENUM(*_STATUSES, name="resource_status").create(op.get_bind(), checkfirst=True)
    op.create_table(
        "tenants",
        sa.Column("number", _number(), nullable=False),
        sa.Column("id", _by_code_point(), nullable=False),
        sa.Column("metadata", sa.Text, nullable=False, server_default="{}"),
        sa.Column("updatable", sa.Boolean, nullable=False, server_default=sa.true()),
        *_counts(),
        *_state(),
        sa.Column("deleted", sa.BigInteger, nullable=True),
        sa.Column("purge_after", sa.BigInteger, nullable=True),
        sa.PrimaryKeyConstraint("number", name="pk_tenants"),
        sa.UniqueConstraint("id", name="uq_tenants_id"),
        sa.CheckConstraint("length(id) BETWEEN 1 AND 255", name="ck_tenants_id_length"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_tenants_purge_after", "tenants", ["purge_after"])
    _holdings()
    _former()
    _work()
    _page()


def _holdings() -> None:
    op.create_table(
        "tenant_holdings",
        sa.Column("number", _number(), nullable=False),
        sa.Column("tenant", _number(), nullable=False),
        sa.Column("environment", sa.BigInteger, nullable=False),
        sa.Column("home", sa.Boolean, nullable=False, server_default=sa.false()),
        *_counts(),
        *_state(),
        sa.PrimaryKeyConstraint("number", name="pk_tenant_holdings"),
        sa.UniqueConstraint("tenant", "environment", name="uq_tenant_holdings_tenant_environment"),
        _to("tenant_holdings", "tenant", "tenants"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_tenant_holdings_environment", "tenant_holdings", ["environment"])
    op.create_index(
        "uq_tenant_holdings_home",
        "tenant_holdings",
        ["environment"],
        unique=True,
        sqlite_where=sa.text("home"),
        postgresql_where=sa.text("home"),
    )
    op.create_table(
        "tenant_resources",
        sa.Column("number", _number(), nullable=False),
        sa.Column("holding", _number(), nullable=False),
        sa.Column("environment", sa.BigInteger, nullable=False),
        sa.Column("name", _by_code_point(), nullable=False),
        sa.Column("definition", sa.BigInteger, nullable=True),
        sa.Column("entered", sa.BigInteger, nullable=False),
        sa.Column("run", sa.Text, nullable=True),
        *_state(),
        sa.PrimaryKeyConstraint("number", name="pk_tenant_resources"),
        sa.UniqueConstraint("environment", "name", name="uq_tenant_resources_environment_name"),
        _to("tenant_resources", "holding", "tenant_holdings"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_tenant_resources_holding_name", "tenant_resources", ["holding", "name"])


def _former() -> None:
    op.create_table(
        "tenant_former_homes",
        sa.Column("tenant", _number(), nullable=False),
        sa.Column("resource", _number(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "resource", name="pk_tenant_former_homes"),
    )
    op.create_index("ix_tenant_former_homes_resource", "tenant_former_homes", ["resource"])
    op.create_table(
        "tenant_former_holders",
        sa.Column("tenant", _number(), nullable=False),
        sa.Column("holding", _number(), nullable=False),
        sa.Column("cut", sa.BigInteger, nullable=False),
        sa.Column("moved", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "holding", name="pk_tenant_former_holders"),
        _to("tenant_former_holders", "tenant", "tenants"),
        _to("tenant_former_holders", "holding", "tenant_holdings"),
    )
    op.create_index("ix_tenant_former_holders_holding", "tenant_former_holders", ["holding"])


def _work() -> None:
    op.create_table(
        "tenant_outbox",
        sa.Column("number", _number(), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("environment", sa.BigInteger, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("noted", sa.BigInteger, nullable=False),
        sa.Column("tries", sa.Integer, nullable=False, server_default="0"),
        sa.Column("failure", sa.Text, nullable=True),
        sa.PrimaryKeyConstraint("number", name="pk_tenant_outbox"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "tenant_leases",
        sa.Column("name", sa.String(32), nullable=False),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("until", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_tenant_leases"),
    )
    op.create_table(
        "tenant_audit",
        sa.Column("number", _number(), nullable=False),
        sa.Column("time", sa.BigInteger, nullable=False),
        sa.Column("tenant", _by_code_point(), nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("action", sa.String(32), nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("origin", sa.Text, nullable=False),
        sa.Column("request", sa.Text, nullable=False),
        sa.Column("details", sa.Text, nullable=False, server_default="{}"),
        sa.PrimaryKeyConstraint("number", name="pk_tenant_audit"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_tenant_audit_tenant_number", "tenant_audit", ["tenant", "number"])


def _page() -> None:
    op.create_table(
        "tenant_status_turns",
        sa.Column("place", sa.String(64), nullable=False),
        sa.Column("asked", sa.BigInteger, nullable=False),
        sa.Column("fresh", sa.Boolean, nullable=False, server_default=sa.true()),
        sa.PrimaryKeyConstraint("place", name="pk_tenant_status_turns"),
    )
    op.create_index("ix_tenant_status_turns_asked", "tenant_status_turns", ["asked"])
    op.create_table(
        "tenant_ended_sessions",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("until", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_tenant_ended_sessions"),
    )
    op.create_index("ix_tenant_ended_sessions_until", "tenant_ended_sessions", ["until"])
