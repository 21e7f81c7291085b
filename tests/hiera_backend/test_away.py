"""U15: ConfigDB away, or answering what no ConfigDB answers: an error that says so, or what was last known."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.hiera_backend.backend import Driver, private, told
from tests.hiera_backend.servers import Server
from tests.hiera_backend.test_lookup import EXPECTED, LEVELS, Node
from tests.peers import liar
from tests.peers.liar import Script, answer

PRODUCT = {"Server_Product": "configdb-sync/0.1.0"}
DIGEST = "5" * 64
GOOD: list[Script] = [
    answer(200, json.dumps([{"id": 1, "name": "c", "resource_definitions": [{"id": 7, "name": "astute"}]}]), **PRODUCT),
    answer(200, json.dumps({"7": {"values": DIGEST, "overrides": DIGEST, "effective": DIGEST}}), ETag='"e"', **PRODUCT),
    answer(200, '{"debug": true}', ETag=f'"{DIGEST}"', **PRODUCT),
]


def truncated(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n[")
    connection.close()


def endless(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        connection.sendall(b"1000\r\n" + b"[" * 4096 + b"\r\n")


def headers_without_end(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        connection.sendall(b"X-Long: " + b"x" * 4096 + b"\r\n")


def silent(connection: socket.socket) -> None:
    # Until the other side gives up.
    connection.settimeout(20)
    while connection.recv(4096):
        pass


HOSTILE: dict[str, tuple[Script, str]] = {
    "500": (answer(500, "CANARY"), "ConfigDB answers 500"),
    "503 as HTML": (answer(503, "<html>CANARY</html>", "text/html"), "ConfigDB answers 503"),
    "HTML": (answer(200, "<html>CANARY</html>", "text/html"), "something else than JSON"),
    "empty": (answer(200, ""), "something else than JSON"),
    "204": (answer(204), "ConfigDB answers 204"),
    "not asked 304": (answer(304), "ConfigDB answers 304"),
    "401": (answer(401, "{}"), "ConfigDB refuses the login (401)"),
    "403": (answer(403, "{}"), "ConfigDB refuses the login (403)"),
    "404": (answer(404, "{}"), "ConfigDB has no /components"),
    "302": (answer(302, "", Location="http://127.0.0.1:9/CANARY"), "redirects (302)"),
    "308": (answer(308, "", Location="https://evil.example/CANARY"), "redirects (308)"),
    "a text": (answer(200, '"CANARY"'), "ConfigDB answers"),
    "a mapping": (answer(200, '{"CANARY": 1}'), "JSON that is no list"),
    "no UTF-8": (answer(200, b'["\xff"]'), "no UTF-8"),
    "NaN": (answer(200, "[NaN]"), "something else than JSON"),
    "nested": (answer(200, "[" * 300 + "]" * 300), "something else than JSON"),
    "large": (answer(200, json.dumps(["x" * 2000])), "more than 1000 bytes"),
    "said to be large": (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n" + b"[" * 2000, "more than 1000"),
    "without end": (endless, "more than 1000 bytes"),
    "headers without end": (headers_without_end, "ConfigDB"),
    "cut": (truncated, "the answer of ConfigDB was cut"),
    "reset": (liar.reset, "ConfigDB can't be asked"),
    "garbage": (b"\0\1\2\r\n\r\n", "ConfigDB can't be asked"),
    "silence": (silent, "ConfigDB didn't answer in time"),
    "a drop at a time": (liar.drip(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 500, 0.02), "ConfigDB didn't answer in time"),
    "gzip": (answer(200, b"\x1f\x8b" + b"\0" * 20, Content_Encoding="gzip"), "ConfigDB"),
}


def make(ruby: Driver, folder: Path, url: str, **values: Any) -> Node:
    token = private(folder / "token", "CANARY-token\n")
    more = {"auth": "token", "token_file": str(token), "max_bytes": 1000, "timeout": 1, "time_limit": 1}
    return Node(ruby, folder, url=url, **(more | values))


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_answer_is_a_clear_error(ruby: Driver, tmp_path: Path, kind: str) -> None:
    script, reason = HOSTILE[kind]
    with liar.running(script) as server:
        found = make(ruby, tmp_path, server.url).asked()
    assert found["error"] == "AwayError", found
    assert reason in found["text"]
    assert "CANARY" not in json.dumps(found)
    assert len(found["text"]) < 300


@pytest.mark.parametrize(
    "body",
    [
        '[{"CANARY": 1}, 5]',
        '[{"id": 1, "resource_definitions": [{"name": "CANARY", "id": "x"}]}]',
        '[{"id": 1, "resource_definitions": 7}]',
        '[{"json_class": "Object"}]',
    ],
)
def test_components_that_are_none(ruby: Driver, tmp_path: Path, body: str) -> None:
    with liar.running(answer(200, body), answer(200, '{"components": [1]}')) as server:
        found = make(ruby, tmp_path, server.url).asked()
    assert (found["error"], found["text"]) == ("AwayError", "ConfigDB answers components that are none")


@pytest.mark.parametrize("body", ['{"7": 5}', '{"7": {}}', '{"7": {"effective": 5}}', "[]"])
def test_digests_that_are_none(ruby: Driver, tmp_path: Path, body: str) -> None:
    with liar.running(GOOD[0], answer(200, body, **PRODUCT)) as server:
        found = make(ruby, tmp_path, server.url).asked()
    assert found["error"] == "AwayError"
    assert "ConfigDB answers" in found["text"]


@pytest.mark.parametrize("kind", HOSTILE)
def test_or_what_was_last_known_stands_for_it(ruby: Driver, tmp_path: Path, kind: str) -> None:
    script, reason = HOSTILE[kind]
    with liar.running(*GOOD, script) as server:
        node = make(ruby, tmp_path, server.url)
        first = node.data(levels=["astute"])
        assert first == [told({"debug": True})]
        assert "X-Auth-Token: CANARY-token" in server.requests[0].decode().title().replace(
            "Canary-Token", "CANARY-token"
        )
        node.new_run()
        found = node.asked(ahead=400, levels=["astute"])
        asked = len(server.requests)
        if kind != "not asked 304":
            assert found["ok"] == first, found
            assert len(found["said"]) == 1
            assert "what was last known of nodes/1 is used" in found["said"][0]
            assert reason in found["said"][0]
            assert "CANARY" not in json.dumps(found)
        # It isn't asked again right now, by this process or the next.
        node.new_run()
        assert node.asked(ahead=430, levels=["astute"])["ok"] == first
        assert len(server.requests) == asked
        node.asked(ahead=480, levels=["astute"])
        assert len(server.requests) > asked or kind == "not asked 304"


@pytest.fixture
def away(server: Server, ruby: Driver, tmp_path: Path) -> Node:
    """A node whose ConfigDB is away since a first run."""
    node = Node(ruby, tmp_path / "node", url=server.url)
    assert node.data() == EXPECTED
    server.away = True
    return node


def test_within_the_time_to_live_nobody_notices(away: Node, server: Server) -> None:
    away.new_run()
    assert away.data(ahead=200) == EXPECTED


def test_what_was_last_known_stands_until_it_is_back(away: Node, server: Server) -> None:
    away.new_run()
    for ahead in (400, 4000, 400_000):
        found = away.asked(ahead=ahead)
        assert found["ok"] == EXPECTED
    server.away = False
    server.put("astute", {"debug": True}, "overrides")
    assert away.asked(ahead=400_100)["ok"][-1] != EXPECTED[-1]


def test_or_it_is_an_error_if_that_is_set(server: Server, ruby: Driver, tmp_path: Path) -> None:
    node = Node(ruby, tmp_path / "node", url=server.url, when_away="error")
    node.data()
    server.away = True
    assert node.data(ahead=200) == EXPECTED
    for _ in range(2):
        found = node.asked(ahead=400)
        assert (found["error"], found["text"]) == ("AwayError", "ConfigDB answers 503")
    server.away = False
    assert node.data(ahead=400) == EXPECTED


def test_what_was_never_asked_for_is_an_error_either_way(server: Server, ruby: Driver, tmp_path: Path) -> None:
    node = Node(ruby, tmp_path / "node", url=server.url)
    node.data(levels=["astute"])
    server.away = True
    found = node.asked(ahead=400, levels=["globals"])
    assert found["error"] == "AwayError"
    assert found["text"] == "ConfigDB is away, and globals was never asked for"
    assert node.asked(ahead=400, levels=["astute"])["ok"] == EXPECTED[-1:]


def test_a_first_run_without_configdb_is_an_error(ruby: Driver, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    found = make(ruby, tmp_path, f"http://127.0.0.1:{port}").asked(levels=LEVELS)
    assert (found["error"], found["text"]) == ("AwayError", f"ConfigDB can't be asked: ECONNREFUSED (127.0.0.1:{port})")


def test_an_environment_that_configdb_does_not_have_is_named(server: Server, ruby: Driver, tmp_path: Path) -> None:
    found = Node(ruby, tmp_path, url=server.url, environment=9).asked()
    assert (found["error"], found["text"]) == ("AwayError", "ConfigDB has no /environments/9/nodes/1/etags")


def test_a_proxy_of_the_environment_is_not_used(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.hiera_backend.backend import driving

    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with driving() as ruby:
        assert Node(ruby, tmp_path, url=server.url).data() == EXPECTED
