"""A Nailgun to talk to: a real HTTP server (Werkzeug) that answers with the stored answers of real ones.

``orchestrator/deployment`` isn't stored: it is made of the files that the same Nailguns wrote for nodes, as the data's
README says. What nodes are like, and what goes wrong, is set on the object while it serves.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from werkzeug.serving import make_server
from werkzeug.wrappers import Request, Response

from tests.support.fixtures import require_data

Answer = Callable[[Request], Response]


@dataclass
class Nailgun:
    """What the server answers with.

    ``token``: the one it takes, None for none needed (as ``auth_required`` says). ``takes``: tells it instead.
    """

    version: dict[str, Any]
    cluster: dict[str, Any]
    nodes: list[dict[str, Any]]
    attributes: dict[str, Any]
    deployment: list[dict[str, Any]]
    token: str | None = None
    takes: Callable[[str], bool] | None = None
    faults: dict[str, Answer] = field(default_factory=dict)
    seen: list[tuple[str, str | None]] = field(default_factory=list)
    links: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""

    @property
    def env(self) -> int:
        """The number of its only environment."""
        return int(self.cluster["id"])

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

    def __call__(self, environ: Any, start_response: Any) -> Any:
        """Answer a request (WSGI)."""
        return self._answer(Request(environ))(environ, start_response)

    def _answer(self, request: Request) -> Response:
        token = request.headers.get("X-Auth-Token")
        self.seen.append((request.full_path.rstrip("?"), token))
        path = request.path.removeprefix("/api/v1").removeprefix("/api")
        if path in self.faults:
            return self.faults[path](request)
        if path == "/version":
            return _json({**self.version, "auth_required": self._guarded})
        if self._guarded and not self._taken(token or ""):
            return _json({"error": {"code": 401, "title": "Unauthorized", "message": "authentication"}}, 401)
        here = f"/clusters/{self.env}"
        if path.startswith(f"{here}/plugin_links"):
            return self._link(request, path.removeprefix(f"{here}/plugin_links").strip("/"))
        answers: dict[str, Callable[[], Any]] = {
            here: lambda: self.cluster,
            f"{here}/attributes": lambda: self.attributes,
            f"{here}/orchestrator/deployment": lambda: self._deployment(request),
            "/nodes": lambda: self.nodes if request.args.get("cluster_id") == str(self.env) else [],
        }
        if path not in answers:
            return _json({"message": "not found", "errors": []}, 404)
        return _json(answers[path]())

    @property
    def _guarded(self) -> bool:
        return self.token is not None or self.takes is not None

    def _taken(self, token: str) -> bool:
        return token == self.token if self.takes is None else self.takes(token)

    def _link(self, request: Request, number: str) -> Response:
        """As Nailgun does since 8.0: an address stands once in an environment, and no other fields are taken."""
        if request.method == "GET":
            return _json(self.links)
        body = request.get_json() if request.method in {"POST", "PUT"} else {}
        known = {"title", "url", "description", "hidden"}
        if body and (set(body) - known or not 1 <= len(body.get("title", "x")) <= 50):
            return _json({"message": "the object doesn't validate", "errors": []}, 400)
        if request.method == "POST":
            if any(link["url"] == body["url"] for link in self.links):
                return _json({"message": "Link with the same url already exists", "errors": []}, 409)
            made = {
                "description": None,
                "hidden": False,
                **body,
                "id": 1 + max((one["id"] for one in self.links), default=0),
            }
            self.links.append(made)
            return _json(made, 201)
        link = next((one for one in self.links if str(one["id"]) == number), None)
        if link is None:
            return _json({"message": "not found", "errors": []}, 404)
        if request.method == "PUT":
            link.update(body)
            return _json(link)
        self.links.remove(link)
        return Response(status=204)

    def _deployment(self, request: Request) -> list[dict[str, Any]]:
        asked = request.args.get("nodes")
        wanted = None if asked is None else {*asked.split(","), "master"}
        return [item for item in self.deployment if wanted is None or item["uid"] in wanted]


def _json(value: Any, status: int = 200) -> Response:
    return Response(json.dumps(value), status, content_type="application/json")


def load(release: str) -> Nailgun:
    """Return what Nailgun ``9.0.1`` or ``newton`` answered; skips the test where the data isn't there."""
    folder = require_data() / "nailgun" / release
    return Nailgun(
        version=json.loads((folder / "api_version.json").read_text()),
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
def leading(to: str, seen: list[tuple[str, str | None]], status: int = 301) -> Iterator[str]:
    """Serve what the master's web server does on http 8000: lead every request to the address ``to``, same path."""

    def application(environ: Any, start_response: Any) -> Any:
        request = Request(environ)
        path = request.full_path.rstrip("?")
        seen.append((path, request.headers.get("X-Auth-Token")))
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
