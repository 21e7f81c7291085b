"""Logs in to Keystone, v3 or v2.0, and reads its service catalog, by keystoneauth1 (U5, U12, S06)."""

from __future__ import annotations

import dataclasses
import logging
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

import requests
import urllib3
from keystoneauth1 import discover, loading, session
from keystoneauth1 import exceptions as faults
from keystoneauth1.identity import generic
from keystoneauth1.identity.base import BaseIdentityPlugin

from configdb_sync import tls_errors
from configdb_sync.errors import (
    AccessError,
    ConfigDBError,
    SettingsError,
    UnavailableError,
    UnexpectedAnswerError,
)
from configdb_sync.http import urls
from configdb_sync.http.adapters import LedAwayError, TlsRedirectAdapter
from configdb_sync.http.transport import TransferLimits
from configdb_sync.keystone import clouds
from configdb_sync.masking import is_secret_name

T = TypeVar("T")

_LOG = logging.getLogger(__name__)
_LOGIN = "set OS_* or clouds.yaml, login in the settings file, or the plugin's settings"
_ADDRESS = "is OS_AUTH_URL right? it looks like http://<master>:5000/v3 or https://<master>:8443/keystone/v3"
_SCOPES = ("project_", "tenant_")
_VERSION = re.compile(r"/v\d+(\.\d+)?\Z")
_PLAIN_REFUSAL = "the request you have made requires authentication"
_AWAY = (faults.ConnectFailure, faults.ConnectTimeout, faults.HttpServerError, faults.RetriableConnectionFailure)


@dataclass(frozen=True)
class Login:
    """A way to log in to the Keystone at ``where`` (fit to be shown), and a source of its tokens.

    keystoneauth1 renews tokens that are about to expire by itself; ``renewed`` replaces those that were refused (S06).
    ``unscoped``: the same login without a project, None if the login names no project.
    """

    cloud: clouds.Cloud
    plugin: BaseIdentityPlugin
    connection: session.Session
    verified_by: Path | None
    insecure: bool
    where: str
    unscoped: BaseIdentityPlugin | None = field(default=None, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def token(self) -> str:
        """Return the token in hand or a new one. Raises ``AccessError``, ``UnavailableError``."""
        return self.run(lambda: str(self.plugin.get_token(self.connection)))

    def renewed(self, refused: str) -> str | None:
        """Return another token than ``refused``; the login is repeated once for all threads that come with it."""
        with self._lock:
            if self.token() == refused:
                self.plugin.invalidate()
            token = self.token()
        return token if token != refused else None

    def revoke(self, token: str) -> None:
        """Have Keystone (v3) revoke a token, by that token's own right.

        Raises ``UnavailableError``, ``ConfigDBError``; also where it is no good token any more.
        """
        where = f"{_VERSION.sub('', self.cloud.auth['auth_url'].rstrip('/'))}/v3/auth/tokens"
        headers = {"X-Auth-Token": token, "X-Subject-Token": token}
        self.run(lambda: self.connection.delete(where, headers=headers, authenticated=False))

    def endpoint(self, service_type: str, interface: str, region: str | None) -> str | None:
        """Return the catalog's address of a service, None if it has none; ``ConfigDBError`` for several (R7)."""
        found = self.run(lambda: self._endpoints(service_type, interface, region))
        if len(found) > 1:
            raise ConfigDBError(
                f"the catalog of Keystone {self.where} has several {interface} endpoints of type {service_type}"
                f"{f' in region {region}' if region else ''}: {', '.join(found.values())}",
                way_out="choose the region (OS_REGION_NAME, Region in the plugin's settings),"
                " or give ConfigDB's address (--configdb URL)",
            )
        return next(iter(found), None)

    def _endpoints(self, service_type: str, interface: str, region: str | None) -> dict[str, str]:
        """Return descriptions of the endpoints by address."""
        try:
            catalog = self.plugin.get_access(self.connection).service_catalog
            found = catalog.get_endpoints_data(service_type=service_type, interface=interface, region_name=region)
        except faults.CatalogException:
            return {}
        return {
            str(one.url).rstrip("/"): f"{urls.shown(str(one.url))} (service {str(one.service_name)[:80]!r},"
            f" region {str(one.region_name)[:80]!r})"
            for several in found.values()
            for one in several
            if one.url
        }

    def run(self, ask: Callable[[], T]) -> T:
        """Return what ``ask`` gives; errors of keystoneauth become the product's own."""
        try:
            return ask()
        except (faults.Unauthorized, faults.Forbidden) as error:
            raise self._refusal(error) from None
        except faults.ClientException as error:
            raise _translated(self.where, error) from None
        except (TypeError, ValueError, KeyError, AttributeError, IndexError):
            # keystoneauth fails in these ways on JSON that isn't Keystone's.
            raise _no_keystone(self.where, "its answer is another one's") from None

    def _refusal(self, error: faults.HttpError) -> AccessError:
        """Return what is wrong with the login, as far as Keystone tells. It doesn't say which of user, password and
        project is wrong, but it gives a user who exists a token without a project."""
        auth = self.cloud.auth
        user = auth.get("username") or auth.get("user_id") or auth.get("application_credential_id")
        project = auth.get("project_name") or auth.get("project_id") or auth.get("tenant_id")
        what = f"Keystone {self.where} refused the login{f' of user {user}' if user else ''}"
        said = _keystones_words(error, auth)
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


def read_login(
    environ: Mapping[str, str],
    *,
    limits: TransferLimits,
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
    # What it warns of either becomes one of our errors or does not matter.
    logging.getLogger("keystoneauth").setLevel(logging.ERROR)
    http_session = requests.Session()
    for scheme in ("http://", "https://"):
        http_session.mount(scheme, TlsRedirectAdapter(limits.total, 2, any_name=any_name and not insecure))
    http_session.hooks["response"].append(_log)
    connection = session.Session(
        session=http_session,
        verify=str(verified_by) if verified_by else not insecure,
        timeout=limits.read,
        redirect=False,
    )
    unscoped = {name: value for name, value in cloud.auth.items() if not name.startswith(_SCOPES)}
    return Login(
        cloud,
        _plugin(cloud),
        connection,
        verified_by,
        insecure,
        urls.shown(cloud.auth["auth_url"]),
        _plugin(dataclasses.replace(cloud, auth=unscoped)) if len(unscoped) < len(cloud.auth) else None,
    )


def _log(answer: requests.Response, **_: object) -> None:
    """Log a request with ``--debug``: never its headers or its body, which hold the password or a token."""
    address, took = urls.shown(answer.request.url or ""), answer.elapsed.total_seconds()
    _LOG.debug("%s %s: %d, %.3f s", answer.request.method, address, answer.status_code, took)


def _plugin(cloud: clouds.Cloud) -> BaseIdentityPlugin:
    try:
        loader: Any = _loader_at_given_address(loading.get_plugin_loader(cloud.auth_type))
        known = {option.dest for option in loader.get_options()}
        options = {name: value for name, value in cloud.auth.items() if name in known}
        if "auth_url" in options:
            options["auth_url"] = versions_url(options["auth_url"])
        if "default_domain_id" in known and not any("domain" in name for name in options):
            # v3 needs a domain, which a login made for v2.0 does not name. v2.0 ignores it.
            options["default_domain_id"] = "default"
        if cloud.auth_type.endswith("password"):
            # keystoneauth treats these as optional, and fails without them later.
            lacking = [] if options.get("username") or options.get("user_id") else ["username"]
            lacking += [] if options.get("password") else ["password"]
            if lacking:
                raise SettingsError(f"the login to Keystone lacks {' and '.join(lacking)}", way_out=_LOGIN)
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


def versions_url(url: str) -> str:
    """Return the address to ask for versions: a slash at its end, unless it names a version.

    Fuel's web server knows ``/keystone/`` and not ``/keystone``.
    """
    return url if _VERSION.search(url.rstrip("/")) else f"{url.rstrip('/')}/"


def version_url(given: str, reported: str, version: tuple[int, ...]) -> str:
    """Return the address of a version of the Keystone at ``given`` that reports ``reported``. Pure.

    Keystone is believed if ``reported`` stays on the same server and path, or leads to https on the same host. Behind a
    proxy it has another name for itself: Fuel's answers at ``https://<master>:8443/keystone`` that its versions are at
    ``http://<master>:5000``; a client that believes this sends the password in clear, past the proxy's TLS.
    """
    here = urlsplit(given)
    try:
        there = urlsplit(reported)
        same_server = (here.scheme, here.netloc.lower()) == (there.scheme, there.netloc.lower())
        to_tls = (here.scheme, there.scheme, here.hostname) == ("http", "https", there.hostname)
        _ = there.port
    except ValueError:
        same_server = to_tls = False
    mount = _VERSION.sub("", here.path.rstrip("/"))
    if to_tls or (same_server and there.path.startswith(f"{mount}/")):
        return reported
    name = "v2.0" if version[0] == 2 else f"v{version[0]}"
    return urlunsplit((here.scheme, here.netloc, f"{mount}/{name}", "", ""))


class _AtGivenAddress:
    """Has keystoneauth's plugins for any version send their requests to the address that was given."""

    auth_url: Any

    def create_plugin(self, session: Any, version: Any, url: str, raw_status: str | None = None) -> Any:
        """Return the plugin of a version, None where it doesn't fit (keystoneauth's extension point)."""
        found = url
        if discover.version_match((2,), version) or discover.version_match((3,), version):
            found = version_url(self.auth_url, url, version)
        return super().create_plugin(session, version, found, raw_status)  # type: ignore[misc]


class _Password(_AtGivenAddress, generic.Password):
    pass


class _Token(_AtGivenAddress, generic.Token):
    pass


_PLUGINS: dict[type[Any], type[BaseIdentityPlugin]] = {generic.Password: _Password, generic.Token: _Token}


def _loader_at_given_address(loader: Any) -> Any:
    own = _PLUGINS.get(loader.plugin_class)
    return loader if own is None else type("Loader", (type(loader),), {"plugin_class": own})()


def _keystones_words(error: faults.HttpError, auth: Mapping[str, str]) -> str:
    """Return Keystone's own words where they say more than that it refuses, and hold no secret."""
    text = " ".join(str(error.message or "").split())
    text = "".join(character for character in text if character.isprintable())
    secrets = [value for name, value in auth.items() if is_secret_name(name) and value]
    if not text or text.lower().startswith(_PLAIN_REFUSAL) or any(secret in text for secret in secrets):
        return ""
    return f"; it says: {text[:200]}"


def _translated(where: str, error: faults.ClientException) -> UnavailableError | UnexpectedAnswerError:
    """Return the product's error for a fault of keystoneauth that is no refusal."""
    if isinstance(error, faults.DiscoveryFailure) and isinstance(error.__context__, faults.ClientException):
        # keystoneauth asks for the versions first. What made that request fail is the real error.
        inner = error.__context__
        return _no_keystone(where, "it tells no versions") if _is_foreign(inner) else _translated(where, inner)
    if isinstance(error, faults.SSLError):
        what, way_out = tls_errors.explain(error, "OS_CACERT")
        return UnavailableError(f"Keystone {where}: {what}; nothing was sent", way_out=way_out)
    if isinstance(error, _AWAY):
        return UnavailableError(f"Keystone {where} can't be reached or fails", way_out="is OS_AUTH_URL right?")
    what, way_out = f"Keystone {where} can't be used: {type(error).__name__}", "is OS_AUTH_URL right?"
    if isinstance(error, faults.DiscoveryFailure):
        what = f"Keystone {where} offers no version that this login is for"
        way_out = "is OS_AUTH_URL right? v2.0 takes no OS_*_DOMAIN_* but OS_DEFAULT_DOMAIN_*"
    elif isinstance(original := getattr(error, "original", None), LedAwayError):
        what, way_out = f"Keystone {where}: {original}", "give Keystone's own address, with https"
    elif _is_foreign(error):
        status = getattr(error, "http_status", None)
        return _no_keystone(where, f"it answered {status}" if status else "its answer is another one's")
    return UnexpectedAnswerError(what, way_out=way_out)


def _is_foreign(error: faults.ClientException) -> bool:
    """Tell whether something answered, but not as Keystone does. keystoneauth raises ``MissingAuthPlugin`` if a server
    wants a login before it lists its versions."""
    foreign = (faults.DiscoveryFailure, faults.HTTPClientError, faults.InvalidResponse, faults.MissingAuthPlugin)
    return isinstance(error, foreign)


def _no_keystone(where: str, why: str) -> UnexpectedAnswerError:
    return UnexpectedAnswerError(f"{where} is no Keystone: {why}", way_out=_ADDRESS)
