"""Records of what was uploaded and written, a row a document; and which nodes were seen, by name."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "records",
        sa.Column("place", sa.Text, nullable=False),
        sa.Column("environment", sa.Integer, nullable=False),
        sa.Column("node", sa.Text, nullable=False),
        sa.Column("data_source", sa.Text, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("run", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("place", "environment", "node", "data_source"),
    )
    op.create_table(
        "nodes",
        sa.Column("place", sa.Text, nullable=False),
        sa.Column("environment", sa.Integer, nullable=False),
        sa.Column("node", sa.Text, nullable=False),
        sa.Column("fqdn", sa.Text, nullable=False),
        sa.Column("run", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("place", "environment", "node"),
    )


def downgrade() -> None:
    """Drop the tables."""
    op.drop_table("nodes")
    op.drop_table("records")
