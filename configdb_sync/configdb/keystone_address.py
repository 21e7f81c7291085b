"""Where Keystone's versions are: at the address that the settings give, not where Keystone says that it is (U5, U12).

Behind a proxy Keystone knows itself by another name. Fuel's answers at ``https://<master>:8443/keystone`` that its
versions are at ``http://<master>:5000``: who believes that sends the password in clear, past the proxy's TLS.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from keystoneauth1 import discover
from keystoneauth1.identity import generic
from keystoneauth1.identity.base import BaseIdentityPlugin

_VERSION = re.compile(r"/v\d+(\.\d+)?\Z")


def asked(url: str) -> str:
    """Return the address to ask for versions: a slash at its end, unless it names a version.

    Fuel's web server knows ``/keystone/`` and not ``/keystone``.
    """
    return url if _VERSION.search(url.rstrip("/")) else f"{url.rstrip('/')}/"


def of_tokens(url: str) -> str:
    """Return the address of v3's tokens at the Keystone of an address, whether that names a version or not."""
    return f"{_VERSION.sub('', url.rstrip('/'))}/v3/auth/tokens"


def of_version(given: str, told: str, version: tuple[int, ...]) -> str:
    """Return the address of a version of the Keystone at ``given`` that says it is at ``told``. Pure.

    It is believed where it stays on the same server and path, or leads to https on the same host.
    """
    here = urlsplit(given)
    try:
        there = urlsplit(told)
        same_server = (here.scheme, here.netloc.lower()) == (there.scheme, there.netloc.lower())
        to_tls = (here.scheme, there.scheme, here.hostname) == ("http", "https", there.hostname)
        _ = there.port
    except ValueError:
        same_server = to_tls = False
    mount = _VERSION.sub("", here.path.rstrip("/"))
    if to_tls or (same_server and there.path.startswith(f"{mount}/")):
        return told
    name = "v2.0" if version[0] == 2 else f"v{version[0]}"
    return urlunsplit((here.scheme, here.netloc, f"{mount}/{name}", "", ""))


class _AtGivenAddress:
    """What keystoneauth's plugins for any version ask is asked at the address that was given."""

    auth_url: Any

    def create_plugin(self, session: Any, version: Any, url: str, raw_status: str | None = None) -> Any:
        """Return the plugin of a version, None where it doesn't fit (keystoneauth's extension point)."""
        found = url
        if discover.version_match((2,), version) or discover.version_match((3,), version):
            found = of_version(self.auth_url, url, version)
        return super().create_plugin(session, version, found, raw_status)  # type: ignore[misc]


class _Password(_AtGivenAddress, generic.Password):
    pass


class _Token(_AtGivenAddress, generic.Token):
    pass


_PLUGINS: dict[type[Any], type[BaseIdentityPlugin]] = {generic.Password: _Password, generic.Token: _Token}


def loader_at_given_address(loader: Any) -> Any:
    """Return a loader like keystoneauth's ``loader``, whose plugins ask the address that they were given."""
    own = _PLUGINS.get(loader.plugin_class)
    return loader if own is None else type("Loader", (type(loader),), {"plugin_class": own})()
