"""Access by Keystone's tokens (T12): keystonemiddleware's verdict, kept for some seconds in a bounded cache.

Nothing of the request's own headers is believed: who calls is read from what the middleware puts into a copy of the
request that was emptied of them.
"""

from __future__ import annotations

import hashlib
import io
import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from configdb_sync.clock import Clock
from configdb_sync.configdb_server.access import guard
from configdb_sync.keystone.clouds import Cloud
from configdb_sync.tenants.paths import Place
from configdb_sync.tenants.requests import Caller, Environ
from configdb_sync.web.refusals import refuse

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

log = logging.getLogger(__name__)

_MOST = 10_000
_LONGEST = 8192


@dataclass(frozen=True)
class Verdict:
    """What a good token says. ``until``: seconds since 1970 at which it ends by itself."""

    user: str
    roles: frozenset[str]
    project: str | None
    until: float


class KeystoneAccess:
    """Whoever has a good token; ``role`` makes an operator (None: nobody is one, as on the public endpoint).

    A token that was revoked is believed for at most ``life`` seconds. Safe for several threads.
    """

    def __init__(
        self,
        cloud: Cloud,
        role: str | None,
        clock: Clock,
        *,
        name: str,
        life: float = 10.0,
    ) -> None:
        """``name`` tells this instance from others. Raises ``SettingsError`` without keystonemiddleware."""
        told = guard(cloud, role or "", None)
        options = {
            **told.options,
            "include_service_catalog": False,
            "delay_auth_decision": False,
            "token_cache_time": -1,
            "oslo_config_project": name,
        }
        self._uri = told.access.uri
        self._role = None if role is None else role.lower()
        self._clock = clock
        self._life = life
        self._lock = threading.Lock()
        self._kept: dict[bytes, tuple[float, Caller]] = {}
        self._protocol = _protocol(options)

    def caller(self, environ: Environ, place: Place | None) -> Caller:
        """Return who calls. Raises ``RefusalError`` 401, 503."""
        del place
        token = environ.get("HTTP_X_AUTH_TOKEN")
        if not token or len(token) > _LONGEST:
            raise self._unauthorized("no token was given" if not token else "the token is too long")
        key = hashlib.sha256(token.encode("latin-1", "replace")).digest()
        # Without the lock, which every request would wait for: one read of a dictionary is whole in itself.
        kept = self._kept.get(key)
        if kept is not None and self._clock.monotonic() < kept[0]:
            return kept[1]
        return self._judged(key, token)

    def _judged(self, key: bytes, token: str) -> Caller:
        asked, now = self._clock.monotonic(), self._clock.now().timestamp()
        verdict = self._asked(token)
        admin = self._role is not None and self._role in verdict.roles
        caller = Caller(verdict.user, admin=admin, project=verdict.project, roles=verdict.roles)
        with self._lock:
            # Put behind all others: those that end first are at the front.
            self._kept.pop(key, None)
            self._kept[key] = (asked + min(self._life, verdict.until - now), caller)
            while len(self._kept) > _MOST:
                self._kept.pop(next(iter(self._kept)))
        return caller

    def _asked(self, token: str) -> Verdict:
        seen: list[WSGIEnvironment] = []
        status: list[int] = []

        def start(line: str, _headers: list[tuple[str, str]], _error: Any = None) -> Callable[[bytes], object]:
            status.append(int(line[:3]))
            return lambda _: None

        environ = {**_BLANK, "HTTP_X_AUTH_TOKEN": token, "wsgi.input": io.BytesIO(), "configdb.seen": seen}
        try:
            body = self._protocol(environ, start)
            if hasattr(body, "close"):
                body.close()
        except Exception:
            log.exception("Keystone's answer can't be used")
            status.append(503)
        if seen and seen[0].get("HTTP_X_IDENTITY_STATUS") == "Confirmed":
            return _read(seen[0])
        if status and status[-1] == 401:
            raise self._unauthorized("the token isn't valid (any more)")
        raise refuse(503, "Keystone can't be asked whether the token is valid", ("Retry-After", "5"))

    def _unauthorized(self, what: str) -> Exception:
        named = ("WWW-Authenticate", f'Keystone uri="{self._uri}"')
        return refuse(401, f"{what}: send one of Keystone's as X-Auth-Token", named)


_BLANK: dict[str, Any] = {
    "REQUEST_METHOD": "GET",
    "SCRIPT_NAME": "",
    "PATH_INFO": "/",
    "QUERY_STRING": "",
    "SERVER_NAME": "tenants",
    "SERVER_PORT": "80",
    "SERVER_PROTOCOL": "HTTP/1.1",
    "REMOTE_ADDR": "127.0.0.1",
    "wsgi.version": (1, 0),
    "wsgi.url_scheme": "http",
    "wsgi.errors": io.StringIO(),
    "wsgi.multithread": True,
    "wsgi.multiprocess": True,
    "wsgi.run_once": False,
}


def _protocol(options: dict[str, Any]) -> WSGIApplication:
    from keystonemiddleware.auth_token import AuthProtocol

    # It warns of options that it doesn't know, such as the domains of a login, and of its own defaults.
    logging.getLogger("keystonemiddleware").setLevel(logging.ERROR)

    def inner(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        environ["configdb.seen"].append(environ)
        start_response("204 No Content", [])
        return ()

    protocol: WSGIApplication = AuthProtocol(inner, dict(options))
    return protocol


def _read(environ: WSGIEnvironment) -> Verdict:
    def text(name: str) -> str | None:
        # Attributes that the token lacks are there with the value None; texts are bytes in disguise.
        value = environ.get(name)
        if not value:
            return None
        try:
            return str(value).encode("latin-1").decode("utf-8")
        except UnicodeError:
            return str(value)

    roles = frozenset(role.strip().lower() for role in (text("HTTP_X_ROLES") or "").split(",") if role.strip())
    user = text("HTTP_X_USER_NAME") or text("HTTP_X_USER_ID") or "unknown"
    return Verdict(user, roles, text("HTTP_X_PROJECT_ID"), _until(environ))


def _until(environ: WSGIEnvironment) -> float:
    told = environ.get("keystone.token_info")
    text = told.get("token", {}).get("expires_at") if isinstance(told, dict) else None
    try:
        return datetime.fromisoformat(str(text)).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return 0.0  # not kept
