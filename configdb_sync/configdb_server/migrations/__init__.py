"""Migrations of the embedded ConfigDB's tables, run by Alembic."""
