"""Alembic's environment for all databases: migrations run on ``store.opening``'s connection, in its transaction."""

from __future__ import annotations

from alembic import context
from sqlalchemy import MetaData

from configdb_sync.store.schema import NAMING

context.configure(
    connection=context.config.attributes["connection"],
    version_table=context.config.attributes["version_table"],
    target_metadata=MetaData(naming_convention=NAMING),
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
