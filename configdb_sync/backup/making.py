"""Makes a backup of the state while services and runs are at work."""

from __future__ import annotations

import tempfile
from datetime import datetime
from pathlib import Path

from configdb_sync import __version__
from configdb_sync.backup import archive, sqlite
from configdb_sync.backup.manifest import Manifest
from configdb_sync.backup.places import Places
from configdb_sync.errors import StateError


def make(path: Path, places: Places, now: datetime) -> Manifest:
    """Write the state's backup to a new file and return what is in it. Raises ``StateError``."""
    databases = {name: source for name, source in places.databases.items() if source.is_file()}
    secrets = {name: source for name, source in places.secrets.items() if source.is_file()}
    if not databases and not places.elsewhere:
        raise StateError("there is nothing to back up: the state has no database yet", way_out="see --state")
    try:
        # Beside the archive: what is as secret lies on the same disk, for its owner alone.
        with tempfile.TemporaryDirectory(prefix=".configdb-sync-backup-", dir=path.parent) as temporary:
            copies = {name: Path(temporary) / name for name in databases}
            sqlite.copy_all({databases[name]: copies[name] for name in databases})
            files = {**copies, **secrets}
            parts = {name: archive.part_of(file) for name, file in files.items()}
            described = Manifest(__version__, now.isoformat(timespec="seconds"), parts, places.elsewhere)
            archive.write(path, described, files)
    except OSError as error:
        raise StateError(f"the backup {path} can't be written: {error.strerror}", way_out="name another file") from None
    return described
