"""The tables: components, definitions, environments, documents, their contents and versions."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "v0001"
down_revision = None
branch_labels = None
depends_on = None


def _id() -> sa.types.TypeEngine[int]:
    return sa.BigInteger().with_variant(sa.Integer, "sqlite")


def _key() -> sa.Column[int]:
    return sa.Column("id", _id(), primary_key=True)


def _environment(**more: Any) -> sa.Column[int]:
    target = sa.ForeignKey("environments.id", ondelete="CASCADE")
    return sa.Column("environment_id", sa.BigInteger, target, nullable=False, **more)


def _to(target: str) -> sa.ForeignKey:
    return sa.ForeignKey(target, ondelete="CASCADE")


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=False)


def upgrade() -> None:
    """Make all tables in an empty database."""
    op.create_table(
        "components", _key(), sa.Column("name", sa.Text, nullable=False, unique=True), sqlite_autoincrement=True
    )
    op.create_table(
        "resource_definitions",
        _key(),
        sa.Column("component_id", _id(), _to("components.id")),
        _text("name"),
        sa.Column("content", sa.Text, nullable=False, server_default="null"),
        sa.UniqueConstraint("component_id", "name"),
        sqlite_autoincrement=True,
    )
    op.create_table("environments", sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False))
    op.create_table(
        "environment_components",
        _environment(primary_key=True),
        sa.Column("component_id", _id(), _to("components.id"), primary_key=True, index=True),
    )
    op.create_table(
        "hierarchy_levels",
        _key(),
        _environment(),
        _text("name"),
        sa.Column("position", sa.Integer, nullable=False),
        sa.UniqueConstraint("environment_id", "name"),
        sqlite_autoincrement=True,
    )
    _documents()


def _documents() -> None:
    op.create_table(
        "contents",
        sa.Column("address", sa.String(64), primary_key=True),
        _text("digest"),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("key_digests", sa.LargeBinary, nullable=False),
    )
    if op.get_bind().dialect.name == "postgresql":
        # They are compressed already; without this PostgreSQL tries again at each write.
        for column in ("body", "key_digests"):
            op.execute(f"ALTER TABLE contents ALTER COLUMN {column} SET STORAGE EXTERNAL")
    op.create_table(
        "documents",
        _key(),
        _environment(),
        sa.Column("definition_id", _id(), _to("resource_definitions.id"), nullable=False, index=True),
        _text("level"),
        _text("level_value"),
        *(column for kind in ("values", "overrides") for column in _half(kind)),
        sa.UniqueConstraint("environment_id", "definition_id", "level", "level_value"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_documents_place", "documents", ["environment_id", "level", "level_value"])
    op.create_table(
        "versions",
        sa.Column("document_id", _id(), _to("documents.id"), primary_key=True),
        sa.Column("kind", sa.String(9), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("content", sa.String(64), sa.ForeignKey("contents.address"), nullable=False, index=True),
        sa.Column("time", sa.BigInteger, nullable=False),
        _text("author"),
        sa.Column("run", sa.Text),
        sa.Column("comment", sa.Text),
    )


def _half(kind: str) -> list[sa.Column[Any]]:
    return [
        sa.Column(f"{kind}_version", sa.Integer, nullable=False, server_default="0"),
        _text(f"{kind}_digest"),
        sa.Column(f"{kind}_content", sa.String(64)),
    ]
