"""What the watch finds, and each environment's last round of it (U29). Times are seconds since the epoch."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0002"
down_revision = "v0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the two tables."""
    texts = ("kind", "node", "data_source", "level", "key", "text")
    op.create_table(
        "findings",
        sa.Column("identity", sa.String(32), nullable=False),
        sa.Column("environment", sa.Integer, nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in texts),
        sa.Column("count", sa.Integer, nullable=False),
        *(sa.Column(name, sa.Double, nullable=False) for name in ("first_seen", "last_seen")),
        sa.Column("settled", sa.Double),
        sa.Column("notification", sa.Integer),
        sa.PrimaryKeyConstraint("identity"),
    )
    op.create_index("findings_by_environment", "findings", ["environment", "settled"])
    op.create_table(
        "watch_rounds",
        sa.Column("environment", sa.Integer, nullable=False),
        *(sa.Column(name, sa.Double, nullable=False) for name in ("started", "finished")),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("outcome", "text")),
        sa.Column("complete", sa.Double),
        *(sa.Column(name, sa.Integer) for name in ("nodes", "overrides", "expiring")),
        sa.PrimaryKeyConstraint("environment"),
    )
