"""Where the parts of the state lie: in the state folder, or where the settings say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from configdb_sync.backup.manifest import CONFIGDB, DATABASE, SECRETS
from configdb_sync.database.urls import parsed, servers_of
from configdb_sync.state import State


@dataclass(frozen=True)
class Places:
    """``databases``: SQLite's files by their part's name; ``secrets``: the state folder's small files by theirs;
    ``elsewhere``: databases of another kind by their part's name, each its address without a password; ``key_file``:
    what the databases are encrypted with, which is no part of a backup."""

    databases: Mapping[str, Path]
    secrets: Mapping[str, Path]
    elsewhere: Mapping[str, str]
    key_file: Path | None = None


def places_of(state: State, database: str, configdb_database: str, key_file: Path | None = None) -> Places:
    """Return where everything is, whether it is there or not. Raises ``StateError`` for a URL that is none."""
    databases: dict[str, Path] = {}
    elsewhere: dict[str, str] = {}
    for name, text in ((DATABASE, database), (CONFIGDB, configdb_database)):
        url = parsed(text, name)
        if url.get_backend_name() == "sqlite" and url.database:
            databases[name] = Path(url.database)
        else:
            elsewhere[name] = f"{url.get_backend_name()}://{servers_of(url)}/{url.database or ''}"
    return Places(databases, {name: state.folder / name for name in SECRETS}, elsewhere, key_file)
