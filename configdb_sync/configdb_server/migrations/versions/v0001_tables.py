"""The tables: components, definitions, environments, documents, their contents and versions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0001"
down_revision = None
branch_labels = None
depends_on = None


def _id() -> sa.types.TypeEngine[int]:
    return sa.BigInteger().with_variant(sa.Integer, "sqlite")


def _to(table: str, column: str, target: str, *, cascade: bool = True) -> sa.ForeignKeyConstraint:
    name = f"fk_{table}_{column}"
    return sa.ForeignKeyConstraint([column], [target], name=name, ondelete="CASCADE" if cascade else None)


def upgrade() -> None:
    """Make all tables in an empty database."""
    op.create_table(
        "components",
        sa.Column("id", _id(), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_components"),
        sa.UniqueConstraint("name", name="uq_components_name"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "resource_definitions",
        sa.Column("id", _id(), nullable=False),
        sa.Column("component_id", _id(), nullable=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("content", sa.Text, nullable=False, server_default="null"),
        sa.PrimaryKeyConstraint("id", name="pk_resource_definitions"),
        sa.UniqueConstraint("component_id", "name", name="uq_resource_definitions_component_id_name"),
        _to("resource_definitions", "component_id", "components.id"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "environments",
        sa.Column("id", sa.BigInteger, nullable=False, autoincrement=False),
        sa.PrimaryKeyConstraint("id", name="pk_environments"),
    )
    op.create_table(
        "environment_components",
        sa.Column("environment_id", sa.BigInteger, nullable=False),
        sa.Column("component_id", _id(), nullable=False),
        sa.PrimaryKeyConstraint("environment_id", "component_id", name="pk_environment_components"),
        _to("environment_components", "environment_id", "environments.id"),
        _to("environment_components", "component_id", "components.id"),
    )
    op.create_index("ix_environment_components_component_id", "environment_components", ["component_id"])
    op.create_table(
        "hierarchy_levels",
        sa.Column("id", _id(), nullable=False),
        sa.Column("environment_id", sa.BigInteger, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_hierarchy_levels"),
        sa.UniqueConstraint("environment_id", "name", name="uq_hierarchy_levels_environment_id_name"),
        _to("hierarchy_levels", "environment_id", "environments.id"),
        sqlite_autoincrement=True,
    )
    _documents()


def _documents() -> None:
    op.create_table(
        "contents",
        sa.Column("address", sa.String(64), nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("key_digests", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("address", name="pk_contents"),
    )
    if op.get_bind().dialect.name == "postgresql":
        # They are compressed already; without this PostgreSQL tries again at each write.
        for column in ("body", "key_digests"):
            op.execute(f"ALTER TABLE contents ALTER COLUMN {column} SET STORAGE EXTERNAL")
    op.create_table(
        "documents",
        sa.Column("id", _id(), nullable=False),
        sa.Column("environment_id", sa.BigInteger, nullable=False),
        sa.Column("definition_id", _id(), nullable=False),
        sa.Column("level", sa.Text, nullable=False),
        sa.Column("level_value", sa.Text, nullable=False),
        sa.Column("values_version", sa.Integer, nullable=False, server_default="0"),
        sa.Column("values_digest", sa.Text, nullable=False),
        sa.Column("values_content", sa.String(64), nullable=True),
        sa.Column("overrides_version", sa.Integer, nullable=False, server_default="0"),
        sa.Column("overrides_digest", sa.Text, nullable=False),
        sa.Column("overrides_content", sa.String(64), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_documents"),
        sa.UniqueConstraint(
            "environment_id",
            "definition_id",
            "level",
            "level_value",
            name="uq_documents_environment_id_definition_id_level_level_value",
        ),
        _to("documents", "environment_id", "environments.id"),
        _to("documents", "definition_id", "resource_definitions.id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_documents_definition_id", "documents", ["definition_id"])
    op.create_index("ix_documents_place", "documents", ["environment_id", "level", "level_value"])
    op.create_table(
        "versions",
        sa.Column("document_id", _id(), nullable=False),
        sa.Column("kind", sa.String(9), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("content", sa.String(64), nullable=False),
        sa.Column("time", sa.BigInteger, nullable=False),
        sa.Column("author", sa.Text, nullable=False),
        sa.Column("run", sa.Text, nullable=True),
        sa.Column("comment", sa.Text, nullable=True),
        sa.PrimaryKeyConstraint("document_id", "kind", "number", name="pk_versions"),
        _to("versions", "document_id", "documents.id"),
        _to("versions", "content", "contents.address", cascade=False),
    )
    op.create_index("ix_versions_content", "versions", ["content"])
