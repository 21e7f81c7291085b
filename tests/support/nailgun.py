"""A Nailgun to talk to: a real HTTP server (Werkzeug) that answers with the stored answers of real ones.

Authentication is on, as on every master, and is refused as the real ones do: the routes, which of them are public, and
the refusals are those of Nailgun 9.0.1, 9.2, newton and ocata. As the master's web server does it serves Keystone too,
below ``/keystone/``.

``orchestrator/deployment`` isn't stored: it is made of the files that the same Nailguns wrote for nodes, as the data's
README says. What nodes are like, and what goes wrong, is set on the object while it serves.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import json
import re
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from werkzeug.serving import make_server
from werkzeug.wrappers import Request, Response

from tests.support.fixtures import require_data
from tests.support.keystone import PASSWORD, PROJECT, USER, StubKeystone

Answer = Callable[[Request], Response]

RELEASES = ("9.0.1", "9.2", "newton", "ocata")
_ROUTES = {
    r"/version/?": ("GET",),
    r"/clusters/?": ("GET", "POST"),
    r"/clusters/(?P<env>\d+)/?": ("GET", "PUT", "DELETE"),
    r"/clusters/(?P<env>\d+)/attributes/?": ("GET", "PUT", "PATCH"),
    r"/clusters/(?P<env>\d+)/orchestrator/deployment/?": ("GET", "PUT", "DELETE"),
    r"/clusters/(?P<env>\d+)/orchestrator/deployment/defaults/?": ("GET",),
    r"/clusters/(?P<env>\d+)/plugin_links/?": ("GET", "POST"),
    r"/clusters/(?P<env>\d+)/plugin_links/(?P<id>\d+)/?": ("GET", "PUT", "PATCH", "DELETE"),
    r"/nodes/?": ("GET", "PUT", "POST", "DELETE"),
    r"/nodes/agent/?": ("PUT",),
    r"/nodes/(?P<id>\d+)/?": ("GET", "PUT", "DELETE"),
    r"/notifications/?": ("GET", "POST", "PUT"),
    r"/notifications/(?P<id>\d+)/?": ("GET", "PUT", "DELETE"),
}
"""Nailgun's own routes, those that concern the product, and the methods that each has (api/v1/urls.py, handlers)."""
_PUBLIC = {r"/nodes/?": "POST", r"/nodes/agent/?": "PUT", r"/clusters/(?P<env>\d+)/plugin_links/?": "POST"}
_API = re.compile(r"/api(?:/v1)?(?P<path>/.*)")
_TOPICS = ("discover", "done", "error", "warning", "release")
_LINK = {"title": str, "url": str, "description": str, "hidden": bool}


@dataclass
class Nailgun:
    """What the server answers with.

    ``authentication``: whether it wants a token. ``keystone`` issues them; ``token``: the only one that it takes
    instead; ``takes``: tells it instead, of a user with the role admin.
    """

    version: dict[str, Any]
    cluster: dict[str, Any]
    nodes: list[dict[str, Any]]
    attributes: dict[str, Any]
    deployment: list[dict[str, Any]]
    authentication: bool = True
    keystone: StubKeystone = field(default_factory=StubKeystone)
    token: str | None = None
    takes: Callable[[str], bool] | None = None
    faults: dict[str, Answer] = field(default_factory=dict)
    seen: list[tuple[str, str | None]] = field(default_factory=list)
    links: list[dict[str, Any]] = field(default_factory=list)
    notifications: list[dict[str, Any]] = field(default_factory=list)
    replaced: list[dict[str, Any]] = field(default_factory=list)
    """What someone uploaded in place of deployment data, by ``uid``: a node's, or ``common`` (from 9.2 on)."""
    url: str = ""
    first: bool = False
    """Whether it is 9.0.1: it tells nothing in parts."""

    @property
    def env(self) -> int:
        """The number of its only environment."""
        return int(self.cluster["id"])

    @property
    def login(self) -> dict[str, str]:
        """The variables of a login to it, by the Keystone that its web server has."""
        login = {"OS_USERNAME": USER, "OS_PASSWORD": PASSWORD, "OS_PROJECT_NAME": PROJECT}
        return login | {"OS_AUTH_URL": f"{self.url}/keystone/v3"}

    def node(self, identity: str) -> dict[str, Any]:
        """One of ``nodes``, to be changed."""
        return next(node for node in self.nodes if str(node["id"]) == identity)

    def data(self, identity: str) -> dict[str, Any]:
        """The deployment data of a node, to be changed."""
        return next(item for item in self.deployment if item["uid"] == identity)

    def all_are(self, status: str) -> Nailgun:
        """Set the status of all nodes."""
        for node in self.nodes:
            node["status"] = status
        return self

    def without_authentication(self) -> Nailgun:
        """Switch authentication off; from newton on Nailgun fails then whatever it is asked."""
        self.authentication = False
        return self

    def __call__(self, environ: Any, start_response: Any) -> Any:
        """Answer a request (WSGI)."""
        return self._web_server(Request(environ))(environ, start_response)

    def _web_server(self, request: Request) -> Response:
        if request.path.startswith("/keystone/"):
            return self.keystone.answer(request, request.path.removeprefix("/keystone"))
        self.seen.append((request.full_path.rstrip("?"), request.headers.get("X-Auth-Token")))
        found = _API.fullmatch(request.path)
        if found is None:
            return Response("<html>404 Not Found</html>", 404, content_type="text/html")
        if found["path"] in self.faults:
            return self.faults[found["path"]](request)
        return self._refused(request, found["path"]) or self._answer(request, found["path"])

    @property
    def _since_newton(self) -> bool:
        return not str(self.version["release"]).startswith("9.")

    def _refused(self, request: Request, path: str) -> Response | None:
        """As Nailgun's middleware does, before it looks whether there is such a route."""
        public = any(re.match(route + "$", path) and request.method == method for route, method in _PUBLIC.items())
        if not self.authentication:
            # What newton asks for the role is set by the authentication alone.
            return Response("Internal Server Error", 500, content_type="text/plain") if self._since_newton else None
        if public:
            return None
        token = request.headers.get("X-Auth-Token", "")
        if not self._taken(token):
            refusal = Response("Authentication required", 401, content_type="text/html; charset=UTF-8")
            refusal.headers["WWW-Authenticate"] = "Keystone uri='http://10.20.0.2:35357/'"
            return refusal
        if self._since_newton and request.method != "GET" and "admin" not in self.keystone.issued.get(token, ["admin"]):
            return Response("You do not have the administrator rights", 403, {"Content-Type": ""})
        return None

    def _taken(self, token: str) -> bool:
        if self.takes is not None:
            return self.takes(token)
        return token == self.token if self.token is not None else token in self.keystone.issued

    def _answer(self, request: Request, path: str) -> Response:
        routes = ((re.fullmatch(route, path), methods) for route, methods in _ROUTES.items())
        found, methods = next(((found, methods) for found, methods in routes if found), (None, ()))
        if found is None:
            return Response("not found", 404, content_type="text/html")
        if request.method not in methods:
            return Response("None", 405, {"Allow": ", ".join(methods)}, content_type="text/html")
        if not {"application/json", "*/*"} & set(re.split(r"[,;]\s*", request.headers.get("Accept", "*/*"))):
            return Response("", 415, content_type="text/html")
        if "env" in found.groupdict() and int(found["env"]) != self.env and request.method != "POST":
            return _refusal(404, "Cluster not found")
        handlers: dict[str, Callable[[Request, dict[str, str]], Response]] = {
            "version": lambda *_: _json({**self.version, "auth_required": self.authentication}),
            "attributes": lambda *_: _json(self.attributes),
            "deployment": lambda *_: _json(self._parts(request, self.replaced)),
            "defaults": lambda *_: self._defaults(request),
            "plugin_links": self._link,
            "notifications": self._notification,
            "nodes": lambda *_: self._nodes(request),
        }
        name = [word for word in path.split("/") if word and not word.isdigit()][-1]
        if name == "clusters":
            handlers[name] = lambda *_: _json(self.cluster if "env" in found.groupdict() else [self.cluster])
        if name not in handlers or (request.method != "GET" and name not in {"plugin_links", "notifications"}):
            return _refusal(400, "this stub doesn't do that")
        return handlers[name](request, found.groupdict())

    def _nodes(self, request: Request) -> Response:
        asked = request.args.get("cluster_id")
        return _json([node for node in self.nodes if asked is None or asked == str(self.env)])

    def _defaults(self, request: Request) -> Response:
        """As Nailgun computes it: of the nodes that are asked for, all of which must be there, and of the master."""
        asked = [name for name in request.args.get("nodes", "").split(",") if name]
        if {*asked} - {str(node["id"]) for node in self.nodes}:
            return _refusal(404, "NodeCollection not found")
        found = [item for item in self.deployment if not asked or item["uid"] in {*asked, "master"}]
        common = {} if self.first else _common(found)
        rest = [{key: value for key, value in item.items() if key not in common} for item in found]
        return _json(self._parts(request, [*rest, *([{**common, "uid": "common"}] if common else [])]))

    def _parts(self, request: Request, data: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """What is common to all nodes stands by itself if that was asked for, and is laid under each node's else."""
        common = next((item for item in data if item["uid"] == "common"), None)
        if common is None or (not self.first and request.args.get("split") in {"1", "t", "true"}):
            return data
        shared = {key: value for key, value in common.items() if key != "uid"}
        return [_merged(shared, item) for item in data if item is not common]

    def _link(self, request: Request, place: dict[str, str]) -> Response:
        """As Nailgun does since 8.0; that an address stands once in an environment is new in newton."""
        if request.method == "GET" and "id" not in place:
            return _json(self.links)
        link = next((one for one in self.links if str(one["id"]) == place.get("id")), None)
        if request.method != "POST" and link is None:
            return _refusal(404, "ClusterPluginLink not found")
        if request.method == "GET":
            return _json(link)
        if request.method == "DELETE":
            assert link is not None
            self.links.remove(link)
            return Response(status=204)
        body = request.get_json()
        lacks = [name for name in ("title", "url") if link is None and name not in body]
        odd = [name for name, value in body.items() if name not in _LINK or not isinstance(value, _LINK[name])]
        if lacks or odd or not 1 <= len(body.get("title", "x")) <= 50:
            return _refusal(400, "Failed validating the object")
        if self._since_newton and any(one is not link and one["url"] == body.get("url") for one in self.links):
            return _refusal(409, f"Cluster plugin link with URL {body['url']} and cluster ID={self.env} already exists")
        if link is not None:
            link.update(body)
            return _json(link)
        if int(place["env"]) != self.env:
            # The database refuses it, and nothing foresees that.
            return Response("Unexpected exception, please check logs", 500, content_type="text/plain")
        number = 1 + max((one["id"] for one in self.links), default=0)
        self.links.append({"description": None, "hidden": False, **body, "id": number})
        return _json(self.links[-1], 201)

    def _notification(self, request: Request, place: dict[str, str]) -> Response:
        found = [one for one in self.notifications if str(one["id"]) == place.get("id", str(one["id"]))]
        if "id" in place and not found:
            return _refusal(404, "Notification not found")
        if request.method == "GET":
            return _json(found[0] if "id" in place else found)
        if request.method == "DELETE":
            self.notifications.remove(found[0])
            return Response(status=204)
        body = request.get_json()
        if request.method == "POST":
            if body.get("topic") not in _TOPICS:
                return _refusal(400, "Notification topic is not found or invalid")
            number = 1 + max((one["id"] for one in self.notifications), default=0)
            self.notifications.append({"status": "unread", **body, "id": number})
            return _json(self.notifications[-1], 201)
        changes = [{"id": found[0]["id"], **body}] if "id" in place else body
        if not all(change.get("status") in {"read", "unread"} for change in changes):
            return _refusal(400, "Bad status")
        for change in changes:
            next(one for one in self.notifications if one["id"] == change["id"])["status"] = change["status"]
        return _json(found[0] if "id" in place else found)


def _common(found: list[dict[str, Any]]) -> dict[str, Any]:
    nodes = [item for item in found if item["uid"] != "master"]
    first = nodes[0] if nodes else {}
    return {
        key: value
        for key, value in first.items()
        if key != "uid" and all(key in one and one[key] == value for one in nodes)
    }


def _refusal(status: int, message: str) -> Response:
    return _json({"message": message, "errors": []}, status)


def _json(value: Any, status: int = 200) -> Response:
    return Response(json.dumps(value), status, content_type="application/json")


def load(release: str) -> Nailgun:
    """Return what a Nailgun of ``RELEASES`` answers; skips the test where the data isn't there.

    9.2 has the data of 9.0.1, ocata that of newton.
    """
    folder = require_data() / "nailgun" / {"9.2": "9.0.1", "ocata": "newton"}.get(release, release)
    number = {"ocata": "11.0", "newton": "10.0"}.get(release, "9.0" if release == "9.0.1" else release)
    return Nailgun(
        first=release == "9.0.1",
        version=json.loads((folder / "api_version.json").read_text()) | {"release": number},
        cluster=json.loads((folder / "api_clusters_.json").read_text()),
        nodes=json.loads((folder / "api_nodes__cluster_id.json").read_text()),
        attributes=json.loads((folder / "api_clusters__attributes.json").read_text()),
        deployment=json.loads(_deployment_data(folder)),
    )


@functools.cache
def _deployment_data(folder: Path) -> str:
    """Return the deployment data as JSON text: whoever reads it may change what it gets."""
    if (folder / "cluster.yaml").exists():
        common = _yaml(folder / "cluster.yaml")
        return json.dumps([_merged(common, _yaml(path)) for path in sorted(folder.glob("node-*.yaml"))])
    return json.dumps([_yaml(path) for path in sorted(folder.glob("astute-*.yaml"))])


def _yaml(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.load(path.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return found


def _merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Lay ``other`` over ``one``, mappings into mappings, as newton's Nailgun does with a node's own data."""
    found = copy.deepcopy(one)
    for key, value in other.items():
        inner = found.get(key)
        found[key] = _merged(inner, value) if isinstance(inner, dict) and isinstance(value, dict) else value
    return found


@contextlib.contextmanager
def serving(nailgun: Any, tls: tuple[Path, Path] | None = None) -> Iterator[str]:
    """Serve it on a free port of loopback and give its address, which is also in ``nailgun.url``.

    It may be any application, one that it is a part of.
    """
    context = None
    if tls is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*tls)
    with _running(nailgun, context) as port:
        nailgun.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{port}"
        yield nailgun.url


@contextlib.contextmanager
def at_work(nailgun: Nailgun, tls: tuple[Path, Path] | None = None) -> Iterator[str]:
    """Serve it as ``serving`` does, with a login to it in the variables meanwhile."""
    with serving(nailgun, tls) as url, pytest.MonkeyPatch.context() as patch:
        for name, value in nailgun.login.items():
            patch.setenv(name, value)
        yield url


@contextlib.contextmanager
def leading(to: str, seen: list[tuple[str, str | None]], status: int = 301) -> Iterator[str]:
    """Serve what the master's web server does on http 8000: lead every request to the address ``to``, same path.

    ``seen`` gets paths and tokens, a path with its method if that isn't GET.
    """

    def application(environ: Any, start_response: Any) -> Any:
        request = Request(environ)
        path = request.full_path.rstrip("?")
        asked = path if request.method == "GET" else f"{request.method} {path}"
        seen.append((asked, request.headers.get("X-Auth-Token")))
        answer = Response("<html>moved</html>", status, {"Location": f"{to}{path}"}, content_type="text/html")
        return answer(environ, start_response)

    with _running(application, None) as port:
        yield f"http://127.0.0.1:{port}"


@contextlib.contextmanager
def _running(application: Any, context: ssl.SSLContext | None) -> Iterator[int]:
    server = make_server("127.0.0.1", 0, application, threaded=True, ssl_context=context, request_handler=None)
    server.log = lambda *_: None  # type: ignore[method-assign]
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
