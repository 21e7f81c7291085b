"""The client of Nailgun's API: reads, and changes links to plugins and notifications alone (U4, U12, U14, U21, U29).

All methods raise ``NailgunAwayError`` and ``NailgunAnswerError``, ``AccessError`` if Nailgun refuses the token, and
what the token source raises.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar
from urllib.parse import urlsplit

from configdb_sync.errors import (
    AccessError,
    ConfigDBError,
    EnvironmentMismatchError,
    NailgunAnswerError,
    NailgunAwayError,
    ProductError,
    TLSError,
    UnavailableError,
)
from configdb_sync.http import json_bodies, urls
from configdb_sync.http.session import ApiCall, ApiSession, RetryPolicy, Timing
from configdb_sync.http.tokens import TokenSource
from configdb_sync.http.transport import HttpAnswer, Transport
from configdb_sync.jsonvalues import Json
from configdb_sync.nailgun import model
from configdb_sync.nailgun.model import Cluster, DeploymentData, NailgunNode, NailgunVersion, PluginLink, PluginSettings

T = TypeVar("T")

NAILGUN = urls.Peer(
    "Nailgun",
    address="https://<master>:8443 or http://<master>:8000",
    login="give them as OS_* variables",
    authority="--nailgun-ca FILE",
)

_LOG = logging.getLogger(__name__)
_VERSION = "/api/version"
_LOGIN = (
    "set a user of Fuel's Keystone: username and password in the plugin's settings, login in the settings file, or"
    " OS_AUTH_URL, OS_USERNAME, OS_PASSWORD and OS_PROJECT_NAME"
)
_ASK = "is it running, and is --nailgun right?"


def base_url(text: str) -> str:
    """Return Nailgun's address without ``/api`` or ``/api/v1`` at its end; ``SettingsError`` if it is no address."""
    return NAILGUN.base_url(text).removesuffix("/v1").removesuffix("/api").rstrip("/")


def led_to(base: str, path: str, location: str) -> str | None:
    """Return the base that a redirect of ``base + path`` leads to, None if it isn't followed.

    The master's web server answers on http 8000 itself, or leads from there to https 8443. Only that one step is
    followed: to https, on the same host, with the same path. The next request carries a token.
    """
    server = urls.https_target(base + path, location)
    return None if server is None else server + urlsplit(base).path


class NailgunClient:
    """One Nailgun. Safe for several threads.

    ``connect`` makes the transport to an address, ``login`` the source of tokens for that address. ``login`` is called
    only if Nailgun wants a token (it then answers 401 even to the question for its version); None means that no login
    is set. Nothing secret is sent before it is known where the address leads (U12).
    """

    def __init__(
        self,
        where: str,
        connect: Callable[[str], Transport],
        login: Callable[[str], TokenSource | None],
        policy: RetryPolicy | None = None,
        timing: Timing | None = None,
    ) -> None:
        self._where = base_url(where)
        self._connect = connect
        self._login = login
        self._policy = policy
        self._timing = timing
        self._lock = threading.Lock()
        self._session: ApiSession | None = None
        self._version: NailgunVersion | None = None
        self._replacements: dict[int, DeploymentData] = {}

    def __enter__(self) -> NailgunClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the kept connections."""
        with self._lock:
            if self._session is not None:
                self._session.close()
            self._session = None

    @property
    def base(self) -> str:
        """Nailgun's address as it was given, fit to be shown."""
        return self._where

    @property
    def address(self) -> str:
        """Where Nailgun really answers: ``base``, or the https address that it leads to."""
        return self._ready().base

    def version(self) -> NailgunVersion:
        """Return which Nailgun this is."""
        self._ready()
        assert self._version is not None
        return self._version

    def cluster(self, env: int) -> Cluster:
        """Return an environment. Raises ``EnvironmentMismatchError`` if Nailgun has none of this number."""
        path = f"/api/clusters/{env}"
        found = self._get(path, model.cluster)
        if found is None:
            raise EnvironmentMismatchError(
                f"Nailgun {self._where} has no environment {env}", way_out="see --env, and `fuel env` on the master"
            )
        if found.id != env:
            raise NailgunAnswerError(f"GET {self._where}{path} answered with environment {found.id}", way_out=_ASK)
        return found

    def nodes(self, env: int) -> tuple[NailgunNode, ...]:
        """Return an environment's nodes, by id. Raises ``EnvironmentMismatchError`` as ``cluster`` does."""
        found = self._get(f"/api/nodes?cluster_id={env}", lambda value: model.nodes(value, env))
        if not found:
            # An environment that isn't there has no nodes either.
            self.cluster(env)
        return found or ()

    def plugin_settings(self, env: int, plugin: str) -> PluginSettings | None:
        """Return what the user set of a plugin in an environment, None if it isn't offered there (U3)."""
        return self._of(env, "attributes", lambda value: (model.plugin_settings(value, plugin),))[0]

    def deployment(self, env: int, nodes: Sequence[str]) -> dict[str, Mapping[str, Json]]:
        """Return the deployment data of the given nodes (identities), as Nailgun would give it to them now (U21).

        A node that Nailgun has no data for is not in it; the master never is.
        """
        # What is common to all nodes comes once, where Nailgun can tell it apart (from Fuel 9.2 on).
        computed = f"orchestrator/deployment/defaults?split=1&nodes={','.join(nodes)}"
        found = self._of(env, computed, model.deployment).replaced_by(self._uploaded(env)).whole()
        return {identity: data for identity, data in found.items() if identity in nodes}

    def _uploaded(self, env: int) -> DeploymentData:
        """Return what someone uploaded in place of the data that Nailgun computes; asked for once."""
        if env not in self._replacements:
            customized = self.cluster(env).customized
            self._replacements[env] = (
                self._of(env, "orchestrator/deployment?split=1", model.deployment) if customized else DeploymentData()
            )
        return self._replacements[env]

    def links(self, env: int) -> tuple[PluginLink, ...]:
        """Return the links on an environment's dashboard, whoever made them; none if this Nailgun has no such links."""
        return self._get(f"/api/clusters/{env}/plugin_links", model.links) or ()

    def put_link(self, env: int, link: PluginLink) -> None:
        """Make a link on an environment's dashboard, or (with its number) change it; no error if one with this address
        exists. Raises ``EnvironmentMismatchError`` if Nailgun has no such environment."""
        path = f"/api/clusters/{env}/plugin_links"
        # Nailgun takes these fields and no others.
        body = {"title": link.title, "url": link.url, "description": link.description, "hidden": False}
        content = json_bodies.encode(body)
        if link.number is None:
            # Nailgun fails over a link to no environment, and a POST needs no login.
            self.cluster(env)
            self._asked(self._ready(), ApiCall("POST", path, content, accept=frozenset({409})))
            return
        call = ApiCall("PUT", f"{path}/{link.number}", content, repeatable=True, accept=frozenset({404, 409}))
        status = self._asked(self._ready(), call).status
        if status == 404:
            self.cluster(env)
        elif status == 409:
            # From Fuel 10 on an address stands once in an environment: another link has it.
            self.drop_link(env, link.number)

    def drop_link(self, env: int, number: int) -> None:
        """Take a link off an environment's dashboard; no error if it doesn't exist."""
        path = f"/api/clusters/{env}/plugin_links/{number}"
        self._asked(self._ready(), ApiCall("DELETE", path, repeatable=True, accept=frozenset({404})))

    def notify(self, env: int, message: str) -> int:
        """Make a notification about an environment in the Fuel UI; return its number.

        Raises ``EnvironmentMismatchError`` if Nailgun has no such environment.
        """
        # Nailgun fails over a notification about no environment.
        self.cluster(env)
        session, body = self._ready(), {"topic": "warning", "message": message, "cluster_id": env}
        call = ApiCall("POST", "/api/notifications", json_bodies.encode(body))
        return self._read(session, call, self._asked(session, call), model.notification)

    def mark_as_read(self, number: int) -> None:
        """Mark a notification as read; no error if it doesn't exist."""
        body = json_bodies.encode({"status": "read"})
        path = f"/api/notifications/{number}"
        self._asked(self._ready(), ApiCall("PUT", path, body, repeatable=True, accept=frozenset({404})))

    def _of(self, env: int, what: str, parse: Callable[[Json], T]) -> T:
        path = f"/api/clusters/{env}/{what}"
        found = self._get(path, parse)
        if found is None:
            self.cluster(env)
            raise NailgunAnswerError(
                f"GET {self._where}{urls.shown(path)} answered 404", way_out="is this Fuel 9.0 or later?"
            )
        return found

    def _get(self, path: str, parse: Callable[[Json], T]) -> T | None:
        """Return what Nailgun says, None if it says 404, in whatever form."""
        session = self._ready()
        call = ApiCall("GET", path, repeatable=True, accept=frozenset({404}))
        answer = self._asked(session, call)
        return None if answer.status == 404 else self._read(session, call, answer, parse)

    def _read(self, session: ApiSession, call: ApiCall, answer: HttpAnswer, parse: Callable[[Json], T]) -> T:
        try:
            return session.parsed(call, answer, parse)
        except ConfigDBError as error:
            raise self._translated(error) from None

    def _ready(self) -> ApiSession:
        with self._lock:
            if self._session is None:
                self._session = self._opened(self._where)
            return self._session

    def _session_of(self, transport: Transport, token: TokenSource | None) -> ApiSession:
        return ApiSession(transport, NAILGUN, token, policy=self._policy, timing=self._timing)

    def _opened(self, base: str) -> ApiSession:
        """Return a session with a token if Nailgun wants one. The first request, without a token, finds out where the
        address leads and whether a token is needed."""
        transport = self._connect(base)
        try:
            call = ApiCall("GET", _VERSION, repeatable=True, accept=urls.REDIRECTS | {401})
            session = self._session_of(transport, None)
            answer = self._asked(session, call)
            if answer.status not in urls.REDIRECTS:
                return self._entered(base, transport, session, call, answer)
            location = answer.headers.get("location", "")
            target = led_to(base, _VERSION, location) if base == self._where else None
            if target is None:
                raise NailgunAnswerError(
                    f"{session.named(call)} leads to {urls.shown(location)[:120] or 'nowhere'}, which isn't followed:"
                    " a token would go there",
                    way_out="give Nailgun's own address with --nailgun",
                )
        except BaseException:
            transport.close()
            raise
        transport.close()
        return self._opened(target)

    def _entered(
        self, base: str, transport: Transport, session: ApiSession, call: ApiCall, answer: HttpAnswer
    ) -> ApiSession:
        """Return the session after the version was asked for, with a token if Nailgun wants one. A master with
        authentication gives even the version only to users who are logged in: 401 means that it wants a token."""
        wanted = answer.status == 401
        if wanted and not _of_keystone(answer):
            raise NailgunAnswerError(
                f"{session.named(call)} answered 401, but wants no token of Keystone's", way_out=f"is {base} Nailgun?"
            )
        if not wanted:
            self._version = self._read(session, call, answer, model.version)
            if not self._version.auth_required:
                return session
        tokens = self._login(base)
        if tokens is None:
            raise AccessError(f"Nailgun {base} wants a login, and none is set", way_out=_LOGIN)
        if base.startswith("http:") and not urls.is_loopback(base):
            _LOG.warning("Nailgun %s has no TLS: the token can be read on its way; give https://<master>:8443", base)
        inside = self._session_of(transport, _Login(tokens))
        if wanted:
            call = dataclasses.replace(call, accept=frozenset())
            answer = self._asked(inside, call)
            self._version = self._read(inside, call, answer, model.version)
        return inside

    def _asked(self, session: ApiSession, call: ApiCall) -> HttpAnswer:
        """Return the answer; errors of the session become Nailgun's."""
        try:
            answer = session.call(dataclasses.replace(call, accept=call.accept | {403}))
        except _LoginError as error:
            raise error.meaning from None
        except ConfigDBError as error:
            raise self._translated(error) from None
        if answer.status != 403:
            return answer
        said = json_bodies.message(answer)
        raise AccessError(
            f"Nailgun refused: {session.named(call)} answered 403{f': {said}' if said else ''}",
            way_out="give the user the role admin in its project: with Fuel 10 and later others may only read",
        )

    def _translated(self, error: ConfigDBError) -> ProductError:
        if isinstance(error, AccessError):
            return AccessError(
                f"Nailgun refused: {error.what}",
                way_out="Keystone gave the token, and Nailgun doesn't take it: is OS_AUTH_URL this master's Keystone?",
                request_id=error.request_id,
            )
        if isinstance(error, TLSError):
            return NailgunAwayError(error.what, way_out=error.way_out)
        if isinstance(error, UnavailableError):
            return NailgunAwayError(error.what, way_out=_ASK, request_id=error.request_id)
        return NailgunAnswerError(error.what, way_out=f"is {self._where} Nailgun?")


class _LoginError(Exception):
    """Carries an error of the login past the translation of Nailgun's own errors."""

    def __init__(self, meaning: ConfigDBError) -> None:
        self.meaning = meaning


@dataclasses.dataclass(frozen=True)
class _Login:
    """A token source whose errors can be told from those of the call."""

    source: TokenSource

    def token(self) -> str:
        return self._told(self.source.token)

    def renewed(self, refused: str) -> str | None:
        return self._told(lambda: self.source.renewed(refused))

    def _told(self, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except ConfigDBError as error:
            raise _LoginError(error) from None


def _of_keystone(answer: HttpAnswer) -> bool:
    """Tell whether a 401 asks for a token of Keystone, or doesn't say what it asks for."""
    scheme = answer.headers.get("www-authenticate", "Keystone").split()[:1]
    return [word.lower() for word in scheme] == ["keystone"]
