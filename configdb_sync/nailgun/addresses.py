"""Where Nailgun is, and which of its redirects are followed. Pure.

The master's web server answers on http 8000 itself, or leads from there to https 8443. Only that one step is followed:
to https, on the same host, with the same path. Everything else that leads elsewhere is refused, since the next
request carries a token.
"""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

from configdb_sync.configdb.urls import led_to_tls, shown
from configdb_sync.errors import SettingsError

_LIKE = "it looks like https://<master>:8443 or http://<master>:8000"


def base_url(text: str) -> str:
    """Return Nailgun's address without a trailing slash, and without ``/api`` or ``/api/v1`` at its end.

    Raises ``SettingsError`` unless it is http or https with a host, and without credentials, query or fragment.
    """
    try:
        parts = urlsplit(text.strip())
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise SettingsError("the Nailgun address can't be read", way_out=_LIKE) from None
    if parts.username is not None or parts.password is not None:
        raise SettingsError(f"the Nailgun address of {host} holds credentials", way_out="give them as OS_* variables")
    if parts.scheme not in {"http", "https"} or not host or parts.query or parts.fragment:
        raise SettingsError(f"{shown(text)!r} is no Nailgun address", way_out=_LIKE)
    path = parts.path.rstrip("/").removesuffix("/v1").removesuffix("/api")
    return urlunsplit((parts.scheme, parts.netloc, path.rstrip("/"), "", ""))


def led_to(base: str, path: str, location: str) -> str | None:
    """Return the base that a redirect of ``base + path`` leads to, None if it is not to be followed."""
    server = led_to_tls(base + path, location)
    return None if server is None else server + urlsplit(base).path
