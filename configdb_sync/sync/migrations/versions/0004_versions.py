"""Versions of values and overrides on ConfigDB servers that keep none (U17).

Contents are addressed by the sha256 of their text. Times are seconds since the epoch.
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "document_blobs",
        sa.Column("address", sa.Text, primary_key=True),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "document_versions",
        sa.Column("server", sa.Text, nullable=False),
        sa.Column("environment", sa.BigInteger, nullable=False),
        sa.Column("level", sa.Text, nullable=False),
        sa.Column("data_source", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("time", sa.Double, nullable=False),
        sa.Column("author", sa.Text),
        sa.Column("run", sa.Text),
        sa.Column("comment", sa.Text),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("content", sa.Text, sa.ForeignKey("document_blobs.address"), nullable=False),
        sa.PrimaryKeyConstraint("server", "environment", "level", "data_source", "kind", "number"),
    )
    op.create_index("document_versions_by_content", "document_versions", ["content"])


def downgrade() -> None:
    """Drop the tables."""
    op.drop_index("document_versions_by_content", "document_versions")
    op.drop_table("document_versions")
    op.drop_table("document_blobs")
