"""Who may call (T12): a generated token in ``X-Auth-Token``; other ways put their own class here."""

from __future__ import annotations

import hashlib
import hmac
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Protocol

from configdb_sync.tenants.limiting import Buckets
from configdb_sync.tenants.paths import Place
from configdb_sync.tenants.policies import METRICS_ROLE
from configdb_sync.tenants.requests import Caller, Environ
from configdb_sync.web.refusals import RefusalError, refuse

_REMEMBERED = 10_000


class Access(Protocol):
    """A way to tell who sends a request."""

    def caller(self, environ: Environ, place: Place | None) -> Caller:
        """Return who calls. Raises ``RefusalError`` 401, 403."""


@dataclass(frozen=True)
class OpenAccess:
    """Anyone, as an operator (by ``role``): on loopback where the user asked for it."""

    role: str = "admin"

    def caller(self, environ: Environ, place: Place | None) -> Caller:
        """Return an operator without a name."""
        del environ, place
        return Caller("anonymous", admin=True, roles=frozenset({self.role}))


@dataclass(frozen=True)
class TokenAccess:
    """Whoever has the one token is an operator (by ``role``)."""

    token: str = field(repr=False)
    role: str = "admin"

    def caller(self, environ: Environ, place: Place | None) -> Caller:
        """Return the operator."""
        del place
        _check(environ, self.token)
        return Caller("token", admin=True, roles=frozenset({self.role}))


@dataclass(frozen=True)
class TenantTokenAccess:
    """Whoever has a tenant's own token may read that tenant; tokens follow from one key and the tenant's ID."""

    key: bytes = field(repr=False)

    def token(self, tenant: str) -> str:
        """Return a tenant's token."""
        return hmac.new(self.key, tenant.encode("utf-8"), "sha256").hexdigest()

    def caller(self, environ: Environ, place: Place | None) -> Caller:
        """Return the tenant's user."""
        if place is None:
            raise unauthorized("a token is for one tenant's URLs")
        _check(environ, self.token(place.tenant))
        return Caller("token", admin=False, tenant=place.tenant)


@dataclass(frozen=True)
class MetricsAccess:
    """As ``others``, and whoever has the metrics' token is let in to read these alone."""

    others: Access
    token: str = field(repr=False)

    def caller(self, environ: Environ, place: Place | None) -> Caller:
        """Return who calls."""
        if place is None and _given(environ) is not None:
            try:
                _check(environ, self.token)
                return Caller("metrics", admin=False, roles=frozenset({METRICS_ROLE}))
            except RefusalError:
                pass
        return self.others.caller(environ, place)


class LimitedAccess:
    """As ``others``, but one address may send only so many bad tokens. Safe for several threads.

    While an address has sent too many, a token isn't even looked at, nor is Keystone asked, unless it was good from
    there before: who works goes on, and who guesses learns nothing.
    """

    def __init__(self, others: Access, refusals: Buckets) -> None:
        self.others = others
        self._refusals = refusals
        self._lock = threading.Lock()
        self._good: OrderedDict[tuple[str, bytes], None] = OrderedDict()

    def caller(self, environ: Environ, place: Place | None) -> Caller:
        """Return who calls. Raises ``RefusalError`` 429, too."""
        address, given = str(environ.get("REMOTE_ADDR") or ""), _given(environ)
        key = (address, hashlib.sha256((given or "").encode("latin-1", "replace")).digest())
        with self._lock:
            known = key in self._good
        if not known:
            self._refusals.check(address)
        try:
            caller = self.others.caller(environ, place)
        except RefusalError as refusal:
            if refusal.status == 401 and given is not None:
                with self._lock:
                    self._good.pop(key, None)
                self._refusals.take(address)
            raise
        with self._lock:
            self._good[key] = None
            self._good.move_to_end(key)
            if len(self._good) > _REMEMBERED:
                self._good.popitem(last=False)
        return caller


def _given(environ: Environ) -> str | None:
    given = environ.get("HTTP_X_AUTH_TOKEN")
    scheme, _, bearer = str(environ.get("HTTP_AUTHORIZATION", "")).partition(" ")
    if given is None and scheme.lower() == "bearer":
        given = bearer.strip()
    return None if not given else str(given)


def _check(environ: Environ, token: str) -> None:
    given = _given(environ)
    if given is None:
        raise unauthorized("no token was given: send it as X-Auth-Token")
    # In bytes, since compare_digest takes no text beyond ASCII; the time tells nothing of the token.
    if not hmac.compare_digest(given.encode("latin-1", "replace"), token.encode("utf-8")):
        raise unauthorized("the token is not the one that is asked for here")


def unauthorized(what: str) -> RefusalError:
    """Return the 401 to raise."""
    return refuse(401, what, ("WWW-Authenticate", 'Bearer realm="tenants"'))
