"""Runs: what each did, which node when; who is at work now; what is wrong now; what was withheld and approved.

Times are seconds since the epoch.
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "runs",
        sa.Column("identity", sa.Text, primary_key=True),
        sa.Column("environment", sa.Integer, nullable=False),
        sa.Column("place", sa.Text, nullable=False),
        sa.Column("author", sa.Text, nullable=False),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("pid", sa.Integer, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("stage", sa.Text),
        sa.Column("started", sa.Double, nullable=False),
        sa.Column("finished", sa.Double),
        sa.Column("outcome", sa.Text),
        sa.Column("exit", sa.Integer),
        sa.Column("nodes", sa.Integer),
        sa.Column("uploads", sa.Integer),
        sa.Column("writes", sa.Integer),
        sa.Column("problems", sa.Integer),
        sa.Column("digest", sa.Text),
    )
    op.create_index("runs_by_environment", "runs", ["environment", "started"])
    op.create_table(
        "run_nodes",
        sa.Column("run", sa.Text, nullable=False),
        sa.Column("node", sa.Text, nullable=False),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("uploads", sa.Integer, nullable=False),
        sa.Column("writes", sa.Integer, nullable=False),
        sa.Column("problems", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("run", "node"),
    )
    op.create_table(
        "run_reports",
        sa.Column("run", sa.Text, primary_key=True),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "open_problems",
        sa.Column("environment", sa.Integer, nullable=False),
        sa.Column("place", sa.Text, nullable=False),
        sa.Column("node", sa.Text, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("data_source", sa.Text),
        sa.Column("what", sa.Text, nullable=False),
        sa.Column("run", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("environment", "place", "node", "number"),
    )
    op.create_table(
        "leases",
        sa.Column("environment", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("run", sa.Text, nullable=False),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("until", sa.Double, nullable=False),
    )
    op.create_table(
        "withheld",
        sa.Column("digest", sa.Text, primary_key=True),
        sa.Column("environment", sa.Integer),
        sa.Column("run", sa.Text),
        sa.Column("noted", sa.Double, nullable=False),
        sa.Column("changes", sa.LargeBinary),
        sa.Column("author", sa.Text),
        sa.Column("approved", sa.Double),
        sa.Column("spent", sa.Text),
    )


def downgrade() -> None:
    """Drop the tables."""
    for table in ("withheld", "leases", "open_problems", "run_reports", "run_nodes"):
        op.drop_table(table)
    op.drop_index("runs_by_environment", "runs")
    op.drop_table("runs")
