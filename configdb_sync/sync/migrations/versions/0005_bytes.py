"""How many bytes each run sent to ConfigDB and wrote into files."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.add_column("runs", sa.Column("bytes", sa.BigInteger))


def downgrade() -> None:
    """Take it away."""
    op.drop_column("runs", "bytes")
