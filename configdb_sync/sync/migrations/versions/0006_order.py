"""An order of runs and records that no clock can turn around; approvals that last for a number of runs."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the numbers; what is there is numbered by its times."""
    op.add_column("runs", sa.Column("number", sa.BigInteger, nullable=False, server_default="0"))
    op.execute(
        "UPDATE runs SET number = (SELECT count(*) FROM runs AS other WHERE other.started < runs.started"
        " OR (other.started = runs.started AND other.identity <= runs.identity))"
    )
    op.drop_index("runs_by_environment", "runs")
    op.create_index("runs_by_environment", "runs", ["environment", "number"])
    op.create_index("runs_by_number", "runs", ["number"])
    op.add_column("records", sa.Column("number", sa.BigInteger, nullable=False, server_default="0"))
    op.create_index("records_by_number", "records", ["number"])
    op.create_index("records_by_node", "records", ["node"])
    op.add_column("withheld", sa.Column("runs", sa.Integer, nullable=False, server_default="0"))


def downgrade() -> None:
    """Take them away."""
    op.drop_column("withheld", "runs")
    for index in ("records_by_node", "records_by_number"):
        op.drop_index(index, "records")
    op.drop_column("records", "number")
    for index in ("runs_by_number", "runs_by_environment"):
        op.drop_index(index, "runs")
    op.create_index("runs_by_environment", "runs", ["environment", "started"])
    op.drop_column("runs", "number")
