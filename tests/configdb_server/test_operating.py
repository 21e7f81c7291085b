"""U29: whether the server's database answers, for anyone, and the metrics for those who may see them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from configdb_sync.configdb_server.app import Gauges
from configdb_sync.configdb_server.schema import DatabaseOutageError
from configdb_sync.errors import StateError
from configdb_sync.web.access import TokenAccess
from tests.configdb_server.conftest import MakeServer

TOKEN, METRICS = "CANARY-token-of-16", "CANARY-metrics-token"


@pytest.fixture
def backend() -> str:
    return "sqlite"


def test_health_needs_no_token_and_tells_nothing_else(make: MakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    api = make(access=TokenAccess(TOKEN))
    answer = api.get("/healthz")
    assert (answer.status_code, answer.json) == (200, {"status": "ok"})
    assert api("HEAD", "/healthz").status_code == 200
    assert api.post("/healthz", {}).status_code == 405
    assert api.get("/environments").status_code == 401

    def away(_: Callable[[Any], Any]) -> None:
        raise DatabaseOutageError("the server's database can't be used now", status=503)

    monkeypatch.setattr(api.application.database, "read", away)
    assert api.get("/healthz").status_code == 503


def test_metrics_are_for_the_token_and_for_one_of_their_own(make: MakeServer) -> None:
    api = make(access=TokenAccess(TOKEN), gauges=Gauges(lambda: b"configdb_sync_nodes 3\n", METRICS))
    for token in (TOKEN, METRICS):
        answer = api.get("/metrics", headers={"Authorization": f"Bearer {token}"})
        assert (answer.status_code, answer.text) == (200, "configdb_sync_nodes 3\n")
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert api.get("/metrics").status_code == 401
    assert api.get("/metrics", headers={"X-Auth-Token": "x"}).status_code == 401
    assert api.get("/environments", headers={"X-Auth-Token": METRICS}).status_code == 401


def test_without_a_token_of_their_own_an_empty_one_is_none(make: MakeServer) -> None:
    api = make(access=TokenAccess(TOKEN), gauges=Gauges(lambda: b""))
    assert api.get("/metrics", headers={"X-Auth-Token": ""}).status_code == 401
    assert make(access=TokenAccess(TOKEN)).get("/metrics").status_code == 404


def test_a_database_of_runs_that_is_away_is_no_fault_of_the_server(make: MakeServer) -> None:
    def away() -> bytes:
        raise StateError("CANARY: /var/lib can't be used", "way out")

    answer = make(gauges=Gauges(away)).get("/metrics")
    assert answer.status_code == 503
    assert "CANARY" not in answer.text
