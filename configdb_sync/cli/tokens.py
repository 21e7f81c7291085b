"""Token files that the services are given."""

from __future__ import annotations

from pathlib import Path

from configdb_sync.closed_files import read_closed
from configdb_sync.errors import SettingsError


def read_token(path: Path) -> str:
    """Return the token of a file of mode 0600. Raises ``SettingsError``."""
    token = read_closed(path, "the token file").decode("latin-1").strip()
    if len(token) < 16 or not token.isascii() or not token.isprintable():
        raise SettingsError(f"the token file {path} holds no token of at least 16 ASCII characters")
    return token
