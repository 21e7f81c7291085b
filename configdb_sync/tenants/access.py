"""Who may call (T12): a generated token in ``X-Auth-Token``; other ways put their own class here."""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from typing import Protocol

from configdb_sync.tenants.refusals import TenantRefusal, refuse
from configdb_sync.tenants.requests import Caller, Environ


class Access(Protocol):
    """A way to tell who sends a request."""

    def caller(self, environ: Environ) -> Caller:
        """Return who calls. Raises ``TenantRefusal`` 401, 403."""


@dataclass(frozen=True)
class OpenAccess:
    """Anyone, as an operator: on loopback where the user asked for it."""

    def caller(self, environ: Environ) -> Caller:
        """Return an operator without a name."""
        return Caller("anonymous", admin=True)


@dataclass(frozen=True)
class TokenAccess:
    """Whoever has the one token is an operator."""

    token: str = field(repr=False)

    def caller(self, environ: Environ) -> Caller:
        """Return the operator."""
        given = environ.get("HTTP_X_AUTH_TOKEN")
        scheme, _, bearer = str(environ.get("HTTP_AUTHORIZATION", "")).partition(" ")
        if given is None and scheme.lower() == "bearer":
            given = bearer.strip()
        if not given:
            raise unauthorized("no token was given: send it as X-Auth-Token")
        # In bytes, since compare_digest takes no text beyond ASCII; the time tells nothing of the token.
        if not hmac.compare_digest(str(given).encode("latin-1", "replace"), self.token.encode("utf-8")):
            raise unauthorized("the token is not this service's")
        return Caller("token", admin=True)


def unauthorized(what: str) -> TenantRefusal:
    """Return the 401 to raise."""
    return refuse(401, what, ("WWW-Authenticate", 'Bearer realm="tenants"'))
