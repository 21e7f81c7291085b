"""Requests to the embedded ConfigDB called without a socket, and places that the tests write to."""

from __future__ import annotations

import json as jsonlib
from datetime import UTC, datetime, timedelta
from typing import Any

from werkzeug.test import Client, TestResponse

from configdb_sync.configdb_server.app import ConfigDBApplication

ROOT = "/environments/5/resources/globals"
CLUSTER = "/environments/5/cluster/c1/resources/globals"
NODE = "/environments/5/cluster/c1/nodes/n1/resources/globals"


class Clock:
    """A clock that goes on by a second at each look."""

    def __init__(self) -> None:
        self.now = datetime(2026, 11, 29, 12, 0, 0, 123456, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


class Api:
    """Requests to an application called without a socket."""

    def __init__(self, application: ConfigDBApplication) -> None:
        self.application = application
        self._client = Client(application)

    def __call__(self, method: str, path: str, json: Any = ..., **options: Any) -> TestResponse:
        if json is not ...:
            options.update(data=jsonlib.dumps(json), content_type="application/json")
        return self._client.open(path, method=method, **options)

    def get(self, path: str, **options: Any) -> TestResponse:
        return self("GET", path, **options)

    def put(self, path: str, json: Any = ..., **options: Any) -> TestResponse:
        return self("PUT", path, json, **options)

    def post(self, path: str, json: Any = ..., **options: Any) -> TestResponse:
        return self("POST", path, json, **options)

    def patch(self, path: str, json: Any = ..., **options: Any) -> TestResponse:
        return self("PATCH", path, json, **options)

    def delete(self, path: str, **options: Any) -> TestResponse:
        return self("DELETE", path, **options)

    def good(self, method: str, path: str, json: Any = ..., **options: Any) -> Any:
        """Return the JSON of an answer that must be 2xx."""
        answer = self(method, path, json, **options)
        assert answer.status_code < 300, answer.text
        return answer.json if answer.data else None
