"""Addresses of peers: checked, fit to be shown, and whether a redirect of one is followed. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from configdb_sync.errors import SettingsError

REDIRECTS = frozenset({301, 302, 303, 307, 308})
_LOOPBACK = re.compile(r"localhost|127(\.\d{1,3}){3}|::1", re.IGNORECASE)


@dataclass(frozen=True)
class Peer:
    """How messages name a server, and which settings they refer the user to."""

    name: str
    address: str
    """What its address looks like."""
    login: str
    """How to give credentials."""
    authority: str
    """The option that names the authority of its certificate."""

    def base_url(self, text: str) -> str:
        """Return the server's address without a trailing slash.

        Raises ``SettingsError`` unless it is http or https with a host, and without credentials, query or fragment.
        """
        way_out = f"it looks like {self.address}"
        try:
            parts = urlsplit(text.strip())
            host, _ = parts.hostname, parts.port
        except ValueError:
            raise SettingsError(f"the {self.name} address can't be read", way_out=way_out) from None
        if parts.username is not None or parts.password is not None:
            raise SettingsError(f"the {self.name} address of {host} holds credentials", way_out=self.login)
        if parts.scheme not in {"http", "https"} or not host or parts.query or parts.fragment:
            raise SettingsError(f"{shown(text)!r} is no {self.name} address", way_out=way_out)
        return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))


def is_loopback(url: str) -> bool:
    """Tell whether the address is on this machine."""
    return _LOOPBACK.fullmatch(urlsplit(url).hostname or "") is not None


def shown(url: str) -> str:
    """Return an address fit to be shown: without credentials, and of the query only the names."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return "(an unreadable address)"
    if not parts.netloc and "@" in url:
        return "(an unreadable address)"  # credentials may stand anywhere in it
    query = "&".join(item.partition("=")[0] for item in parts.query.split("&")) if parts.query else ""
    return urlunsplit((parts.scheme, host, parts.path, query, ""))


def https_target(url: str, location: str) -> str | None:
    """Return the server (``https://host:port``) that a redirect of a plain http address leads to; None if the redirect
    isn't followed (U12).

    Only the step to https on the same host with the same path is followed: the next request carries secrets.
    """
    here = urlsplit(url)
    try:
        there = urlsplit(location)
        _ = there.port
    except ValueError:
        return None
    if here.scheme != "http" or there.scheme != "https" or there.hostname != here.hostname:
        return None
    if there.username is not None or there.password is not None or there.fragment:
        return None
    if (there.path, there.query) != (here.path, here.query):
        return None
    return urlunsplit(("https", there.netloc, "", "", ""))
