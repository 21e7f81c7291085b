"""What the status pages tell runs and versions from, made from a command's settings."""

from __future__ import annotations

from configdb_sync.cli.options import Session
from configdb_sync.clock import SystemClock
from configdb_sync.store.database import Database
from configdb_sync.store.opening import open_store
from configdb_sync.store.versions import VersionStore
from configdb_sync.tenants.page.chronicle import Chronicle, make


def chronicle_of(session: Session, database: Database) -> Chronicle:
    """Return the chronicle that a database holds: the product's own, its tables up to date."""
    settings = session.settings
    versions = VersionStore(lambda: open_store(session.database), settings.keep_versions, SystemClock())
    return make(database, versions, session.masker, settings.levels, SystemClock())
