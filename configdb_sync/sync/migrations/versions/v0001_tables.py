"""The tables of runs, with what they know of nodes and documents. Times are seconds since the epoch."""

import sqlalchemy as sa
from alembic import op

revision = "v0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make all tables."""
    _nodes()
    _runs()
    _state()
    _versions()


def _nodes() -> None:
    op.create_table(
        "records",
        sa.Column("place", sa.Text, nullable=False),
        sa.Column("environment", sa.Integer, nullable=False),
        sa.Column("node", sa.Text, nullable=False),
        sa.Column("data_source", sa.Text, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("run", sa.Text, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False, server_default="0"),
        sa.PrimaryKeyConstraint("place", "environment", "node", "data_source"),
    )
    op.create_index("records_by_number", "records", ["number"])
    op.create_index("records_by_node", "records", ["node"])
    op.create_table(
        "nodes",
        sa.Column("place", sa.Text, nullable=False),
        sa.Column("environment", sa.Integer, nullable=False),
        sa.Column("node", sa.Text, nullable=False),
        sa.Column("fqdn", sa.Text, nullable=False),
        sa.Column("run", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("place", "environment", "node"),
    )
    op.create_table(
        "quiet",
        sa.Column("place", sa.Text, nullable=False),
        sa.Column("environment", sa.Integer, nullable=False),
        sa.Column("node", sa.Text, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("place", "environment", "node"),
    )


def _runs() -> None:
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
        sa.Column("bytes", sa.BigInteger),
        sa.Column("number", sa.BigInteger, nullable=False, server_default="0"),
    )
    op.create_index("runs_by_environment", "runs", ["environment", "number"])
    op.create_index("runs_by_number", "runs", ["number"])
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


def _state() -> None:
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
        sa.Column("runs", sa.Integer, nullable=False, server_default="0"),
    )


def _versions() -> None:
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
