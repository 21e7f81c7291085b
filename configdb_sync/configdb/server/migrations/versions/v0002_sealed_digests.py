"""Digests may be sealed (U30), and are longer then."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Let the columns hold texts of any length. SQLite does so whatever they are declared as."""
    if op.get_bind().dialect.name != "postgresql":
        return
    for table, column in (
        ("contents", "digest"),
        ("documents", "values_digest"),
        ("documents", "overrides_digest"),
    ):
        op.alter_column(table, column, type_=sa.Text, existing_type=sa.String(64), existing_nullable=False)
