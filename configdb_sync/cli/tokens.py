"""Token files that the services are given (``architecture.md``, Embedded ConfigDB)."""

from __future__ import annotations

import stat
from pathlib import Path

from configdb_sync.errors import SettingsError


def read_token(path: Path) -> str:
    """Return the token of a file of mode 0600. Raises ``SettingsError``."""
    try:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise SettingsError(f"the token file {path} is open to others", way_out=f"chmod 0600 {path}")
        token = path.read_text("ascii").strip()
    except OSError as error:
        raise SettingsError(f"the token file {path} can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        token = ""
    if len(token) < 16 or not token.isprintable():
        raise SettingsError(f"the token file {path} holds no token of at least 16 ASCII characters")
    return token
