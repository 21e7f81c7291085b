"""Logs in to Keystone and finds ConfigDB in the service catalog (U5), by keystoneauth1."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from keystoneauth1 import exceptions as faults
from keystoneauth1 import loading, session
from keystoneauth1.identity.base import BaseIdentityPlugin

from configdb_sync.configdb import clouds, tokens, urls
from configdb_sync.configdb.model import Limits
from configdb_sync.errors import (
    AccessError,
    MissingError,
    SettingsError,
    UnavailableError,
    UnexpectedAnswerError,
)

SERVICE_TYPE = "config"
_LOGIN = "set OS_* or clouds.yaml, login in the settings file, or the plugin's settings"
T = TypeVar("T")


@dataclass(frozen=True)
class Found:
    """Where ConfigDB is, the tokens for it, and how its certificate is verified."""

    endpoint: str
    tokens: tokens.TokenSource
    ca_file: Path | None
    insecure: bool


class KeystoneTokens:
    """Tokens of one login; keystoneauth1 renews those about to expire by itself, ``renewed`` those refused (S06)."""

    def __init__(self, plugin: BaseIdentityPlugin, connection: session.Session, where: str) -> None:
        self._plugin = plugin
        self._session = connection
        self._where = where
        self._lock = threading.Lock()

    def token(self) -> str:
        """Return the token in hand or a new one."""
        return _asked(self._where, lambda: str(self._plugin.get_token(self._session)))

    def renewed(self, refused: str) -> str | None:
        """Return another token than ``refused``; the login is repeated once for all threads that come with it."""
        with self._lock:
            if self.token() == refused:
                self._plugin.invalidate()
            token = self.token()
        return token if token != refused else None


def tokens_of(environ: Mapping[str, str], *, default_ca: Path | None, limits: Limits) -> KeystoneTokens:
    """Return tokens of the login that ``OS_*`` or ``clouds.yaml`` name; nothing is sent before the first is asked for.

    ``default_ca`` verifies Keystone where they name no authority. Raises ``SettingsError``.
    """
    cloud = clouds.read(environ)
    verified_by = cloud.ca_file or default_ca
    connection = session.Session(
        verify=False if cloud.insecure else str(verified_by) if verified_by else True,
        timeout=limits.read,
        redirect=False,
    )
    return KeystoneTokens(_plugin(cloud), connection, urls.shown(cloud.auth["auth_url"]))


def log_in(
    environ: Mapping[str, str],
    *,
    ca_file: Path | None,
    insecure: bool,
    region: str | None,
    interface: str | None,
    limits: Limits,
    fallback: Callable[[], str | None] | None = None,
) -> Found:
    """Log in by ``OS_*`` or ``clouds.yaml`` and return where ConfigDB is.

    Without an endpoint of type ``config`` in the catalog, ``fallback`` gives the address. Raises ``SettingsError`` for
    settings that are no login, ``AccessError`` if Keystone refuses them, ``UnavailableError`` if it can't be reached,
    ``MissingError`` if there is no endpoint.
    """
    cloud = clouds.read(environ)
    verified_by = ca_file or cloud.ca_file
    insecure = insecure or cloud.insecure
    connection = session.Session(
        verify=str(verified_by) if verified_by else not insecure, timeout=limits.read, redirect=False
    )
    where = urls.shown(cloud.auth["auth_url"])
    plugin = _plugin(cloud)
    source = KeystoneTokens(plugin, connection, where)
    source.token()
    region = region or cloud.region
    interface = interface or cloud.interface
    endpoint = _asked(where, lambda: _endpoint(plugin, connection, interface, region))
    if endpoint is None and fallback is not None:
        endpoint = fallback()
    if endpoint is None:
        place = f" in region {region}" if region else ""
        raise MissingError(
            f"the catalog of Keystone {where} has no {interface} endpoint of type {SERVICE_TYPE}{place}",
            way_out="give ConfigDB's address with --configdb URL",
        )
    return Found(endpoint, source, verified_by, insecure)


def _endpoint(
    plugin: BaseIdentityPlugin, connection: session.Session, interface: str, region: str | None
) -> str | None:
    try:
        found = plugin.get_endpoint(
            connection, service_type=SERVICE_TYPE, interface=interface, region_name=region, skip_discovery=True
        )
    except faults.CatalogException:
        return None
    return None if found is None else str(found)


def _plugin(cloud: clouds.Cloud) -> BaseIdentityPlugin:
    try:
        loader: Any = loading.get_plugin_loader(cloud.auth_type)
        known = {option.dest for option in loader.get_options()}
        options = {name: value for name, value in cloud.auth.items() if name in known}
        if cloud.auth_type.endswith("password") and (lacking := _lacking(options)):
            # keystoneauth takes these for optional, and stumbles over them later.
            raise SettingsError(f"the login to Keystone lacks {lacking}", way_out=_LOGIN)
        plugin = loader.load_from_options(**options)
    except faults.NoMatchingPlugin:
        raise SettingsError(f"auth type {cloud.auth_type!r} isn't known", way_out="set OS_AUTH_TYPE=password") from None
    except faults.MissingRequiredOptions as error:
        names = ", ".join(option.dest for option in error.options)
        raise SettingsError(f"the login to Keystone lacks {names}", way_out=_LOGIN) from None
    if not isinstance(plugin, BaseIdentityPlugin):
        raise SettingsError(
            f"auth type {cloud.auth_type!r} has no catalog", way_out="give --configdb URL and a token file"
        )
    return plugin


def _lacking(options: Mapping[str, str]) -> str:
    missing = [] if options.get("password") else ["password"]
    if not options.get("username") and not options.get("user_id"):
        missing.insert(0, "username")
    return " and ".join(missing)


def _asked(where: str, ask: Callable[[], T]) -> T:
    try:
        return ask()
    except (faults.Unauthorized, faults.Forbidden):
        raise AccessError(
            f"Keystone {where} refused the login", way_out="check user, password, project and their domains"
        ) from None
    except faults.SSLError:
        raise UnavailableError(
            f"the certificate of Keystone {where} can't be verified; nothing was sent",
            way_out="name the authority that signed it with OS_CACERT",
        ) from None
    except (
        faults.ConnectFailure,
        faults.ConnectTimeout,
        faults.HttpServerError,
        faults.RetriableConnectionFailure,
    ):
        raise UnavailableError(f"Keystone {where} can't be reached or fails", way_out="is OS_AUTH_URL right?") from None
    except faults.ClientException as error:
        raise UnexpectedAnswerError(
            f"Keystone {where} can't be used: {type(error).__name__}", way_out="is OS_AUTH_URL right?"
        ) from None
