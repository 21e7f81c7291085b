"""The product's own tables: runs and what they know of nodes and documents; the registry of tenants; leases.

Times of runs are seconds since the epoch, those of tenants microseconds. Before 0.1.0 the two halves had a history
each: what such a database has already, stays.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from alembic.util import CommandError
from sqlalchemy.dialects import postgresql

revision = "v0001"
down_revision = None
branch_labels = None
depends_on = None

_RUNS, _TENANTS = "sync_schema", "tenants_schema"
"""The tables that held the version of each half."""
_STATUSES = ("active", "build", "error")


def upgrade() -> None:
    """Make all tables."""
    there = set(sa.inspect(op.get_bind()).get_table_names())
    if not _adopted(_RUNS, there):
        _nodes()
        _runs()
        _leases()
        _versions()
    else:
        _convert(there)
    _override_notes()
    if not _adopted(_TENANTS, there):
        _tenants()
        _holdings()
        _former()
        _work()
        _page()
    else:
        op.drop_table("tenant_leases")


def _convert(there: set[str]) -> None:
    """Have leases be for anything, and the key's marker for all tables."""
    bind = op.get_bind()
    held = bind.execute(sa.text("SELECT 'environment ' || environment AS name, run, host, until FROM leases"))
    rows = [dict(row) for row in held.mappings()]
    op.drop_table("leases")
    _leases()
    if rows:
        bind.execute(
            sa.text("INSERT INTO leases (name, holder, host, until) VALUES (:name, :run, :host, :until)"), rows
        )
    if "configdb_sync_keys" in there:
        op.execute("UPDATE configdb_sync_keys SET tables = 'configdb_sync_schema' WHERE tables = 'sync_schema'")


def _adopted(table: str, there: set[str]) -> bool:
    """Tell whether a half is there, and drop its version's table. Raises ``CommandError`` for an older one."""
    if table not in there:
        return False
    found = op.get_bind().execute(sa.text(f"SELECT version_num FROM {table}")).scalar()  # noqa: S608
    if found != revision:
        raise CommandError(f"{table} holds {found!r}")
    op.drop_table(table)
    return True


def _required(**columns: Any) -> list[sa.Column[Any]]:
    return [sa.Column(name, kind, nullable=False) for name, kind in columns.items()]


def _optional(**columns: Any) -> list[sa.Column[Any]]:
    return [sa.Column(name, kind) for name, kind in columns.items()]


def _nodes() -> None:
    here = {"place": sa.Text, "environment": sa.Integer, "node": sa.Text}
    op.create_table(
        "records",
        *_required(**here, data_source=sa.Text, body=sa.LargeBinary, run=sa.Text),
        sa.Column("number", sa.BigInteger, nullable=False, server_default="0"),
        sa.PrimaryKeyConstraint("place", "environment", "node", "data_source"),
    )
    op.create_index("records_by_number", "records", ["number"])
    op.create_index("records_by_node", "records", ["node"])
    op.create_table(
        "nodes",
        *_required(**here, fqdn=sa.Text, run=sa.Text),
        sa.PrimaryKeyConstraint("place", "environment", "node"),
    )
    op.create_table(
        "quiet",
        *_required(**here, body=sa.LargeBinary),
        sa.PrimaryKeyConstraint("place", "environment", "node"),
    )


def _runs() -> None:
    op.create_table(
        "runs",
        *_required(identity=sa.Text, environment=sa.Integer, place=sa.Text, author=sa.Text, host=sa.Text),
        *_required(pid=sa.Integer, kind=sa.Text, started=sa.Double),
        *_optional(stage=sa.Text, finished=sa.Double, outcome=sa.Text, exit=sa.Integer, nodes=sa.Integer),
        *_optional(uploads=sa.Integer, writes=sa.Integer, problems=sa.Integer, digest=sa.Text, bytes=sa.BigInteger),
        sa.Column("number", sa.BigInteger, nullable=False, server_default="0"),
        sa.PrimaryKeyConstraint("identity"),
    )
    op.create_index("runs_by_environment", "runs", ["environment", "number"])
    op.create_index("runs_by_number", "runs", ["number"])
    op.create_table(
        "run_nodes",
        *_required(run=sa.Text, node=sa.Text, outcome=sa.Text),
        *_required(uploads=sa.Integer, writes=sa.Integer, problems=sa.Integer),
        sa.PrimaryKeyConstraint("run", "node"),
    )
    op.create_table("run_reports", *_required(run=sa.Text, body=sa.LargeBinary), sa.PrimaryKeyConstraint("run"))
    op.create_table(
        "open_problems",
        *_required(environment=sa.Integer, place=sa.Text, node=sa.Text, number=sa.Integer),
        *_required(what=sa.Text, run=sa.Text),
        *_optional(data_source=sa.Text),
        sa.PrimaryKeyConstraint("environment", "place", "node", "number"),
    )
    op.create_table(
        "withheld",
        *_required(digest=sa.Text, noted=sa.Double),
        *_optional(environment=sa.Integer, run=sa.Text, changes=sa.LargeBinary, author=sa.Text),
        *_optional(approved=sa.Double, spent=sa.Text),
        sa.Column("runs", sa.Integer, nullable=False, server_default="0"),
        sa.PrimaryKeyConstraint("digest"),
    )


def _leases() -> None:
    op.create_table(
        "leases",
        *_required(name=sa.Text, holder=sa.Text, host=sa.Text, until=sa.Double),
        sa.PrimaryKeyConstraint("name"),
    )


def _versions() -> None:
    op.create_table(
        "document_blobs", *_required(address=sa.Text, body=sa.LargeBinary), sa.PrimaryKeyConstraint("address")
    )
    op.create_table(
        "document_versions",
        *_required(server=sa.Text, environment=sa.BigInteger, level=sa.Text, data_source=sa.Text, kind=sa.Text),
        *_required(number=sa.Integer, time=sa.Double, digest=sa.Text, content=sa.Text),
        *_optional(author=sa.Text, run=sa.Text, comment=sa.Text),
        sa.PrimaryKeyConstraint("server", "environment", "level", "data_source", "kind", "number"),
        sa.ForeignKeyConstraint(["content"], ["document_blobs.address"]),
    )
    op.create_index("document_versions_by_content", "document_versions", ["content"])


def _override_notes() -> None:
    op.create_table(
        "override_notes",
        *_required(server=sa.Text, environment=sa.BigInteger, body=sa.LargeBinary),
        sa.PrimaryKeyConstraint("server", "environment"),
    )


def _key() -> sa.Column[int]:
    return sa.Column("number", _number(), primary_key=True)


def _number() -> sa.types.TypeEngine[int]:
    return sa.BigInteger().with_variant(sa.Integer, "sqlite")


def _by_code_point() -> sa.types.TypeEngine[str]:
    return sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def _status() -> list[sa.Column[Any]]:
    status: Any = sa.Enum(*_STATUSES, name="resource_status")
    if op.get_bind().dialect.name == "postgresql":
        status = postgresql.ENUM(*_STATUSES, name="resource_status", create_type=False)
    return [
        *_optional(status=status, status_details=sa.String(4096)),
        sa.Column("version", sa.BigInteger, nullable=False, server_default="1"),
        sa.Column("tag", sa.BigInteger, nullable=False, server_default="1"),
        *_required(created=sa.BigInteger, updated=sa.BigInteger),
    ]


def _counts() -> list[sa.Column[Any]]:
    return [
        sa.Column(name, sa.Integer, nullable=False, server_default="0") for name in ("size", "active", "build", "error")
    ]


def _to(table: str, column: str, target: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        [column], [f"{target}.number"], name=f"fk_{table}_{column}_{target}"[:63], ondelete="CASCADE"
    )


def _tenants() -> None:
    if op.get_bind().dialect.name == "postgresql":
        postgresql.ENUM(*_STATUSES, name="resource_status").create(op.get_bind(), checkfirst=True)
    op.create_table(
        "tenants",
        _key(),
        sa.Column("id", _by_code_point(), nullable=False, unique=True),
        sa.Column("metadata", sa.Text, nullable=False, server_default="{}"),
        sa.Column("updatable", sa.Boolean, nullable=False, server_default=sa.true()),
        *_counts(),
        *_status(),
        *_optional(deleted=sa.BigInteger, purge_after=sa.BigInteger),
        sa.CheckConstraint("length(id) BETWEEN 1 AND 255", name="id_length"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_tenants_purge_after", "tenants", ["purge_after"])


def _holdings() -> None:
    op.create_table(
        "tenant_holdings",
        _key(),
        *_required(tenant=_number(), environment=sa.BigInteger),
        sa.Column("home", sa.Boolean, nullable=False, server_default=sa.false()),
        *_counts(),
        *_status(),
        sa.UniqueConstraint("tenant", "environment"),
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
        _key(),
        *_required(holding=_number(), environment=sa.BigInteger, name=_by_code_point()),
        *_optional(definition=sa.BigInteger),
        *_required(entered=sa.BigInteger),
        *_optional(run=sa.Text),
        *_status(),
        sa.UniqueConstraint("environment", "name"),
        _to("tenant_resources", "holding", "tenant_holdings"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_tenant_resources_holding_name", "tenant_resources", ["holding", "name"])


def _former() -> None:
    op.create_table(
        "tenant_former_homes",
        sa.Column("tenant", _number(), primary_key=True),
        sa.Column("resource", _number(), primary_key=True, index=True),
    )
    op.create_table(
        "tenant_former_holders",
        sa.Column("tenant", _number(), primary_key=True),
        sa.Column("holding", _number(), primary_key=True, index=True),
        *_required(cut=sa.BigInteger, moved=sa.BigInteger),
        _to("tenant_former_holders", "tenant", "tenants"),
        _to("tenant_former_holders", "holding", "tenant_holdings"),
    )


def _work() -> None:
    op.create_table(
        "tenant_outbox",
        _key(),
        *_required(kind=sa.String(16), environment=sa.BigInteger, body=sa.Text, noted=sa.BigInteger),
        sa.Column("tries", sa.Integer, nullable=False, server_default="0"),
        *_optional(failure=sa.Text),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "tenant_audit",
        _key(),
        *_required(time=sa.BigInteger, tenant=_by_code_point(), path=sa.Text, action=sa.String(32)),
        *_required(actor=sa.Text, origin=sa.Text, request=sa.Text),
        sa.Column("details", sa.Text, nullable=False, server_default="{}"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_tenant_audit_tenant_number", "tenant_audit", ["tenant", "number"])


def _page() -> None:
    op.create_table(
        "tenant_status_turns",
        sa.Column("place", sa.String(64), primary_key=True),
        sa.Column("asked", sa.BigInteger, nullable=False, index=True),
        sa.Column("fresh", sa.Boolean, nullable=False, server_default=sa.true()),
    )
    op.create_table(
        "tenant_ended_sessions",
        sa.Column("digest", sa.String(64), primary_key=True),
        sa.Column("until", sa.BigInteger, nullable=False, index=True),
    )
