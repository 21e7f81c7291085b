"""Opens the registry in the product's own database."""

from __future__ import annotations

from configdb_sync.store.database import Database
from configdb_sync.store.opening import open_store
from configdb_sync.web.refusals import RefusalError, refuse


def open_registry(url: str, *, connections: int = 8) -> Database:
    """Return the database at a URL, the registry's tables up to date; ``StateError`` if it can't be used."""
    return open_store(url, connections=connections, unavailable=_unavailable)


def _unavailable() -> RefusalError:
    # The driver's own text may hold the database's address and parameters: not for a client.
    return refuse(503, "the registry's database can't be used now", ("Retry-After", "5"))
