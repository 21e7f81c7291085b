"""No token and no body goes to a plain http address that leads to https (U12); off loopback, so by ``responses``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import responses

from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.connect import connect
from configdb_sync.errors import UnexpectedAnswerError
from configdb_sync.http.session import RetryPolicy
from tests.configdb.support import timing

PLAIN, SECURE = "http://master.example:8000/api/v1/config", "https://master.example:8443/api/v1/config"
OURS = {"Server-Product": "configdb-sync/1"}


@pytest.fixture
def peer() -> Iterator[responses.RequestsMock]:
    with responses.RequestsMock(assert_all_requests_are_fired=False) as mock:
        yield mock


def configdb() -> ConfigDBClient:
    return connect(PLAIN, token="CANARY", policy=RetryPolicy(attempts=1), timing=timing())


def told(peer: responses.RequestsMock) -> list[tuple[str, str | None, bytes | str | None]]:
    """What was sent: method and server, token, body."""
    return [
        (
            f"{call.request.method} {str(call.request.url).split('/api')[0]}",
            call.request.headers.get("X-Auth-Token"),
            call.request.body,
        )
        for call in peer.calls
    ]


def test_the_token_goes_to_https_alone(peer: responses.RequestsMock) -> None:
    peer.get(f"{PLAIN}/components", status=301, headers={"Location": f"{SECURE}/components"})
    peer.get(f"{SECURE}/components", json=[], headers=OURS)
    with configdb() as client:
        assert client.components() == []
        assert client.components() == []
    secure = ("GET https://master.example:8443", "CANARY", None)
    assert told(peer) == [("GET http://master.example:8000", None, None), secure, secure]


def test_where_no_https_is_offered_it_is_as_before(peer: responses.RequestsMock) -> None:
    peer.get(f"{PLAIN}/components", json=[], headers=OURS)
    with configdb() as client:
        assert client.components() == []
        assert client.components() == []
    assert [token for _, token, _ in told(peer)] == [None, "CANARY", "CANARY"]


@pytest.mark.parametrize("elsewhere", ["https://elsewhere.example/api/v1/config/components", f"{SECURE}/login"])
def test_https_elsewhere_is_not_followed_and_gets_nothing(peer: responses.RequestsMock, elsewhere: str) -> None:
    peer.get(f"{PLAIN}/components", status=302, headers={"Location": elsewhere})
    with configdb() as client, pytest.raises(UnexpectedAnswerError, match="isn't followed: nothing secret was sent"):
        client.components()
    assert [token for _, token, _ in told(peer)] == [None]


def test_on_loopback_nothing_is_asked_before() -> None:
    with responses.RequestsMock() as peer:
        peer.get("http://127.0.0.1:8000/components", json=[], headers=OURS)
        with connect("http://127.0.0.1:8000", token="CANARY", timing=timing()) as client:
            client.components()
        assert len(peer.calls) == 1
