"""Access to the tenant API that is not an operator's (T12): a tenant's own token, and the one of the metrics."""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field

from configdb_sync.tenants.paths import ResourcePath
from configdb_sync.tenants.policy import METRICS_ROLE
from configdb_sync.web.access import Access, Caller, check_token, has_token
from configdb_sync.web.refusals import refuse
from configdb_sync.web.requests import Environ


@dataclass(frozen=True)
class TenantTokenAccess:
    """Whoever has a tenant's own token may read that tenant; tokens follow from one key and the tenant's ID."""

    key: bytes = field(repr=False)

    def token(self, tenant: str) -> str:
        """Return a tenant's token."""
        return hmac.new(self.key, tenant.encode("utf-8"), "sha256").hexdigest()

    def caller(self, environ: Environ, place: ResourcePath | None = None) -> Caller:
        """Return the tenant's user."""
        if place is None:
            raise refuse(401, "a token is for one tenant's URLs", ("WWW-Authenticate", 'Bearer realm="tenants"'))
        check_token(environ, self.token(place.tenant))
        return Caller("token", admin=False, tenant=place.tenant)


@dataclass(frozen=True)
class MetricsAccess:
    """As ``others``, and whoever has the metrics' token is let in to read these alone."""

    others: Access
    token: str = field(repr=False)

    def caller(self, environ: Environ, place: ResourcePath | None = None) -> Caller:
        """Return who calls."""
        if place is None and has_token(environ, self.token):
            return Caller("metrics", admin=False, roles=frozenset({METRICS_ROLE}))
        return self.others.caller(environ, place)
