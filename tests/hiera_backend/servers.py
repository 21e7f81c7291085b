"""The embedded ConfigDB on loopback in this process: what it was asked is listed, and it can be away."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests
from werkzeug.serving import make_server

from configdb_sync.configdb_server.app import create_app
from configdb_sync.web.access import OpenAccess

Wsgi = Callable[[dict[str, Any], Any], Iterable[bytes]]


@dataclass
class Server:
    """A running server. ``asked``: request lines, each with the condition it came with and its answer's status."""

    url: str
    asked: list[tuple[str, str | None, int]] = field(default_factory=list)
    away: bool = False
    guard: Callable[[dict[str, Any]], bool] | None = None

    def fill(self) -> None:
        """Make environment 5 with the data sources of a small node."""
        names = ["astute", "globals", "override/node", "plugins/ldap", "records"]
        made = self.send("POST", "/components", {"name": "t/5", "resource_definitions": [{"name": n} for n in names]})
        assert made.status_code == 201, made.text
        other = {"name": "other/6", "resource_definitions": [{"name": "astute"}, {"name": "elsewhere"}]}
        assert self.send("POST", "/components", other).status_code == 201
        body = {"id": 5, "components": ["t/5"], "hierarchy_levels": ["nodes"]}
        assert self.send("POST", "/environments", body).status_code == 201
        self.put("astute", {"debug": False, "nova": {"workers": 4, "password": "CANARY"}, "uid": "1"})
        self.put("globals", {"rates": [1, 2.5], "debug": True})
        self.asked.clear()

    def put(self, name: str, document: Any, kind: str = "values", node: str = "1") -> None:
        """Store a document at a node's level."""
        path = f"/environments/5/nodes/{node}/resources/{name}/{kind}"
        assert self.send("PUT", path, document).status_code == 204
        self.asked.clear()

    def send(self, method: str, path: str, body: Any) -> requests.Response:
        headers = {"X-Auth-Token": "the-test"}
        return requests.request(method, self.url + path, json=body, headers=headers, timeout=20)

    def lines(self) -> list[str]:
        """Return what it was asked since the last call, as paths below the environment."""
        found = [line.removeprefix("/environments/5/nodes/1/") for line, _, _ in self.asked]
        self.asked.clear()
        return found

    def conditional(self) -> bool:
        """Tell whether all since the last call came with a condition that held."""
        found = all(condition is not None and status == 304 for _, condition, status in self.asked)
        self.asked.clear()
        return found


@contextlib.contextmanager
def serving_threads(database: Path, **options: Any) -> Iterator[Server]:
    """Serve an embedded ConfigDB from threads of this process."""
    application = create_app(f"sqlite:///{database}", access=OpenAccess())
    server = Server("")

    def watched(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        query = f"?{environ['QUERY_STRING']}" if environ["QUERY_STRING"] else ""

        def started(status: str, headers: Any, *more: Any) -> Any:
            asked = (environ["PATH_INFO"] + query, environ.get("HTTP_IF_NONE_MATCH"), int(status[:3]))
            server.asked.append(asked)
            return start(status, headers, *more)

        if server.away:
            started("503 Service Unavailable", [("Content-Type", "text/html")])
            return [b"<html>away</html>"]
        if server.guard is not None and not server.guard(environ):
            started("401 Unauthorized", [("Content-Type", "application/json")])
            return [b"{}"]
        return application(environ, started)

    wsgi = make_server("127.0.0.1", 0, watched, threaded=True, **options)
    scheme = "https" if options.get("ssl_context") else "http"
    server.url = f"{scheme}://127.0.0.1:{wsgi.server_port}"
    thread = threading.Thread(target=wsgi.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        wsgi.shutdown()
        thread.join()
        wsgi.server_close()
        application.close()
