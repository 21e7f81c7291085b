"""Opens the registry in the product's own database."""

from __future__ import annotations

from pathlib import Path

from configdb_sync.database import Database, Schema, opened
from configdb_sync.web.refusals import RefusalError, refuse

SCHEMA = Schema(folder=Path(__file__).parent / "migrations", head="v0001", table="tenants_schema")


def open_registry(url: str, *, connections: int = 8) -> Database:
    """Return the database at a URL, the registry's tables up to date; ``StateError`` if it can't be used."""
    return opened(url, SCHEMA, what="the product's own database", connections=connections, unavailable=_unavailable)


def _unavailable() -> RefusalError:
    # The driver's own text may hold the database's address and parameters: not for a client.
    return refuse(503, "the registry's database can't be used now", ("Retry-After", "5"))
