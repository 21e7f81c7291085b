"""Where a call's token comes from, and how a refused one is renewed (S06). No token is ever shown."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from configdb_sync.closed_files import read_closed
from configdb_sync.errors import SettingsError

_TOKEN_LIMIT = 16 * 1024


class TokenSource(Protocol):
    """Gives tokens to several threads."""

    def token(self) -> str:
        """Return the token to send; raises ``AccessError`` or ``UnavailableError`` if there is none."""

    def renewed(self, refused: str) -> str | None:
        """Return another token than the one that was refused, or None if there is no other."""


class FixedToken:
    """One token, given."""

    def __init__(self, token: str) -> None:
        self._token = checked(token, "the token")

    def token(self) -> str:
        """Return it."""
        return self._token

    def renewed(self, refused: str) -> str | None:
        """Return it if another one was refused, else None."""
        return self._token if refused != self._token else None


class RenewedToken:
    """A token that ``fetch`` gets; asked again only when the one in hand was refused, by one thread for all."""

    def __init__(self, fetch: Callable[[], str], renew: Callable[[], str] | None = None) -> None:
        self._fetch = fetch
        self._renew = renew or fetch
        self._lock = threading.Lock()
        self._token: str | None = None

    def token(self) -> str:
        """Return the token in hand, or fetch the first."""
        with self._lock:
            if self._token is None:
                self._token = self._fetch()
            return self._token

    def renewed(self, refused: str) -> str | None:
        """Return the token that another thread got meanwhile, or get a new one; None if it is the same again."""
        with self._lock:
            if self._token is None or self._token == refused:
                self._token = self._renew()
            return self._token if self._token != refused else None


def from_file(path: Path) -> RenewedToken:
    """Return the token of a file, read anew when it was refused (the file may have been changed meanwhile)."""
    return RenewedToken(lambda: _read(path))


def checked(token: str, what: str) -> str:
    """Return a token that can stand in a header; ``SettingsError`` names ``what`` and never shows it."""
    found = token.strip()
    if not found or len(found) > _TOKEN_LIMIT or not found.isascii() or not found.isprintable() or " " in found:
        raise SettingsError(f"{what} is no token", way_out="give one line of printable ASCII characters without spaces")
    return found


def _read(path: Path) -> str:
    content = read_closed(path, "the token file", limit=_TOKEN_LIMIT + 1, way_out="see --configdb-token-file")
    return checked(content.decode("latin-1"), f"the content of {path}")
