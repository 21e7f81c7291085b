"""A Keystone as far as a login goes: v3, v2.0 or both, with tokens that end and can be taken back."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from werkzeug.serving import make_server

PASSWORD = "CANARY-password"


@dataclass
class FakeKeystone:
    """A running one. ``logins``: the paths and bodies of all logins; ``good``: the tokens that are taken;
    ``more``: endpoints (``region``, ``url``) of a second service of type config."""

    url: str = ""
    versions: tuple[str, ...] = ("v3", "v2.0")
    endpoint: str | None = None
    life_s: float = 3600
    logins: list[tuple[str, Any]] = field(default_factory=list)
    good: set[str] = field(default_factory=set)
    more: list[dict[str, str]] = field(default_factory=list)
    answers: list[tuple[str, list[tuple[str, str]], bytes]] = field(default_factory=list)

    def takes(self, environ: dict[str, Any]) -> bool:
        """Tell whether a request to ConfigDB comes with a good token."""
        return environ.get("HTTP_X_AUTH_TOKEN") in self.good

    def __call__(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        body = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"] or 0)))
        path = environ["PATH_INFO"]
        self.logins.append((path, body))
        if self.answers:
            status, headers, content = self.answers.pop(0)
            start(status, headers)
            return [content]
        if path not in {"/v3/auth/tokens", "/v2.0/tokens"} or path.split("/")[1] not in self.versions:
            start("404 Not Found", [("Content-Type", "text/html")])
            return [b"<html>"]
        made = self._v3(body) if path.startswith("/v3") else self._v2(body)
        if made is None:
            start("401 Unauthorized", [("Content-Type", "application/json")])
            return [b'{"error": "CANARY"}']
        token, answer = made
        self.good.add(token)
        start("201 Created" if path.startswith("/v3") else "200 OK", [("X-Subject-Token", token)])
        return [json.dumps(answer).encode()]

    def _end(self) -> str:
        return (datetime.now(UTC) + timedelta(seconds=self.life_s)).strftime("%Y-%m-%dT%H:%M:%S.000000Z")

    def _token(self) -> str:
        return f"CANARY-token-{len(self.logins)}"

    def _v3(self, body: Any) -> tuple[str, Any] | None:
        user = body["auth"]["identity"]["password"]["user"]
        assert user["domain"] == {"name": "Default"}
        if user["password"] != PASSWORD:
            return None
        endpoints = [
            {"interface": "admin", "region": "RegionOne", "url": "http://127.0.0.1:9/admin"},
            {"interface": "public", "region": "Other", "url": "http://127.0.0.1:9/other"},
            {"interface": "public", "region": "RegionOne", "url": self.endpoint},
        ]
        catalog = [{"type": "identity", "endpoints": endpoints[:1]}]
        if self.endpoint:
            catalog.append({"type": "config", "endpoints": endpoints})
        catalog.append({"type": "config", "endpoints": [{"interface": "public", **one} for one in self.more]})
        return self._token(), {"token": {"expires_at": self._end(), "catalog": catalog}}

    def _v2(self, body: Any) -> tuple[str, Any] | None:
        if body["auth"]["passwordCredentials"]["password"] != PASSWORD:
            return None
        listed = [{"region": "RegionOne", "publicURL": self.endpoint, "adminURL": "http://127.0.0.1:9/"}]
        catalog = [{"type": "config", "endpoints": listed}] if self.endpoint else []
        catalog.append(
            {"type": "config", "endpoints": [{"region": one["region"], "publicURL": one["url"]} for one in self.more]}
        )
        token = self._token()
        return token, {"access": {"token": {"id": token, "expires": self._end()}, "serviceCatalog": catalog}}


@contextlib.contextmanager
def running() -> Iterator[FakeKeystone]:
    """Serve one from a thread of this process."""
    found = FakeKeystone()
    server = make_server("127.0.0.1", 0, found, threaded=True)
    found.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
