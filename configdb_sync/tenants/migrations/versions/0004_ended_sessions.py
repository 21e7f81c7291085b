"""Cookies of the status page that were signed out with: nobody gets in with one again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_TABLE = "tenant_ended_sessions"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        _TABLE,
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("until", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("digest", name=f"pk_{_TABLE}"),
    )
    op.create_index(f"ix_{_TABLE}_until", _TABLE, ["until"])
