"""U5, U12, U15: tokens of Keystone: got by password, kept, renewed when they end or are taken back."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.hiera_backend import fake_keystone
from tests.hiera_backend.backend import Driver, settings, told
from tests.hiera_backend.fake_keystone import PASSWORD, FakeKeystone
from tests.hiera_backend.servers import Server
from tests.hiera_backend.test_lookup import EXPECTED, FIRST, Node
from tests.peers import keystone as peer
from tests.support.service import fill, serving


@pytest.fixture
def keystone(server: Server) -> Iterator[FakeKeystone]:
    """A Keystone whose tokens the ConfigDB takes, and which tells where that is."""
    with fake_keystone.running() as found:
        found.endpoint = f"{server.url}/"
        server.guard = found.takes
        yield found


def login(keystone: FakeKeystone, **more: Any) -> dict[str, Any]:
    words = {"auth_url": keystone.url, "username": "reader", "password": PASSWORD, "project": "services"}
    return {"auth": "keystone", "login": {**words, "region": "RegionOne", **more}}


@pytest.fixture
def node(ruby: Driver, keystone: FakeKeystone, tmp_path: Path) -> Node:
    return Node(ruby, tmp_path / "node", **login(keystone))


def test_one_login_serves_many_runs(node: Node, keystone: FakeKeystone, server: Server) -> None:
    for ahead in (0, 400, 800):
        assert node.data(ahead=ahead) == EXPECTED
        node.new_run()
    assert [path for path, _ in keystone.logins] == ["/v3/auth/tokens"]
    assert keystone.logins[0][1]["auth"]["scope"]["project"] == {"name": "services", "domain": {"name": "Default"}}
    kept = [path for path in (node.folder / "cache").iterdir() if path.name.startswith("token-")]
    assert [path.stat().st_mode & 0o777 for path in kept] == [0o600]
    assert PASSWORD not in kept[0].read_text()


def test_a_token_is_renewed_before_it_ends(node: Node, keystone: FakeKeystone) -> None:
    keystone.life_s = 1000
    node.data()
    node.data(ahead=960)
    assert len(keystone.logins) == 1
    node.data(ahead=1300)
    assert len(keystone.logins) == 2
    node.new_run()
    keystone.good.clear()
    assert node.data(ahead=3000) == EXPECTED
    assert len(keystone.logins) == 3


def test_a_token_that_was_taken_back_is_renewed_once(node: Node, keystone: FakeKeystone, server: Server) -> None:
    node.data()
    keystone.good.clear()
    server.asked.clear()
    assert node.data(ahead=400) == EXPECTED
    assert [status for _, _, status in server.asked] == [401, 304, 304]
    assert len(keystone.logins) == 2


def test_a_configdb_that_never_takes_it_is_asked_twice_and_no_more(
    node: Node, keystone: FakeKeystone, server: Server
) -> None:
    server.guard = lambda environ: False
    answer = node.asked()
    assert answer["text"] == "ConfigDB refuses the login (401)"
    assert len(server.asked) == 2
    assert "CANARY" not in json.dumps(answer)


@pytest.mark.parametrize("suffix", ["", "/", "/v3", "/v3/", "/v2.0"])
def test_the_address_may_say_a_version(
    ruby: Driver, keystone: FakeKeystone, server: Server, tmp_path: Path, suffix: str
) -> None:
    assert Node(ruby, tmp_path / "n", **login(keystone, auth_url=keystone.url + suffix)).data() == EXPECTED
    assert [path for path, _ in keystone.logins] == ["/v3/auth/tokens"]


def test_a_keystone_of_fuel_9_has_v2_alone(node: Node, keystone: FakeKeystone, server: Server) -> None:
    keystone.versions = ("v2.0",)
    assert node.data() == EXPECTED
    assert [path for path, _ in keystone.logins] == ["/v3/auth/tokens", "/v2.0/tokens"]
    assert keystone.logins[1][1]["auth"]["tenantName"] == "services"
    assert server.lines() == FIRST


def test_a_wrong_password_is_an_error_without_it(ruby: Driver, keystone: FakeKeystone, tmp_path: Path) -> None:
    answer = Node(ruby, tmp_path / "n", **login(keystone, password="CANARY-wrong")).asked()
    assert (answer["error"], answer["text"]) == ("AwayError", "Keystone refused the login")
    assert "CANARY" not in json.dumps(answer)


def test_the_address_that_is_set_goes_before_the_catalogs(
    ruby: Driver, keystone: FakeKeystone, server: Server, tmp_path: Path
) -> None:
    keystone.endpoint = "http://127.0.0.1:9/"
    assert Node(ruby, tmp_path / "n", url=server.url, **login(keystone)).data() == EXPECTED


def test_without_an_endpoint_the_other_address_is_asked(
    ruby: Driver, keystone: FakeKeystone, server: Server, tmp_path: Path
) -> None:
    keystone.endpoint = None
    answer = Node(ruby, tmp_path / "a", **login(keystone)).asked()
    assert answer["text"] == "Keystone's catalog has no endpoint of type config; set url"
    assert Node(ruby, tmp_path / "b", fallback_url=server.url, **login(keystone)).data() == EXPECTED


OTHER = "http://127.0.0.1:9/second"
SEVERAL = "Keystone's catalog has several endpoints of type config: "


@pytest.mark.parametrize("version", ["v3", "v2.0"])
def test_several_endpoints_of_which_none_is_chosen_are_named(
    ruby: Driver, keystone: FakeKeystone, server: Server, tmp_path: Path, version: str
) -> None:
    """R7: several services, or several regions."""
    keystone.versions = (version,)
    keystone.more = [{"region": "RegionOne", "url": OTHER}]
    answer = Node(ruby, tmp_path / "services", **login(keystone)).asked()
    assert answer["error"] == "AwayError"
    assert answer["text"] == f"{SEVERAL}{server.url}, {OTHER}; set region or url"
    keystone.more = [{"region": "Far", "url": OTHER}]
    answer = Node(ruby, tmp_path / "regions", **login(keystone, region=None)).asked()
    assert answer["text"].startswith(SEVERAL)
    assert OTHER in answer["text"]
    assert Node(ruby, tmp_path / "chosen", **login(keystone)).data() == EXPECTED
    assert Node(ruby, tmp_path / "set", url=server.url, **login(keystone, region=None)).data() == EXPECTED


def test_one_address_named_twice_is_no_choice(node: Node, keystone: FakeKeystone, server: Server) -> None:
    keystone.more = [{"region": "RegionOne", "url": server.url}]
    assert node.data() == EXPECTED


def test_what_was_last_known_stands_in_for_a_choice(node: Node, keystone: FakeKeystone) -> None:
    node.data()
    keystone.good.clear()
    keystone.more = [{"region": "RegionOne", "url": OTHER}]
    node.new_run()
    answer = node.asked(ahead=4000)
    assert answer["ok"] == EXPECTED
    assert [line for line in answer["said"] if SEVERAL in line]


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "http://a:CANARY@b/", "http://h/?CANARY", "CANARY", "http://h\n/"]
)
def test_an_address_of_the_catalog_that_can_not_be_used(node: Node, keystone: FakeKeystone, url: str) -> None:
    keystone.endpoint = url
    answer = node.asked()
    assert (answer["error"], answer["text"]) == (
        "AwayError",
        "the address of ConfigDB in Keystone's catalog can't be used",
    )


JSON = [("Content-Type", "application/json")]


@pytest.mark.parametrize(
    ("status", "headers", "body", "reason"),
    [
        ("500 X", JSON, b"CANARY", "Keystone answers 500 to the login"),
        ("302 X", [("Location", "http://127.0.0.1:9/CANARY")], b"", "Keystone answers 302 to the login"),
        ("201 X", JSON, b"<CANARY>", "Keystone answers something else than JSON"),
        ("201 X", JSON, b"[]", "Keystone answers JSON that is no mapping"),
        ("201 X", JSON, b"{}", "Keystone answers the login with something else than a token"),
        ("201 X", JSON, b'{"token": {"expires_at": "2030-01-01T00:00:00Z"}}', "something else than a token"),
        ("201 X", [("X-Subject-Token", "t")], b'{"token": {"expires_at": "CANARY"}}', "a token without an end"),
        ("201 X", [("X-Subject-Token", "t")], b'{"token": 5}', "something else than a token"),
        ("201 X", [("X-Subject-Token", "")], b'{"token": {"expires_at": "2030-01-01"}}', "Keystone gave"),
        ("201 X", [("X-Subject-Token", "two words")], b'{"token": {"expires_at": "2030-01-01"}}', "gave no token"),
    ],
)
def test_a_keystone_that_answers_nonsense(
    node: Node, keystone: FakeKeystone, status: str, headers: list[tuple[str, str]], body: bytes, reason: str
) -> None:
    keystone.answers = [(status, headers, body)]
    answer = node.asked()
    assert answer["error"] == "AwayError"
    assert reason in answer["text"]
    assert "CANARY" not in json.dumps(answer)


def test_keystone_away_is_configdb_away(node: Node, keystone: FakeKeystone, server: Server) -> None:
    node.data()
    keystone.good.clear()
    keystone.answers = [("503 X", [], b"")] * 9
    answer = node.asked(ahead=400)
    assert answer["ok"] == EXPECTED
    assert answer["said"] == [
        "configdb: Keystone answers 503 to the login; what was last known of nodes/1 is used",
    ]


@pytest.mark.long
def test_a_real_keystone(ruby: Driver, real_keystone: peer.Keystone, tmp_path: Path) -> None:
    """A user who may read alone, by the catalog; tokens that last two seconds, of which ConfigDB asks Keystone."""
    real_keystone.add_user("hiera-reader", "CANARY-reader", "hiera-auditor")
    arguments = ["--auth", "keystone", "--read-role", "hiera-auditor", "--state", str(tmp_path / "state")]
    arguments += ["--settings", str(real_keystone.settings(tmp_path / "settings.yaml"))]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
    with serving(*arguments, environ=environ) as (url, _), real_keystone.forgetful(2) as short:
        headers = {"X-Auth-Token": real_keystone.token()}
        fill(url, headers)
        path = f"{url}/environments/5/cluster/a/nodes/1/resources/globals/values"
        requests.put(path, json={"debug": True}, headers=headers, timeout=60).raise_for_status()
        real_keystone.add_endpoint(url, "hiera")
        words = {"auth_url": short.url, "username": "hiera-reader", "password": "CANARY-reader", "project": "admin"}
        login = {**words, "region": "hiera"}
        file = settings(tmp_path / "n", auth="keystone", login=login, levels="cluster=a,nodes=1")
        asked = {"settings": str(file), "session": "real", "levels": ["globals"]}
        assert ruby.ok("data", **asked) == [told({"debug": True})]
        time.sleep(3)
        answer = ruby("data", ahead=400, **asked)
        assert (answer["ok"], answer["said"]) == ([told({"debug": True})], [])
