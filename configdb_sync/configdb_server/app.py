"""The server: finds the handler of a request, lets the caller in, answers every fault in one shape; and its start."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound
from werkzeug.routing import BaseConverter, Map, MapAdapter, Rule
from werkzeug.wrappers import Request, Response

from configdb_sync.configdb_server import components, documents, environments, overrides
from configdb_sync.configdb_server.document_paths import DocumentPath, EtagsPath, OverridesPath, id_or_name, read_path
from configdb_sync.configdb_server.messages import (
    AUTHOR_HEADER,
    PRODUCT,
    PRODUCT_HEADER,
    ConfigDBRequest,
    ServerLimits,
    header_text,
    refused,
)
from configdb_sync.configdb_server.schema import open_configdb
from configdb_sync.errors import StateError
from configdb_sync.store.database import Database
from configdb_sync.store.gauges import KIND
from configdb_sync.store.keyring import EncryptionKeyError
from configdb_sync.web.access import Access, Caller, OpenAccess, has_token
from configdb_sync.web.refusals import FAILED, RefusalError, refuse
from configdb_sync.web.requests import client_address
from configdb_sync.web.responses import ApiResponse, json_response

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

    from configdb_sync.web.service import GunicornOptions, Listen

log = logging.getLogger(__name__)

Handler = Callable[..., Response]

_READING = frozenset({"GET", "HEAD"})


class _Number(BaseConverter):
    regex = "[0-9]+"

    def to_python(self, value: str) -> int:
        # Beyond what a database holds they are all the same: not there.
        return int(value) if len(value) < 20 else 2**64


class _Rest(BaseConverter):
    regex = "[^/].*"
    part_isolating = False


class _IdOrName(_Rest):
    def to_python(self, value: str) -> int | str:
        return id_or_name(value)


_TABLE: dict[str, dict[str, Handler]] = {
    "/components": {"GET": components.list_components, "POST": components.create_component},
    "/components/<number:component>": {
        "GET": components.show_component,
        "PATCH": components.change_component,
        "PUT": components.change_component,
        "DELETE": components.delete_component,
    },
    "/components/<number:component>/empty": {"DELETE": components.delete_empty_component},
    "/resource_definitions": {"GET": components.list_definitions, "POST": components.create_definition},
    "/resource_definitions/<number:definition>": {
        "GET": components.show_definition,
        "PATCH": components.change_definition,
        "PUT": components.change_definition,
        "DELETE": components.delete_definition,
    },
    "/resource_definitions/<number:definition>/keys/<any(set,delete,get):operation>": {
        "PATCH": components.definition_keys,
        "PUT": components.definition_keys,
    },
    "/environments": {"GET": environments.list_environments, "POST": environments.create_environment},
    "/environments/<number:environment>": {
        "GET": environments.show_environment,
        "PATCH": environments.change_environment,
        "PUT": environments.change_environment,
        "DELETE": environments.delete_environment,
    },
    "/environments/<number:environment>/hierarchy_levels": {"GET": environments.list_levels},
    "/environments/<number:environment>/hierarchy_levels/<id_or_name:level>": {
        "GET": environments.show_level,
        "PATCH": environments.change_level,
        "PUT": environments.change_level,
    },
}

_DOCUMENT: dict[str, dict[str, Handler]] = {
    "document": {"GET": documents.get_document, "PUT": documents.put_document},
    "keys": {"PATCH": documents.change_keys, "PUT": documents.change_keys},
    "history": {"GET": documents.show_history},
    "revert": {"POST": documents.revert},
}


_OPERATING = frozenset({"/healthz", "/metrics"})


@dataclass(frozen=True)
class Gauges:
    """What ``/metrics`` shows, and the token that reads it alone, if there is one."""

    text: Callable[[], bytes]
    token: str | None = field(default=None, repr=False)


def _map() -> Map:
    rules = [Rule(path, endpoint=path) for path in _TABLE]
    rules.append(Rule("/environments/<number:environment>/<rest:rest>", endpoint="below"))
    return Map(
        rules,
        merge_slashes=False,
        converters={"number": _Number, "rest": _Rest, "id_or_name": _IdOrName},
    )


@dataclass(frozen=True)
class KeystoneRoles:
    """What users of Keystone may do. Reading needs a role as well: the documents hold every password of a cloud, and
    any of its users has a token. ``read``: a role that may read alone, None for none."""

    write: str
    read: str | None = None

    def check(self, caller: Caller, *, writing: bool) -> None:
        """Raise ``RefusalError`` 403 if a user has none of the roles that it takes."""
        wanted = [self.write] if writing or self.read is None else [self.read, self.write]
        if caller.roles.isdisjoint(role.lower() for role in wanted):
            doing = "change" if writing else "read"
            roles = " or ".join(wanted)
            raise refuse(403, f"user {caller.name!r} may not {doing} anything here: it needs the role {roles}")


@dataclass(frozen=True)
class ConfigDBApplication:
    """The embedded ConfigDB as a WSGI callable; thread-safe; all its state is in the database."""

    database: Database
    access: Access
    roles: KeystoneRoles | None
    limits: ServerLimits
    clock: Callable[[], datetime]
    behind_proxy: bool = field(kw_only=True)
    gauges: Gauges | None = field(default=None, kw_only=True)
    routes: MapAdapter = field(default_factory=lambda: _map().bind(""), init=False)

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        if self.behind_proxy:
            environ["REMOTE_ADDR"] = client_address(environ, behind_proxy=True)
        response = self._answer(Request(environ, populate_request=False))
        response.headers[PRODUCT_HEADER] = PRODUCT
        return response(environ, start_response)

    def close(self) -> None:
        """Give the database's connections back."""
        self.database.close()

    def _answer(self, request: Request) -> Response:
        try:
            if (path := request.environ.get("PATH_INFO", "")) in _OPERATING:
                return self._operating(path, request)
            author = self._author(request)
            handler, arguments = self._route(_path(request), request.method)
            call = ConfigDBRequest(request, self.database, self.limits, author, self.clock)
            return handler(call, **arguments)
        except RefusalError as refusal:
            if refusal.status >= 500:
                log.warning("%s: %s", refusal.what, str(refusal.__cause__).partition("\n")[0])
            return refused(refusal)
        except EncryptionKeyError as error:
            log.error("%s", error)
            return refused(refuse(503, f"the server can't read what is stored: {error.what}"))
        except HTTPException as error:
            return refused(refuse(error.code or 500, error.description or error.name))
        except Exception:
            log.exception("a fault of the server's own")
            return refused(refuse(500, FAILED))

    def _operating(self, path: str, request: Request) -> Response:
        """Return whether the database answers, for anyone; or the metrics, for who may read here or has their token.

        Raises ``RefusalError``.
        """
        if request.method not in _READING:
            raise refuse(405, f"{request.method[:20]} isn't possible here, but GET, HEAD", ("Allow", "GET, HEAD"))
        if path == "/healthz":
            self.database.read(lambda connection: connection.execute(sa.select(sa.literal(1))).scalar())
            return json_response({"status": "ok"})
        if self.gauges is None:
            raise refuse(404, "there is nothing at this URL")
        if not has_token(request.environ, self.gauges.token):
            self._author(request)
        try:
            return ApiResponse(200, self.gauges.text(), kind=KIND)
        except StateError as error:
            raise refuse(503, "the database of runs can't be used now", ("Retry-After", "5")) from error

    def _author(self, request: Request) -> str:
        """Return under which name changes go into the history: a user's of Keystone, else what the caller says.

        Raises ``RefusalError``: 400 for a name that can't be read, 401, 403, 429.
        """
        caller = self.access.caller(request.environ)
        if self.roles is None:
            return header_text(request.headers, AUTHOR_HEADER) or caller.name
        self.roles.check(caller, writing=request.method not in _READING)
        return caller.name

    def _route(self, path: str, method: str) -> tuple[Handler, dict[str, Any]]:
        try:
            endpoint, arguments = self.routes.match(path, method="GET")
        except (NotFound, MethodNotAllowed):
            raise refuse(404, "there is nothing at this URL") from None
        if endpoint == "below":
            methods, arguments = _below(int(arguments["environment"]), str(arguments["rest"]))
        else:
            methods = _TABLE[endpoint]
        handler = methods.get("GET" if method == "HEAD" else method)
        if handler is None:
            allowed = ", ".join(sorted({*methods, "HEAD"} if "GET" in methods else methods))
            raise refuse(405, f"{method[:20]} isn't possible here, but {allowed}", ("Allow", allowed))
        return handler, dict(arguments)


def _below(environment: int, rest: str) -> tuple[dict[str, Handler], dict[str, Any]]:
    found = read_path(rest)
    if isinstance(found, DocumentPath):
        return _DOCUMENT[found.action], {"environment": environment, "path": found}
    if isinstance(found, EtagsPath):
        return {"GET": documents.show_etags}, {"environment": environment, "levels": found.levels}
    if isinstance(found, OverridesPath):
        return {"GET": overrides.show_overrides}, {"environment": environment}
    raise refuse(404, "there is nothing at this URL")


def _path(request: Request) -> str:
    # Werkzeug would put U+FFFD for bytes that aren't UTF-8, and so name another thing.
    try:
        path = request.environ.get("PATH_INFO", "").encode("latin-1").decode("utf-8")
    except UnicodeError:
        raise refuse(400, "the URL's path isn't percent-encoded UTF-8") from None
    if "\0" in path:
        raise refuse(400, "the URL's path holds the character NUL")
    return path or "/"


def _now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251  # the edge where the clock comes in


def create_app(
    database_url: str,
    *,
    access: Access = OpenAccess(),  # noqa: B008  # frozen
    roles: KeystoneRoles | None = None,
    limits: ServerLimits = ServerLimits(),  # noqa: B008  # frozen
    clock: Callable[[], datetime] = _now,
    connections: int = 8,
    behind_proxy: bool = False,
    gauges: Gauges | None = None,
) -> ConfigDBApplication:
    """Return the server on a database, which is brought up to date first.

    ``access`` is open by default, as it must be for calls without a socket; whoever listens gives another. ``roles``:
    callers are users of Keystone, and these may call. ``clock`` tells the time of changes, with a time zone.
    ``connections`` is how many to the database are kept. ``behind_proxy``: a client's address is what the proxy says.
    ``gauges``: what ``/metrics`` shows. Raises ``StateError`` if the database can't be used.
    """
    database = open_configdb(database_url, connections=connections)
    return ConfigDBApplication(database, access, roles, limits, clock, behind_proxy=behind_proxy, gauges=gauges)


@dataclass(frozen=True)
class ServerSettings:
    """All that a server process needs. ``access`` and ``gauges`` are made in each worker; ``unguarded``: it lets anyone
    in."""

    listen: Listen
    transport: GunicornOptions
    access: Callable[[], Access]
    database_url: str
    roles: KeystoneRoles | None = None
    unguarded: bool = False
    limits: ServerLimits = field(default_factory=ServerLimits)
    gauges: Callable[[], Gauges] | None = None


def serve(settings: ServerSettings, announce: Callable[[str], None]) -> None:
    """Listen until SIGTERM or SIGINT; ``announce`` gets the URL once connections are taken.

    Never returns but by ``SystemExit``: 0 after a clean stop. Raises before it listens: ``StateError``, and
    ``SettingsError`` if the server would be open to whom it must not: it holds every password of a cloud.
    """
    # Late: the server without a socket needs no gunicorn.
    from configdb_sync.web.service import Gunicorn, check_bindable, check_reach

    listen, transport = settings.listen, settings.transport
    check_reach(listen, transport, unguarded=settings.unguarded)
    check_bindable(listen)
    open_configdb(settings.database_url, connections=1).close()  # connections don't outlive a fork

    def make(_ports: list[int]) -> tuple[Any, Any]:
        application = create_app(
            settings.database_url,
            access=settings.access(),
            roles=settings.roles,
            limits=settings.limits,
            connections=transport.threads,
            behind_proxy=transport.behind_proxy,
            gauges=None if settings.gauges is None else settings.gauges(),
        )
        return application, application

    Gunicorn(
        "configdb",
        [listen],
        transport,
        make,
        refused=refused,
        body_limit=settings.limits.body,
        ready=lambda ports: announce(f"{transport.scheme}://{listen.address(ports[0])}"),
    ).run()
