"""The history that the status page reads, made from a command's settings."""

from __future__ import annotations

from configdb_sync.cli.options import Session
from configdb_sync.clock import SystemClock
from configdb_sync.status_page.queries import History
from configdb_sync.store.database import Database
from configdb_sync.store.opening import open_store
from configdb_sync.store.versions import VersionStore


def history_of(session: Session, database: Database) -> History:
    """Return the history that a database holds; its tables must be up to date."""
    settings = session.settings
    versions = VersionStore(lambda: open_store(session.database), settings.keep_versions, SystemClock())
    return History.opened(database, versions, session.masker, settings.levels, SystemClock())
