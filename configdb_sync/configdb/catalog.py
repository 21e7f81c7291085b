"""Logs in to Keystone, v3 or v2.0, and finds ConfigDB in the service catalog (U5), by keystoneauth1."""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import requests
import urllib3
from keystoneauth1 import exceptions as faults
from keystoneauth1 import loading, session
from keystoneauth1.identity.base import BaseIdentityPlugin

from configdb_sync.configdb import clouds, keystone_address, keystone_errors, tokens, urls
from configdb_sync.configdb.model import Limits
from configdb_sync.configdb.tls_redirects import TlsRedirectAdapter
from configdb_sync.errors import (
    AccessError,
    ConfigDBError,
    MissingError,
    SettingsError,
)

SERVICE_TYPE = "config"
_LOGIN = "set OS_* or clouds.yaml, login in the settings file, or the plugin's settings"
_SCOPES = ("project_", "tenant_")
T = TypeVar("T")


@dataclass(frozen=True)
class Found:
    """Where ConfigDB is, the tokens for it, and how its certificate is verified. ``missing``: what to say if it isn't
    there; None if the catalog names the place itself."""

    endpoint: str
    tokens: tokens.TokenSource
    ca_file: Path | None
    insecure: bool
    missing: MissingError | None = None


class KeystoneTokens:
    """Tokens of one login; keystoneauth1 renews those about to expire by itself, ``renewed`` those refused (S06)."""

    def __init__(self, login: Login) -> None:
        self._login = login
        self._lock = threading.Lock()

    def token(self) -> str:
        """Return the token in hand or a new one."""
        return self._login.asked(lambda: str(self._login.plugin.get_token(self._login.connection)))

    def renewed(self, refused: str) -> str | None:
        """Return another token than ``refused``; the login is repeated once for all threads that come with it."""
        with self._lock:
            if self.token() == refused:
                self._login.plugin.invalidate()
            token = self.token()
        return token if token != refused else None


@dataclass(frozen=True)
class Login:
    """A way to log in to the Keystone at ``where`` (fit to be shown); nothing was sent yet. ``unscoped``: the same
    without a project, None where there is none to leave out."""

    cloud: clouds.Cloud
    plugin: BaseIdentityPlugin
    connection: session.Session
    verified_by: Path | None
    insecure: bool
    where: str
    unscoped: BaseIdentityPlugin | None = field(default=None, repr=False)

    def tokens(self) -> KeystoneTokens:
        """Return its tokens."""
        return KeystoneTokens(self)

    def revoke(self, token: str) -> None:
        """Have Keystone (v3) revoke a token, by that token's own right.

        Raises ``UnavailableError``, ``ConfigDBError``; also where it is no good token any more.
        """
        where = keystone_address.of_tokens(self.cloud.auth["auth_url"])
        headers = {"X-Auth-Token": token, "X-Subject-Token": token}
        self.asked(lambda: self.connection.delete(where, headers=headers, authenticated=False))

    def asked(self, ask: Callable[[], T]) -> T:
        """Return what ``ask`` gives; what keystoneauth raises becomes the product's own errors."""
        try:
            return ask()
        except (faults.Unauthorized, faults.Forbidden) as error:
            raise self._refusal(error) from None
        except faults.ClientException as error:
            raise keystone_errors.meant(self.where, error) from None
        except (TypeError, ValueError, KeyError, AttributeError, IndexError):
            # keystoneauth stumbles over JSON that is none of Keystone's.
            raise keystone_errors.no_keystone(self.where, "its answer is another one's") from None

    def _refusal(self, error: faults.HttpError) -> AccessError:
        """Return what is wrong with the login, as far as Keystone tells. It doesn't say which of user, password and
        project is wrong, but it gives a user who exists a token without a project."""
        auth = self.cloud.auth
        user = auth.get("username") or auth.get("user_id") or auth.get("application_credential_id")
        project = auth.get("project_name") or auth.get("project_id") or auth.get("tenant_id")
        what = f"Keystone {self.where} refused the login{f' of user {user}' if user else ''}"
        said = keystone_errors.said(error, auth)
        if not self.cloud.auth_type.endswith("password"):
            return AccessError(f"{what}{said}", way_out=_LOGIN)
        if not self._knows_user():
            return AccessError(
                f"{what}: the user or the password is wrong, which of them Keystone doesn't tell{said}",
                way_out="check user, password and the user's domain",
            )
        return AccessError(
            f"{what} to project {project}: user and password are right, but there is no such project, or the user has"
            f" no role in it{said}",
            way_out="check the project and its domain",
        )

    def _knows_user(self) -> bool:
        if self.unscoped is None:
            return False
        try:
            return bool(self.unscoped.get_token(self.connection))
        except (faults.ClientException, TypeError, ValueError, KeyError, AttributeError, IndexError):
            return False


def login(
    environ: Mapping[str, str],
    *,
    limits: Limits,
    ca_file: Path | None = None,
    default_ca: Path | None = None,
    any_name: bool = False,
    insecure: bool = False,
) -> Login:
    """Return the login that ``OS_*`` or ``clouds.yaml`` name; nothing is sent before the first token is asked for.

    ``ca_file`` verifies Keystone whatever they say, ``default_ca`` where they name no authority; ``any_name``: that one
    is the peer's own certificate, under whatever name it is reached. Raises ``SettingsError``.
    """
    cloud = clouds.read(environ)
    verified_by = ca_file or cloud.ca_file
    insecure = verified_by is None and (insecure or cloud.insecure)
    any_name = any_name and verified_by is None and default_ca is not None
    verified_by = verified_by or (None if insecure else default_ca)
    if verified_by is not None and not verified_by.is_file():
        raise SettingsError(f"the authority file {verified_by} isn't there", way_out="see OS_CACERT and --configdb-ca")
    if insecure:
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    # What it would warn of becomes an error of ours, or is none.
    logging.getLogger("keystoneauth").setLevel(logging.ERROR)
    ending = requests.Session()
    for scheme in ("http://", "https://"):
        ending.mount(scheme, TlsRedirectAdapter(limits.total, 2, any_name=any_name and not insecure))
    connection = session.Session(
        session=ending,
        verify=str(verified_by) if verified_by else not insecure,
        timeout=limits.read,
        redirect=False,
    )
    scope = {name for name in cloud.auth if name.startswith(_SCOPES)}
    bare = dataclasses.replace(cloud, auth={name: cloud.auth[name] for name in cloud.auth if name not in scope})
    return Login(
        cloud,
        _plugin(cloud),
        connection,
        verified_by,
        insecure,
        urls.shown(cloud.auth["auth_url"]),
        _plugin(bare) if scope else None,
    )


def tokens_of(
    environ: Mapping[str, str], *, default_ca: Path | None, limits: Limits, any_name: bool = False
) -> KeystoneTokens:
    """Return tokens of a ``login``. Raises ``SettingsError``."""
    return login(environ, limits=limits, default_ca=default_ca, any_name=any_name).tokens()


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
    ``MissingError`` if there is no endpoint, ``ConfigDBError`` if there are several.
    """
    told = login(environ, limits=limits, ca_file=ca_file, insecure=insecure)
    source = told.tokens()
    source.token()
    region = region or told.cloud.region
    interface = interface or told.cloud.interface
    endpoint = told.asked(lambda: _endpoint(told.plugin, told.connection, told.where, interface, region))
    if endpoint is not None:
        return Found(endpoint, source, told.verified_by, told.insecure)
    place = f" in region {region}" if region else ""
    missing = MissingError(
        f"the catalog of Keystone {told.where} has no {interface} endpoint of type {SERVICE_TYPE}{place}",
        way_out="`configdb-sync keystone register` adds it; or give ConfigDB's address with --configdb URL",
    )
    endpoint = None if fallback is None else fallback()
    if endpoint is None:
        raise missing
    missing.what += f", and {urls.shown(endpoint)} is no ConfigDB"
    return Found(endpoint, source, told.verified_by, told.insecure, missing)


def _endpoint(
    plugin: BaseIdentityPlugin, connection: session.Session, where: str, interface: str, region: str | None
) -> str | None:
    """Return the catalog's address of ConfigDB, None if it has none; ``ConfigDBError`` for several (R7)."""
    try:
        catalog = plugin.get_access(connection).service_catalog
        found = catalog.get_endpoints_data(service_type=SERVICE_TYPE, interface=interface, region_name=region)
    except faults.CatalogException:
        return None
    endpoints = {
        str(one.url).rstrip("/"): f"{urls.shown(str(one.url))} ({_named(one.service_name, one.region_name)})"
        for several in found.values()
        for one in several
        if one.url
    }
    if len(endpoints) > 1:
        raise ConfigDBError(
            f"the catalog of Keystone {where} has several {interface} endpoints of type {SERVICE_TYPE}"
            f"{f' in region {region}' if region else ''}: {', '.join(endpoints.values())}",
            way_out="choose the region (OS_REGION_NAME, Region in the plugin's settings),"
            " or give ConfigDB's address (--configdb URL)",
        )
    return next(iter(endpoints), None)


def _named(service: object, region: object) -> str:
    return f"service {str(service)[:80]!r}, region {str(region)[:80]!r}"


def _plugin(cloud: clouds.Cloud) -> BaseIdentityPlugin:
    try:
        loader: Any = keystone_address.loader_at_given_address(loading.get_plugin_loader(cloud.auth_type))
        known = {option.dest for option in loader.get_options()}
        options = {name: value for name, value in cloud.auth.items() if name in known}
        if "auth_url" in options:
            options["auth_url"] = keystone_address.asked(options["auth_url"])
        if "default_domain_id" in known and not any("domain" in name for name in options):
            # v3 wants a domain, and a login that was made for v2.0 names none. v2.0 passes it by.
            options["default_domain_id"] = "default"
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
