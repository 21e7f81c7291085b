"""The WSGI application: finds the handler of a request, lets the caller in, answers every fault in one shape."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound
from werkzeug.routing import BaseConverter, Map, Rule
from werkzeug.wrappers import Request, Response

from configdb_sync.configdb_server import components, documents, environments, overrides
from configdb_sync.configdb_server.access import Access, OpenAccess
from configdb_sync.configdb_server.document_paths import DocumentPath, EtagsPath, OverridesPath, id_or_name, read_path
from configdb_sync.configdb_server.messages import PRODUCT, PRODUCT_HEADER, Call, Limits, refused
from configdb_sync.configdb_server.schema import open_configdb
from configdb_sync.store.database import Database
from configdb_sync.store.keyring import EncryptionKeyError
from configdb_sync.web.refusals import RefusalError, refuse

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

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


def _map() -> Map:
    rules = [Rule(path, endpoint=path) for path in _TABLE]
    rules.append(Rule("/environments/<number:environment>/<rest:rest>", endpoint="below"))
    return Map(
        rules,
        merge_slashes=False,
        converters={"number": _Number, "rest": _Rest, "id_or_name": _IdOrName},
    )


class Application:
    """The embedded ConfigDB as a WSGI callable; thread-safe; all its state is in the database."""

    def __init__(self, database: Database, access: Access, limits: Limits, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._access = access
        self._limits = limits
        self._clock = clock
        self._routes = _map().bind("")

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        response = self._answer(Request(environ, populate_request=False))
        response.headers[PRODUCT_HEADER] = PRODUCT
        return response(environ, start_response)

    def close(self) -> None:
        """Give the database's connections back."""
        self._database.close()

    def _answer(self, request: Request) -> Response:
        try:
            author = self._access.author(request.headers, request.environ, writing=request.method not in _READING)
            handler, arguments = self._route(_path(request), request.method)
            call = Call(request, self._database, self._limits, author, self._clock)
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
            return refused(refuse(500, "the server failed; its log tells more"))

    def _route(self, path: str, method: str) -> tuple[Handler, dict[str, Any]]:
        try:
            endpoint, arguments = self._routes.match(path, method="GET")
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
    limits: Limits = Limits(),  # noqa: B008  # frozen
    clock: Callable[[], datetime] = _now,
    connections: int = 8,
) -> Application:
    """Return the server on a database, which is brought up to date first.

    ``access`` is open by default, as it must be for calls without a socket; whoever listens gives another.
    ``clock`` tells the time of changes, with a time zone. ``connections`` is how many to the database are kept.
    Raises ``StateError`` if the database can't be used.
    """
    return Application(open_configdb(database_url, connections=connections), access, limits, clock)
