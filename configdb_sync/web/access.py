"""Who calls a service (T12): anyone, whoever has a token, or a user of Keystone; and how many bad tokens one may send.

What a caller may do is for the service to say.
"""

from __future__ import annotations

import hashlib
import hmac
import io
import logging
import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from configdb_sync.clock import Clock
from configdb_sync.web.refusals import RefusalError, refuse
from configdb_sync.web.requests import Environ

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

    from configdb_sync.keystone.clouds import Cloud

log = logging.getLogger(__name__)

_MOST = 10_000
"""Clients and tokens that are remembered."""
_LONGEST_TOKEN = 8192
_BELIEVED = 10.0


@dataclass(frozen=True)
class Caller:
    """Who calls. ``admin``: is told of other tenants (what it may do, the policy says). ``project``: of its token,
    None without one; ``tenant``: the one whose own token it has."""

    name: str
    admin: bool
    project: str | None = None
    tenant: str | None = None
    roles: frozenset[str] = frozenset()


class Access(Protocol):
    """A way to tell who sends a request. ``place``: what its URL names, where tokens are for single places."""

    def caller(self, environ: Environ, place: Any = None) -> Caller:
        """Return who calls. Raises ``RefusalError`` 401, 403."""


@dataclass(frozen=True)
class OpenAccess:
    """Anyone, as an operator (by ``role``): without a socket, and on loopback where the user asked for it."""

    role: str = "admin"

    def caller(self, environ: Environ, place: Any = None) -> Caller:
        """Return an operator without a name."""
        del environ, place
        return Caller("anonymous", admin=True, roles=frozenset({self.role}))


@dataclass(frozen=True)
class TokenAccess:
    """Whoever has the one token is an operator (by ``role``). ``realm`` names the service in a 401."""

    token: str = field(repr=False)
    role: str = "admin"
    realm: str = "tenants"

    def caller(self, environ: Environ, place: Any = None) -> Caller:
        """Return the operator."""
        del place
        check_token(environ, self.token, self.realm)
        return Caller("token", admin=True, roles=frozenset({self.role}))


def given_token(environ: Environ) -> str | None:
    """Return the token of a request: ``X-Auth-Token``, or ``Authorization: Bearer``."""
    given = environ.get("HTTP_X_AUTH_TOKEN")
    scheme, _, bearer = str(environ.get("HTTP_AUTHORIZATION", "")).partition(" ")
    if given is None and scheme.lower() == "bearer":
        given = bearer.strip()
    return None if not given else str(given)


def check_token(environ: Environ, token: str, realm: str = "tenants") -> None:
    """Raise ``RefusalError`` 401 unless a request has this token."""
    given = given_token(environ)
    named = ("WWW-Authenticate", f'Bearer realm="{realm}"')
    if given is None:
        raise refuse(401, "no token was given: send it as X-Auth-Token", named)
    # In bytes, since compare_digest takes no text beyond ASCII; the time tells nothing of the token.
    if not hmac.compare_digest(given.encode("latin-1", "replace"), token.encode("utf-8")):
        raise refuse(401, "the token is not the one that is asked for here", named)


def has_token(environ: Environ, token: str | None) -> bool:
    """Tell whether a request has this token; not if there is none."""
    try:
        check_token(environ, token or "")
    except RefusalError:
        return False
    return token is not None


@dataclass
class TokenBuckets:
    """A bucket for each name: ``burst`` requests at once, ``rate`` a second in the long run. Safe for threads.

    The names not seen for longest are forgotten first; a forgotten bucket is a full one.
    """

    clock: Clock
    rate: float
    burst: float
    most: int = _MOST
    _levels: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def take(self, name: str) -> None:
        """Take one from a bucket. Raises ``RefusalError`` 429 with Retry-After where it is empty."""
        with self._lock:
            now, level = self._level(name)
            if level >= 1.0:
                self._levels[name] = (now, level - 1.0)
                return
        raise self._refusal(level)

    def check(self, name: str) -> None:
        """Raise ``RefusalError`` 429 if a bucket is empty; take nothing."""
        with self._lock:
            _, level = self._level(name)
        if level < 1.0:
            raise self._refusal(level)

    def _level(self, name: str) -> tuple[float, float]:
        now = self.clock.monotonic()
        known = self._levels.get(name)
        if known is None:
            level = self.burst
        else:
            level = min(self.burst, known[1] + (now - known[0]) * self.rate)
        self._levels[name] = (now, level)
        self._levels.move_to_end(name)
        if len(self._levels) > self.most:
            self._levels.popitem(last=False)
        return now, level

    def _refusal(self, level: float) -> RefusalError:
        wait = math.ceil((1.0 - level) / self.rate)
        return refuse(429, "too many requests; send fewer, or later", ("Retry-After", str(max(1, wait))))


def buckets(clock: Clock, rate: float, at_once: float = 2) -> TokenBuckets | None:
    """Return buckets that let ``rate`` requests a second through, and at once those of ``at_once`` seconds; None for a
    rate of 0: no limit."""
    return TokenBuckets(clock, rate, max(1.0, at_once * rate)) if rate > 0 else None


class LimitedAccess:
    """As ``others``, but one address may send only so many bad tokens. Safe for several threads.

    While an address has sent too many, a token isn't even looked at, nor is Keystone asked, unless it was good from
    there before: who works goes on, and who guesses learns nothing.
    """

    def __init__(self, others: Access, refusals: TokenBuckets) -> None:
        self.others = others
        self._refusals = refusals
        self._lock = threading.Lock()
        self._good: OrderedDict[tuple[str, bytes], None] = OrderedDict()

    def caller(self, environ: Environ, place: Any = None) -> Caller:
        """Return who calls. Raises ``RefusalError`` 429, too."""
        address, given = str(environ.get("REMOTE_ADDR") or ""), given_token(environ)
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
            if len(self._good) > _MOST:
                self._good.popitem(last=False)
        return caller


def limited(others: Access, clock: Clock, rate: float, *, keystone: bool = False) -> Access:
    """Return an access that lets one address send ``rate`` bad tokens a second to this process; 0: no limit.

    No process knows what another one refused: each has its part of the rate. Keystone is asked about every bad token; a
    comparison here costs nothing, and many clients may share an address.
    """
    few = buckets(clock, rate, 2 if keystone else 8)
    return others if few is None else LimitedAccess(others, few)


class KeystoneAccess:
    """Whoever has a good token of Keystone's; ``role`` makes an operator (None: nobody is one).

    Nothing of the request's own headers is believed: who calls is read from what keystonemiddleware puts into a blank
    request with the token. Its verdict is kept in a bounded cache: a token that was revoked is believed for at most
    ten seconds; checking each anew costs Keystone 7 ms. Safe for several threads.
    """

    def __init__(self, login: Cloud, role: str | None, clock: Clock, *, name: str) -> None:
        """``login`` is the service's own, by which it has tokens checked; ``name`` tells this instance from others in
        one process."""
        self._uri = login.auth["auth_url"]
        self._role = None if role is None else role.lower()
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: dict[bytes, tuple[float, Caller]] = {}
        self._middleware = _middleware(login, name)

    def caller(self, environ: Environ, place: Any = None) -> Caller:
        """Return who calls. Raises ``RefusalError`` 401, 503."""
        del place
        token = environ.get("HTTP_X_AUTH_TOKEN")
        if not token or len(token) > _LONGEST_TOKEN:
            raise self._unauthorized("no token was given" if not token else "the token is too long")
        key = hashlib.sha256(token.encode("latin-1", "replace")).digest()
        # Without the lock, which every request would wait for: one read of a dictionary is whole in itself.
        kept = self._kept.get(key)
        if kept is not None and self._clock.monotonic() < kept[0]:
            return kept[1]
        return self._judged(key, token)

    def _judged(self, key: bytes, token: str) -> Caller:
        asked, now = self._clock.monotonic(), self._clock.now().timestamp()
        confirmed = self._asked(token)
        caller = self._caller(confirmed)
        with self._lock:
            # Put behind all others: those that end first are at the front.
            self._kept.pop(key, None)
            self._kept[key] = (asked + min(_BELIEVED, _expiry(confirmed) - now), caller)
            while len(self._kept) > _MOST:
                self._kept.pop(next(iter(self._kept)))
        return caller

    def _caller(self, confirmed: WSGIEnvironment) -> Caller:
        told = (role.strip().lower() for role in (_text(confirmed, "HTTP_X_ROLES") or "").split(","))
        roles = frozenset(role for role in told if role)
        name = _text(confirmed, "HTTP_X_USER_NAME") or _text(confirmed, "HTTP_X_USER_ID") or "unknown"
        admin = self._role is not None and self._role in roles
        return Caller(name, admin=admin, project=_text(confirmed, "HTTP_X_PROJECT_ID"), roles=roles)

    def _asked(self, token: str) -> WSGIEnvironment:
        """Return the blank request as the middleware hands it on. Raises ``RefusalError`` 401, 503."""
        seen: list[WSGIEnvironment] = []
        status: list[int] = []

        def start(line: str, _headers: list[tuple[str, str]], _error: Any = None) -> Callable[[bytes], object]:
            status.append(int(line[:3]))
            return lambda _: None

        environ = {**_BLANK, "HTTP_X_AUTH_TOKEN": token, "wsgi.input": io.BytesIO(), "configdb.seen": seen}
        try:
            body = self._middleware(environ, start)
            if hasattr(body, "close"):
                body.close()
        except Exception:
            log.exception("Keystone's answer can't be used")
            status.append(503)
        if seen and seen[0].get("HTTP_X_IDENTITY_STATUS") == "Confirmed":
            return seen[0]
        if status and status[-1] == 401:
            raise self._unauthorized("the token isn't valid (any more)")
        raise refuse(503, "Keystone can't be asked whether the token is valid", ("Retry-After", "5"))

    def _unauthorized(self, what: str) -> RefusalError:
        named = ("WWW-Authenticate", f'Keystone uri="{self._uri}"')
        return refuse(401, f"{what}: send one of Keystone's as X-Auth-Token", named)


_BLANK: dict[str, Any] = {
    "REQUEST_METHOD": "GET",
    "SCRIPT_NAME": "",
    "PATH_INFO": "/",
    "QUERY_STRING": "",
    "SERVER_NAME": "service",
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


def _middleware(login: Cloud, name: str) -> WSGIApplication:
    # Late: it takes long to load.
    from keystonemiddleware.auth_token import AuthProtocol

    # It warns of options that it doesn't know, such as the domains of a login, and of its own defaults.
    logging.getLogger("keystonemiddleware").setLevel(logging.ERROR)
    options: dict[str, Any] = {
        **login.auth,
        "auth_type": login.auth_type,
        "www_authenticate_uri": login.auth["auth_url"],
        "interface": login.interface,
        "insecure": login.insecure,
        "http_connect_timeout": 10,
        "service_token_roles_required": True,
        "include_service_catalog": False,
        "delay_auth_decision": False,
        "token_cache_time": -1,
        "oslo_config_project": name,
    }
    if login.region:
        options["region_name"] = login.region
    if login.ca_file:
        options["cafile"] = str(login.ca_file)

    def inner(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        environ["configdb.seen"].append(environ)
        start_response("204 No Content", [])
        return ()

    middleware: WSGIApplication = AuthProtocol(inner, options)
    return middleware


def _text(environ: WSGIEnvironment, name: str) -> str | None:
    # Attributes that the token lacks are there with the value None; WSGI's texts are bytes in disguise.
    value = environ.get(name)
    if not value:
        return None
    try:
        return str(value).encode("latin-1").decode("utf-8")
    except UnicodeError:
        return str(value)


def _expiry(environ: WSGIEnvironment) -> float:
    """Return the seconds since 1970 at which a token ends by itself; 0, so that it isn't kept, if that isn't told."""
    told = environ.get("keystone.token_info")
    text = told.get("token", {}).get("expires_at") if isinstance(told, dict) else None
    try:
        return datetime.fromisoformat(str(text)).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return 0.0
