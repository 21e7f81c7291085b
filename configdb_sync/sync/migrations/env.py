"""Alembic's entry: runs on the connection that ``database.open_database`` hands over."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], version_table="sync_version")
context.run_migrations()
