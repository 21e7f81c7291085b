"""When the status of a place was last asked for: of several processes, one asks."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "tenant_status_turns",
        sa.Column("place", sa.String(64), nullable=False),
        sa.Column("asked", sa.BigInteger, nullable=False),
        sa.Column("fresh", sa.Boolean, nullable=False, server_default=sa.true()),
        sa.PrimaryKeyConstraint("place", name="pk_tenant_status_turns"),
    )
    op.create_index("ix_tenant_status_turns_asked", "tenant_status_turns", ["asked"])
