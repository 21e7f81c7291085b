"""Keystone's login and catalog (U5, S06), where a real one can't be made to do it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import responses
from werkzeug.serving import make_server

from configdb_sync.configdb.connect import connect
from configdb_sync.errors import (
    AccessError,
    ConfigDBError,
    MissingError,
    SettingsError,
    UnavailableError,
    UnexpectedAnswerError,
)
from configdb_sync.exits import Exit, exit_of
from configdb_sync.http.transport import TransferLimits
from tests.configdb.support import timing

KEYSTONE = "http://keystone.example:5000/v3"
CONFIGDB = "http://configdb.example:8000/api/v1/config"
ENVIRON = {
    "OS_AUTH_URL": KEYSTONE,
    "OS_USERNAME": "admin",
    "OS_PASSWORD": "CANARY-pw",
    "OS_PROJECT_NAME": "admin",
    "OS_USER_DOMAIN_ID": "default",
    "OS_PROJECT_DOMAIN_ID": "default",
}

DISCOVERY = {"version": {"id": "v3.14", "status": "stable", "links": [{"rel": "self", "href": KEYSTONE}]}}


class Keystone:
    """Issues CANARY-1, CANARY-2, ..."""

    def __init__(self, peer: responses.RequestsMock, endpoint: str | None = CONFIGDB) -> None:
        self.issued = 0
        self.endpoint = endpoint
        self.lock = threading.Lock()
        peer.get(KEYSTONE, json=DISCOVERY)
        peer.add_callback(responses.POST, f"{KEYSTONE}/auth/tokens", self.issue)

    def issue(self, _: object) -> tuple[int, dict[str, str], str]:
        with self.lock:
            self.issued += 1
            places = [("public", "RegionOne", ""), ("internal", "RegionTwo", "/internal")]
            endpoints = [
                {
                    "id": region,
                    "interface": interface,
                    "region": region,
                    "region_id": region,
                    "url": self.endpoint + end,
                }
                for interface, region, end in places
                if self.endpoint
            ]
            token = {
                "methods": ["password"],
                "user": {"id": "u", "name": "admin", "domain": {"id": "default", "name": "Default"}},
                "project": {"id": "p", "name": "admin", "domain": {"id": "default", "name": "Default"}},
                "issued_at": "2026-01-01T00:00:00.000000Z",
                "expires_at": "2099-01-01T00:00:00.000000Z",
                "catalog": [{"id": "s", "type": "config", "name": "tuning-box", "endpoints": endpoints}],
            }
            return 201, {"X-Subject-Token": f"CANARY-{self.issued}"}, json.dumps({"token": token})


@pytest.fixture
def peer() -> Iterator[responses.RequestsMock]:
    with responses.RequestsMock(assert_all_requests_are_fired=False) as mock:
        yield mock


def test_the_endpoint_comes_from_the_catalog(peer: responses.RequestsMock) -> None:
    Keystone(peer)
    peer.get(f"{CONFIGDB}/components", json=[], headers={"Server-Product": "configdb-sync/1"})
    with connect("catalog", environ=ENVIRON) as client:
        assert client.components() == []
        assert client.base == CONFIGDB
    assert peer.calls[-1].request.headers["X-Auth-Token"] == "CANARY-1"
    with connect("catalog", environ={**ENVIRON, "OS_REGION_NAME": "RegionTwo", "OS_INTERFACE": "internal"}) as client:
        assert client.base == f"{CONFIGDB}/internal"


Entry = tuple[str, str, str]


def catalog_of(peer: responses.RequestsMock, *services: list[Entry]) -> None:
    """Have Keystone list services of type config, each with its endpoints: interface, region, address."""
    catalog = [
        {
            "id": f"s{number}",
            "type": "config",
            "name": f"configdb{number}",
            "endpoints": [
                {"id": f"{number}-{url}", "interface": interface, "region": region, "region_id": region, "url": url}
                for interface, region, url in endpoints
            ],
        }
        for number, endpoints in enumerate(services)
    ]
    keystone = Keystone(peer)

    def issue(request: object) -> tuple[int, dict[str, str], str]:
        status, headers, body = keystone.issue(request)
        answer = json.loads(body)
        answer["token"]["catalog"] = catalog
        return status, headers, json.dumps(answer)

    peer.replace(responses.CallbackResponse(responses.POST, f"{KEYSTONE}/auth/tokens", callback=issue))


ONE, OTHER = "http://one.example/config", "http://other.example/config"


@pytest.mark.parametrize(
    ("services", "named"),
    [
        ([[("public", "East", ONE), ("public", "West", OTHER)]], "region 'West'"),
        ([[("public", "East", ONE)], [("public", "East", OTHER)]], "service 'configdb1'"),
        ([[("public", "East", ONE)], [("public", "West", OTHER)]], "region 'West'"),
    ],
)
def test_several_endpoints_of_which_none_is_chosen_are_named(
    peer: responses.RequestsMock, services: list[list[Entry]], named: str
) -> None:
    """R7."""
    catalog_of(peer, *services)
    with pytest.raises(ConfigDBError) as caught:
        connect("catalog", environ=ENVIRON, fallback=lambda: pytest.fail("the fallback is for none"))
    assert exit_of(caught.value) == Exit.CONFIGDB
    for word in (ONE, OTHER, named, "several public endpoints", "OS_REGION_NAME", "--configdb URL"):
        assert word in str(caught.value)


def test_a_chosen_region_ends_the_choice(peer: responses.RequestsMock) -> None:
    """R7; what is the same address everywhere is no choice."""
    catalog_of(
        peer,
        [("public", "East", ONE), ("internal", "East", OTHER), ("public", "West", OTHER)],
        [("public", "East", f"{ONE}/"), ("admin", "East", OTHER)],
    )
    with connect("catalog", environ={**ENVIRON, "OS_REGION_NAME": "East"}) as client:
        assert client.base == ONE
    with connect("catalog", environ={**ENVIRON, "OS_REGION_NAME": "West"}) as client:
        assert client.base == OTHER


def test_without_an_endpoint_the_fallback_is_asked(peer: responses.RequestsMock) -> None:
    Keystone(peer, endpoint=None)
    with pytest.raises(MissingError, match=r"no public endpoint of type config.*--configdb URL"):
        connect("catalog", environ=ENVIRON)
    peer.get(f"{CONFIGDB}/components", json=[], headers={"Server-Product": "configdb-sync/1"})
    with connect("catalog", environ=ENVIRON, fallback=lambda: f"{CONFIGDB}/") as client:
        assert client.base == CONFIGDB
    with pytest.raises(MissingError, match="in region Mars"):
        connect("catalog", environ=ENVIRON, region="Mars", fallback=lambda: None)


@pytest.mark.parametrize("answer", [{"status": 404, "json": {"message": "no"}}, {"status": 404, "body": "<html>"}])
def test_a_fallback_where_nothing_is_counts_as_no_endpoint(peer: responses.RequestsMock, answer: Any) -> None:
    Keystone(peer, endpoint=None)
    peer.get("http://other.example/components", **answer)
    with pytest.raises(
        MissingError, match=r"no public endpoint of type config, and http://other\.example is no ConfigDB"
    ):
        connect("catalog", environ=ENVIRON, fallback=lambda: "http://other.example")


def test_a_token_that_is_refused_is_renewed_once(peer: responses.RequestsMock) -> None:
    """S06."""
    keystone = Keystone(peer)

    def answer(request: object) -> tuple[int, dict[str, str], str]:
        token = request.headers.get("X-Auth-Token")  # type: ignore[attr-defined]
        return (200 if token == "CANARY-2" else 401), {}, "[]"

    peer.add_callback(responses.GET, f"{CONFIGDB}/components", answer, content_type="application/json")
    with connect("catalog", environ=ENVIRON, timing=timing()) as client:
        assert client.components() == []
        assert client.components() == []
        assert keystone.issued == 2
        peer.add_callback(responses.GET, f"{CONFIGDB}/environments/5", lambda _: (401, {}, "{}"))
        with pytest.raises(AccessError) as caught:
            client.environment(5)
        assert keystone.issued == 3
        assert "CANARY" not in str(caught.value)


def test_what_keystone_says_is_told_apart(peer: responses.RequestsMock) -> None:
    for status, kind in ((401, AccessError), (403, AccessError), (500, UnavailableError), (418, UnexpectedAnswerError)):
        peer.reset()
        peer.get(KEYSTONE, json=DISCOVERY)
        peer.post(f"{KEYSTONE}/auth/tokens", json={"error": {"message": "CANARY-pw"}}, status=status)
        with pytest.raises(kind, match=r"keystone\.example") as caught:
            connect("catalog", environ=ENVIRON)
        assert "CANARY" not in f"{caught.value!r}{caught.value}"


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/v3", "http://127.0.0.1:1"])
def test_keystone_is_away(url: str) -> None:
    """Without a version in the address it fails where the versions are asked for."""
    with pytest.raises(UnavailableError, match=f"{url} can't be reached"):
        connect("catalog", environ={**ENVIRON, "OS_AUTH_URL": url})


def test_a_keystone_that_never_ends_its_answer_is_given_up(dripping: str) -> None:
    began = time.monotonic()
    with pytest.raises(UnavailableError, match="can't be reached or fails"):
        connect("catalog", environ={**ENVIRON, "OS_AUTH_URL": dripping}, limits=TransferLimits(read=5, total=1))
    assert time.monotonic() - began < 30


@pytest.fixture
def dripping() -> Iterator[str]:
    """The address of a server that sends a byte now and then, for ever."""
    end = threading.Event()

    def drip(environ: object, start: object) -> Iterator[bytes]:
        start("200 OK", [("Content-Type", "application/json")])  # type: ignore[operator]
        while not end.wait(0.2):
            yield b" "

    server = make_server("127.0.0.1", 0, drip, threaded=True)
    server.log = lambda *_: None  # type: ignore[method-assign]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v3"
    end.set()
    server.shutdown()
    thread.join()
    server.server_close()


def test_logins_that_are_none() -> None:
    with pytest.raises(SettingsError, match="'nope' isn't known"):
        connect("catalog", environ={**ENVIRON, "OS_AUTH_TYPE": "nope"})
    with pytest.raises(SettingsError, match="no catalog"):
        connect("catalog", environ={"OS_AUTH_URL": KEYSTONE, "OS_AUTH_TYPE": "none", "OS_ENDPOINT": "x"})
    with pytest.raises(SettingsError, match="--configdb-database"):
        connect("embedded")


@pytest.mark.parametrize(
    ("gone", "lacks"),
    [(["OS_PASSWORD"], "password"), (["OS_USERNAME", "OS_PASSWORD"], "username and password")],
)
def test_a_login_that_lacks_something_is_said_so_before_anything_is_sent(gone: list[str], lacks: str) -> None:
    environ = {name: value for name, value in ENVIRON.items() if name not in gone}
    with responses.RequestsMock(), pytest.raises(SettingsError, match=f"lacks {lacks} "):
        connect("catalog", environ=environ)
