"""What a node was like when a run found nothing to do on it, so that the next needn't look closer."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "quiet",
        sa.Column("place", sa.Text, nullable=False),
        sa.Column("environment", sa.Integer, nullable=False),
        sa.Column("node", sa.Text, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("place", "environment", "node"),
    )


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("quiet")
