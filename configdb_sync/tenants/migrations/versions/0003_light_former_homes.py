"""Where data sources were before, without foreign keys: a database checks each row for itself, half of a large move."""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_TABLE = "tenant_former_homes"


def upgrade() -> None:
    """Drop the keys; the purge of a tenant takes the rows away by itself."""
    with op.batch_alter_table(_TABLE) as table:
        for column, target in (("tenant", "tenants"), ("resource", "tenant_resources")):
            table.drop_constraint(f"fk_{_TABLE}_{column}_{target}", type_="foreignkey")
