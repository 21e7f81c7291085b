"""A Keystone as far as a login goes, where a real one is too much: v3 and v2.0, users, projects, roles, versions.

It refuses in Keystone's own words, which don't tell what was wrong. As behind the Fuel Master's web server it says that
its versions are at another address than the one that was asked; nobody may go there.
"""

from __future__ import annotations

import json
import re
import threading
from dataclasses import dataclass, field
from typing import Any

from werkzeug.wrappers import Request, Response

USER, PASSWORD, PROJECT = "admin", "CANARY-fuel", "admin"
ISSUED = "CANARY-issued-before"
"""A token that every one of them gave to ``USER`` before."""
_REFUSED = "The request you have made requires authentication."
_END = "2099-01-01T00:00:00.000000Z"


@dataclass
class StubKeystone:
    """``users``: passwords and roles by project. ``issued``: the roles that each token stands for, by token.

    ``logins``: what was posted, with its path. ``told``: where it says that it is.
    """

    users: dict[str, tuple[str, dict[str, list[str]]]] = field(
        default_factory=lambda: {USER: (PASSWORD, {PROJECT: ["admin"]})}
    )
    versions: tuple[str, ...] = ("v3", "v2.0")
    told: str = "http://10.20.0.2:5000"
    issued: dict[str, list[str]] = field(default_factory=lambda: {ISSUED: ["admin"]})
    logins: list[tuple[str, Any]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, request: Request, path: str) -> Response:
        """Answer a request; ``path`` is the one below where Keystone is."""
        version = path.strip("/")
        if request.method == "GET" and not version:
            return _json({"versions": {"values": [self._version(each) for each in self.versions]}}, 300)
        if request.method == "GET" and version in self.versions:
            return _json({"version": self._version(version)})
        found = re.fullmatch(r"/(v3)/auth/tokens|/(v2\.0)/tokens", path)
        if found is None or (found[1] or found[2]) not in self.versions:
            return _error(404, "The resource could not be found.", "Not Found")
        if request.method != "POST":
            return _error(401, _REFUSED, "Unauthorized")
        body = request.get_json()
        self.logins.append((path, body))
        return self._v3(body) if found[1] else self._v2(body)

    def _version(self, name: str) -> dict[str, Any]:
        number = {"v3": "v3.6", "v2.0": "v2.0"}[name]
        return {"id": number, "status": "stable", "links": [{"rel": "self", "href": f"{self.told}/{name}/"}]}

    def _v3(self, body: Any) -> Response:
        identity = body["auth"]["identity"]
        assert identity["methods"] == ["password"]
        user = identity["password"]["user"]
        project = body["auth"].get("scope", {}).get("project", {})
        for named in (user, *([project] if project else [])):
            assert named["domain"] in ({"id": "default"}, {"name": "Default"}), "a name without a domain is a 400"
        token = self._issue(user["name"], user["password"], project.get("name"))
        if token is None:
            return _error(401, _REFUSED, "Unauthorized")
        found = {
            "methods": ["password"],
            "expires_at": _END,
            "issued_at": _END,
            "user": {"id": "u", "name": user["name"]},
        }
        answer = _json({"token": found | ({"catalog": []} if project else {})}, 201)
        answer.headers["X-Subject-Token"] = token
        return answer

    def _v2(self, body: Any) -> Response:
        user = body["auth"]["passwordCredentials"]
        token = self._issue(user["username"], user["password"], body["auth"].get("tenantName"))
        if token is None:
            return _error(401, _REFUSED, "Unauthorized")
        found = {"id": token, "expires": _END.replace(".000000", ""), "issued_at": "2026-01-01T00:00:00.000000"}
        return _json({"access": {"token": found, "serviceCatalog": [], "user": {"id": "u"}, "metadata": {}}})

    def _issue(self, user: str, password: str, project: str | None) -> str | None:
        known, roles = self.users.get(user, ("", {}))
        if not known or password != known or (project is not None and project not in roles):
            return None
        with self._lock:
            token = f"CANARY-token-{len(self.issued)}"
            self.issued[token] = roles[project] if project is not None else []
        return token


def _json(value: Any, status: int = 200) -> Response:
    return Response(json.dumps(value), status, content_type="application/json")


def _error(status: int, message: str, title: str) -> Response:
    return _json({"error": {"code": status, "message": message, "title": title}}, status)
