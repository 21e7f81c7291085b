"""Who may call the server, and under which name their changes go into the history."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from werkzeug.datastructures import Headers
from werkzeug.wrappers import Request

from configdb_sync.configdb_server.messages import PRODUCT, PRODUCT_HEADER, decoded, refused
from configdb_sync.keystone.clouds import Cloud
from configdb_sync.web.refusals import RefusalError, refuse

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


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


_CACHE_SECONDS = 10
"""How long a token that was revoked may still be taken for good; checking each anew costs Keystone 7 ms."""


@dataclass(frozen=True)
class KeystoneAccess:
    """Whom ``guarded`` has let through: it must stand in front, since it takes these headers away from clients."""

    write_role: str
    read_role: str | None
    uri: str

    def author(self, headers: Headers, environ: Mapping[str, object], *, writing: bool) -> str:
        """Return the user's name. Raises ``RefusalError`` 401 without a good token, 403 without the role."""
        if environ.get("HTTP_X_IDENTITY_STATUS") != "Confirmed":
            raise self.unknown(given="X-Auth-Token" in headers)
        user = _text(environ, "HTTP_X_USER_NAME") or _text(environ, "HTTP_X_USER_ID")
        has = {role.strip().lower() for role in _text(environ, "HTTP_X_ROLES").split(",")}
        wanted = [self.write_role] if writing or self.read_role is None else [self.read_role, self.write_role]
        if not has & {role.lower() for role in wanted}:
            doing = "change" if writing else "read"
            raise refuse(403, f"user {user!r} may not {doing} anything here: it needs the role {' or '.join(wanted)}")
        return user

    def unknown(self, *, given: bool) -> RefusalError:
        """Return the 401 of a token that isn't good, or wasn't given."""
        what = "the token isn't valid (any more)" if given else "no token was given"
        named = ("WWW-Authenticate", f'Keystone uri="{self.uri}"')
        return refuse(401, f"{what}: send one of Keystone's as X-Auth-Token", named)


@dataclass(frozen=True)
class Guard:
    """What keystonemiddleware needs: this service's own login, and the access behind it."""

    cloud: Cloud
    access: KeystoneAccess
    options: Mapping[str, Any] = field(repr=False)


def guard(cloud: Cloud, write_role: str, read_role: str | None) -> Guard:
    """Return the guard of a service that logs in to Keystone by ``cloud`` to have tokens checked."""
    uri = cloud.auth["auth_url"]
    options: dict[str, Any] = {
        **cloud.auth,
        "auth_type": cloud.auth_type,
        "www_authenticate_uri": uri,
        "interface": cloud.interface,
        "token_cache_time": _CACHE_SECONDS,
        "insecure": cloud.insecure,
        "http_connect_timeout": 10,
        "service_token_roles_required": True,
    }
    if cloud.region:
        options["region_name"] = cloud.region
    if cloud.ca_file:
        options["cafile"] = str(cloud.ca_file)
    return Guard(cloud, KeystoneAccess(write_role, read_role, uri), options)


def guarded(application: WSGIApplication, told: Guard) -> WSGIApplication:
    """Return ``application`` with keystonemiddleware in front; what that refuses itself gets the one error shape."""
    from keystonemiddleware.auth_token import AuthProtocol

    # It warns of options that it doesn't know, such as the domains of a login, and of its own defaults.
    logging.getLogger("keystonemiddleware").setLevel(logging.ERROR)
    protocol: WSGIApplication = AuthProtocol(application, dict(told.options))

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        own: list[int] = []

        def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Callable[[bytes], object]:
            if any(name.lower() == PRODUCT_HEADER.lower() for name, _ in headers):
                return start_response(status, headers, exc_info)
            own.append(int(status[:3]))
            return lambda _: None

        try:
            body = protocol(environ, start)
        except Exception:
            logging.getLogger(__name__).exception("Keystone's answer can't be used")
            own.append(503)
            body = []
        if not own:
            return body
        if hasattr(body, "close"):
            body.close()
        if own[0] == 401:
            response = refused(told.access.unknown(given=bool(environ.get("HTTP_X_AUTH_TOKEN"))))
        else:
            response = refused(refuse(503, "Keystone can't be asked whether the token is valid", ("Retry-After", "5")))
        response.headers[PRODUCT_HEADER] = PRODUCT
        return response(Request(environ).environ, start_response)

    return answer


def _text(environ: Mapping[str, object], name: str) -> str:
    # WSGI's texts are bytes in disguise.
    value = str(environ.get(name) or "")
    try:
        return value.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return value
