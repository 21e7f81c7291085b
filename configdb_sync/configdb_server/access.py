"""Who may call the server, and under which name their changes go into the history."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from werkzeug.datastructures import Headers

from configdb_sync.configdb_server.headers import decoded
from configdb_sync.configdb_server.refusals import RefusalError, refuse

AUTHOR_HEADER = "X-Configdb-Author"


class Access(Protocol):
    """A way to authenticate a request."""

    def author(self, headers: Headers, environ: Mapping[str, object], *, writing: bool) -> str:
        """Return the caller's name. Raises ``RefusalError``: 401 who are you, 403 you may not."""


@dataclass(frozen=True)
class OpenAccess:
    """Anyone: for use without a socket, and on loopback where the user asked for it."""

    default: str = "anonymous"

    def author(self, headers: Headers, environ: Mapping[str, object], *, writing: bool) -> str:
        """Return the name that the caller gives itself, or the default."""
        return decoded(headers, AUTHOR_HEADER) or self.default


@dataclass(frozen=True)
class TokenAccess:
    """Whoever has the one token, in ``X-Auth-Token`` or as ``Authorization: Bearer``."""

    token: str = field(repr=False)

    def author(self, headers: Headers, environ: Mapping[str, object], *, writing: bool) -> str:
        """Return the name that the caller gives itself, or ``token``."""
        given = headers.get("X-Auth-Token")
        scheme, _, bearer = headers.get("Authorization", "").partition(" ")
        if given is None and scheme.lower() == "bearer":
            given = bearer.strip()
        if not given:
            raise _unauthorized("no token was given: send it as X-Auth-Token")
        # In bytes, since compare_digest takes no text beyond ASCII; the time tells nothing of the token.
        if not hmac.compare_digest(given.encode("utf-8", "surrogateescape"), self.token.encode("utf-8")):
            raise _unauthorized("the token is not this server's")
        return decoded(headers, AUTHOR_HEADER) or "token"


def _unauthorized(what: str) -> RefusalError:
    return refuse(401, what, ("WWW-Authenticate", 'Bearer realm="configdb"'))
