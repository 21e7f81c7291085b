"""Sessions of browsers, which can't send ``X-Auth-Token``: signing in gives them a cookie (T12).

The cookie is accepted for reading pages and for nothing else. With ``--auth token`` it isn't the token but a proof of
having it, valid for some hours: a stolen cookie allows reading and no change. With Keystone it is one of the user's
tokens; Keystone ends it, and the same rules apply as for ``X-Auth-Token``. Signing out ends either cookie
(``EndedSessions``), and Keystone revokes its token.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from configdb_sync.clock import new_request_id
from configdb_sync.errors import AccessError, ProductError, SettingsError
from configdb_sync.http.transport import TransferLimits
from configdb_sync.keystone.clouds import Cloud
from configdb_sync.tenants import paths
from configdb_sync.tenants.paths import ResourcePath
from configdb_sync.web.access import Access, Caller
from configdb_sync.web.refusals import RefusalError, refuse

log = logging.getLogger(__name__)

LASTS = 8 * 3600
"""Seconds for which a proof of a token is valid."""
_LONGEST = 3800
"""Bytes of a cookie's value: browsers drop a cookie of more than 4096 bytes in all."""


@dataclass(frozen=True)
class Field:
    """A field of the sign-in form; ``secret``: shown as dots. ``value``: its initial value."""

    name: str
    label: str
    secret: bool = False
    value: str = ""


class Sessions(Protocol):
    """A way to sign in."""

    @property
    def tenants(self) -> bool:
        """Whether each tenant signs in by itself, so that the form asks for it."""

    @property
    def fields(self) -> tuple[Field, ...]:
        """The form's fields."""

    def begin(self, form: Mapping[str, str], now: float) -> str:
        """Return the cookie's value. Raises ``RefusalError`` 401 for wrong input, 503."""

    def caller(self, cookie: str, place: ResourcePath | None, now: float, address: str) -> Caller:
        """Return who calls with a cookie, from which address.

        Raises ``RefusalError`` 401 for a cookie that is invalid or over, 503.
        """

    def end(self, cookie: str, now: float, address: str) -> float:
        """Revoke the cookie wherever else it is accepted; return until when it would have been valid.

        Raises ``RefusalError`` 401 for an invalid cookie, 503 if its validity is unknown.
        """

    def tenant(self, form: Mapping[str, str]) -> str | None:
        """Return the tenant that signs in, whose pages are shown first; None for operators."""
        if not self.tenants:
            return None
        try:
            return paths.tenant_id(form.get("tenant", ""))
        except RefusalError as refusal:
            raise no_session(refusal.what) from None


def no_session(what: str = "sign in to see this") -> RefusalError:
    """Return the 401 to raise."""
    return refuse(401, what, ("WWW-Authenticate", 'Bearer realm="tenants"'))


@dataclass(frozen=True)
class TokenSessions(Sessions):
    """Sessions of those who have the token: ``token`` returns a tenant's, or for None the operators'; ``access``
    checks it.

    ``tenants``: each tenant has its own token, and the form asks for the tenant.
    """

    access: Access
    token: Callable[[str | None], str] = field(repr=False)
    tenants: bool = False

    @property
    def fields(self) -> tuple[Field, ...]:
        """The form's fields."""
        first = (Field("tenant", "Tenant ID"),) if self.tenants else ()
        return (*first, Field("token", "Token", secret=True))

    def begin(self, form: Mapping[str, str], now: float) -> str:
        """Return the proof of having the token."""
        tenant = self.tenant(form)
        given, wanted = form.get("token", "").strip().encode("utf-8", "replace"), self.token(tenant).encode("utf-8")
        if not hmac.compare_digest(given, wanted):
            raise no_session("that is not the token which is asked for here")
        until, nonce = str(int(now) + LASTS), new_request_id()
        return ".".join([_packed(tenant or ""), until, nonce, self._proof(tenant, until, nonce)])

    def caller(self, cookie: str, place: ResourcePath | None, now: float, address: str) -> Caller:
        """Return the operator, or the tenant's user."""
        tenant, _ = self._read(cookie, now)
        if tenant is not None and (place is None or place.tenant != tenant):
            raise no_session("this session is another tenant's")
        return self.access.caller({"HTTP_X_AUTH_TOKEN": self.token(tenant), "REMOTE_ADDR": address}, place)

    def end(self, cookie: str, now: float, address: str) -> float:
        """Return the end that the cookie names."""
        del address
        return self._read(cookie, now)[1]

    def _read(self, cookie: str, now: float) -> tuple[str | None, float]:
        """Return the tenant and the end of a cookie that is valid now. Raises ``RefusalError`` 401."""
        parts = cookie.split(".")
        if len(parts) != 4 or not (parts[1].isascii() and parts[1].isdigit()) or len(parts[1]) > 12:
            raise no_session()
        tenant = _unpacked(parts[0]) if self.tenants else None
        if tenant is None and (self.tenants or parts[0]):
            raise no_session()
        # The proof first: only a valid one makes the time trustworthy.
        proof = self._proof(tenant, parts[1], parts[2]).encode("ascii")
        if not hmac.compare_digest(parts[3].encode("utf-8"), proof):
            raise no_session()
        if int(parts[1]) <= now:
            raise no_session("the session is over; sign in again")
        return tenant, float(parts[1])

    def _proof(self, tenant: str | None, until: str, nonce: str) -> str:
        # The nonce distinguishes two sessions that began in the same second: signing out ends one of them.
        text = f"status page\0{until}\0{nonce}\0{tenant or ''}"
        return hmac.new(self.token(tenant).encode("utf-8"), text.encode("utf-8"), "sha256").hexdigest()


def _packed(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode("utf-8")).decode("ascii").rstrip("=")


def _unpacked(text: str) -> str | None:
    try:
        found = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
        return paths.tenant_id(found.decode("utf-8"))
    except (ValueError, binascii.Error, RefusalError):
        return None


LogIn = Callable[[Mapping[str, str]], str]
"""Returns a token of Keystone for ``OS_*`` variables. Raises ``AccessError``, ``UnavailableError``."""
Revoke = Callable[[str], None]
"""Has Keystone revoke a token. Raises ``ProductError``."""
_LONGEST_TOKEN = 30 * 24 * 3600
"""Seconds after which no Keystone token is valid any more, whatever Keystone is configured to."""


@dataclass(frozen=True)
class KeystoneSessions(Sessions):
    """Sessions of Keystone's users. ``access``: the endpoint's own; it checks the token for every page."""

    cloud: Cloud
    access: Access
    log_in: LogIn
    tenants: bool = False
    revoke: Revoke = field(default=lambda _: None)

    @property
    def fields(self) -> tuple[Field, ...]:
        """The form's fields."""
        first = (Field("tenant", "Tenant ID"),) if self.tenants else ()
        return (
            *first,
            Field("username", "User"),
            Field("password", "Password", secret=True),
            Field("project", "Project"),
            Field("domain", "Domain", value=self._domain),
        )

    @property
    def _domain(self) -> str:
        named = ("user_domain_name", "default_domain_name")
        return next((self.cloud.auth[name] for name in named if self.cloud.auth.get(name)), "Default")

    def begin(self, form: Mapping[str, str], now: float) -> str:
        """Log in at Keystone and return the token."""
        del now
        domain = form.get("domain", "").strip() or self._domain
        environ = {
            "OS_AUTH_URL": self.cloud.auth["auth_url"],
            "OS_USERNAME": form.get("username", ""),
            "OS_PASSWORD": form.get("password", ""),
            "OS_PROJECT_NAME": form.get("project", "").strip(),
            "OS_USER_DOMAIN_NAME": domain,
            "OS_PROJECT_DOMAIN_NAME": domain,
            "OS_CACERT": "" if self.cloud.ca_file is None else str(self.cloud.ca_file),
            "OS_INSECURE": "true" if self.cloud.insecure else "",
        }
        try:
            token = self.log_in({name: value for name, value in environ.items() if value})
        except (AccessError, SettingsError):
            raise no_session("Keystone refused this user, password and project") from None
        except ProductError as error:
            raise refuse(503, "Keystone can't be asked now", ("Retry-After", "5")) from error
        if len(token) > _LONGEST or not (token.isascii() and token.isprintable()) or set(token) & set(' ",;\\'):
            raise refuse(503, "Keystone's tokens are of a kind that no cookie holds; use the API with X-Auth-Token")
        return token

    def caller(self, cookie: str, place: ResourcePath | None, now: float, address: str) -> Caller:
        """Return the user that Keystone names."""
        del now
        return self.access.caller({"HTTP_X_AUTH_TOKEN": cookie, "REMOTE_ADDR": address}, place)

    def end(self, cookie: str, now: float, address: str) -> float:
        """Have Keystone revoke the token: Keystone and every other service would accept it too."""
        self.caller(cookie, None, now, address)
        try:
            self.revoke(cookie)
        except ProductError as error:
            log.warning("Keystone didn't revoke the token of who signed out; it is refused here alone: %s", error)
        return now + _LONGEST_TOKEN


def log_in(environ: Mapping[str, str]) -> str:
    """Return a token by ``OS_*`` variables (``LogIn``)."""
    # Late: keystoneauth loads slowly, and only signing in needs it.
    from configdb_sync.keystone.login import read_login

    return read_login(environ, limits=TransferLimits(read=10.0, total=20.0)).token()


def revoke(environ: Mapping[str, str], token: str) -> None:
    """Have the Keystone of ``OS_*`` variables revoke a token (``Revoke``)."""
    from configdb_sync.keystone.login import read_login

    read_login(environ, limits=TransferLimits(read=5.0, total=10.0)).revoke(token)
