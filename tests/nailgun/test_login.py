"""Logging in to Nailgun through Keystone (U3, U5, U12), where a real Keystone isn't needed: by ``responses``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import responses

from configdb_sync.errors import AccessError, SettingsError, UnavailableError, UnexpectedAnswerError
from configdb_sync.exits import Exit, exit_of
from configdb_sync.http.session import RetryPolicy
from configdb_sync.http.tokens import FixedToken
from configdb_sync.nailgun.connect import connect
from tests.configdb.support import timing
from tests.keystone.test_catalog import ENVIRON, KEYSTONE, Keystone
from tests.nailgun.conftest import make_small
from tests.peers import keystone as peer_keystone
from tests.support.nailgun import Nailgun

NAILGUN = "https://master.example:8443"
POLICY = RetryPolicy(attempts=1)


@pytest.fixture
def peer() -> Iterator[responses.RequestsMock]:
    with responses.RequestsMock(assert_all_requests_are_fired=False) as mock:
        mock.add_callback(responses.GET, f"{NAILGUN}/api/version", version, content_type="application/json")
        yield mock


def version(request: object) -> tuple[int, dict[str, str], str]:
    known = "X-Auth-Token" in request.headers  # type: ignore[attr-defined]
    return (200, {}, '{"release": "9.0", "auth_required": true}') if known else (401, {}, "Authentication required")


def nodes(environ: dict[str, str]) -> int:
    with connect(NAILGUN, environ=environ, policy=POLICY, timing=timing()) as client:
        return len(client.nodes(5))


def test_keystones_token_is_used_and_a_revoked_one_renewed(peer: responses.RequestsMock) -> None:
    keystone = Keystone(peer)
    tokens: list[str] = []

    def answer(request: object) -> tuple[int, dict[str, str], str]:
        tokens.append(request.headers.get("X-Auth-Token"))  # type: ignore[attr-defined]
        good = tokens[-1] == "CANARY-2"
        return (200, {}, listed) if good else (401, {}, "{}")

    listed = json.dumps(make_small().nodes)
    peer.add_callback(responses.GET, f"{NAILGUN}/api/nodes", answer, content_type="application/json")
    assert nodes(ENVIRON) == 3
    assert tokens == ["CANARY-1", "CANARY-2"]
    assert keystone.issued == 2


def test_a_login_that_keystone_refuses_is_told_as_keystones(peer: responses.RequestsMock) -> None:
    peer.get(KEYSTONE, json={})
    peer.post(f"{KEYSTONE}/auth/tokens", status=401, json={})
    with pytest.raises(AccessError, match=r"^Keystone .* refused the login") as caught:
        nodes(ENVIRON)
    assert "CANARY" not in str(caught.value)


def test_a_keystone_that_is_away_is_told_as_keystones(peer: responses.RequestsMock) -> None:
    peer.get(KEYSTONE, status=503)
    peer.post(f"{KEYSTONE}/auth/tokens", status=503)
    with pytest.raises(UnavailableError, match=r"^Keystone"):
        nodes(ENVIRON)


def test_keystone_behind_the_masters_web_server_has_its_certificate(
    peer: responses.RequestsMock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U12: OS_AUTH_URL on the same host as Nailgun is verified by the same file, unless OS_CACERT says otherwise."""
    from configdb_sync.keystone import login

    authority = tmp_path / "ca.pem"
    authority.touch()
    used: list[tuple[Path | None, bool]] = []

    def read_login(environ: object, *, default_ca: Path | None, any_name: bool, limits: object) -> FixedToken:
        used.append((default_ca, any_name))
        return FixedToken("CANARY")

    monkeypatch.setattr(login, "read_login", read_login)
    for url in ("https://master.example:8443/keystone/v3", "https://elsewhere.example:5000/v3"):
        environ = ENVIRON | {"OS_AUTH_URL": url}
        with connect(NAILGUN, environ=environ, ca_file=authority) as client:
            client.version()
        with connect(NAILGUN, environ=environ, own_certificate=authority) as client:
            client.version()
    assert used == [(authority, False), (authority, True), (None, False), (None, False)]


PATHS = ("/keystone", "/keystone/", "/keystone/v3", "/keystone/v3/", "/keystone/v2.0")


@pytest.mark.parametrize("path", [*PATHS, None])
def test_keystone_is_asked_where_it_was_said_to_be(nailgun: Nailgun, path: str | None) -> None:
    """U5: v3 and v2.0, on all releases; without an address it is beside Nailgun. It says itself to be elsewhere."""
    environ = {**nailgun.login, "OS_AUTH_URL": f"{nailgun.url}{path}"}
    if path is None:
        del environ["OS_AUTH_URL"]
    with connect(nailgun.url, environ=environ, policy=POLICY, timing=timing()) as client:
        assert client.version().auth_required
        assert client.nodes(nailgun.env)
        client.cluster(nailgun.env)
    tokens = "/v2.0/tokens" if path and "v2.0" in path else "/v3/auth/tokens"
    assert [asked for asked, _ in nailgun.keystone.logins] == [tokens], "one login for all"
    assert [token is None for _, token in nailgun.seen] == [True, False, False, False]


def test_an_old_master_has_v2_alone(nailgun: Nailgun) -> None:
    nailgun.keystone.versions = ("v2.0",)
    environ = {**nailgun.login, "OS_AUTH_URL": f"{nailgun.url}/keystone"}
    with connect(nailgun.url, environ=environ, policy=POLICY, timing=timing()) as client:
        assert client.nodes(nailgun.env)
    assert [asked for asked, _ in nailgun.keystone.logins] == ["/v2.0/tokens"]


WRONG = {
    "user": ({"OS_USERNAME": "nobody"}, r"refused the login of user nobody: the user or the password is wrong"),
    "password": ({"OS_PASSWORD": "CANARY-x"}, r"login of user admin: the user or the password is wrong.*doesn't tell"),
    "project": ({"OS_PROJECT_NAME": "none"}, r"login of user admin to project none: user and password are right"),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("version", ["v3", "v2.0"])
def test_a_refused_login_says_what_is_wrong_with_it(small: Nailgun, wrong: str, version: str) -> None:
    """As far as Keystone tells: it knows a user without a project if the project alone is wrong."""
    changed, said = WRONG[wrong]
    environ = {**small.login, "OS_AUTH_URL": f"{small.url}/keystone/{version}", **changed}
    with (
        connect(small.url, environ=environ, policy=POLICY, timing=timing()) as client,
        pytest.raises(AccessError, match=said) as caught,
    ):
        client.nodes(5)
    assert "CANARY" not in str(caught.value)
    assert [token for _, token in small.seen] == [None]


@pytest.mark.parametrize("wrong", WRONG)
def test_a_real_keystone_refuses_the_same(small: Nailgun, keystone: peer_keystone.Keystone, wrong: str) -> None:
    changed, said = WRONG[wrong]
    small.takes = keystone.valid
    with (
        connect(small.url, environ=keystone.environ | changed, policy=POLICY, timing=timing()) as client,
        pytest.raises(AccessError, match=said),
    ):
        client.nodes(5)


@pytest.mark.parametrize("path", ["", "/", "/v3", "/api/v3", "/keystone/v3/auth", "/api/version/v3"])
def test_an_address_where_another_one_answers_is_no_keystone(small: Nailgun, path: str) -> None:
    environ = {**small.login, "OS_AUTH_URL": small.url + path}
    with (
        connect(small.url, environ=environ, policy=POLICY, timing=timing()) as client,
        pytest.raises(UnexpectedAnswerError, match=r"is no Keystone: .*is OS_AUTH_URL right") as caught,
    ):
        client.nodes(5)
    assert exit_of(caught.value) is Exit.CONFIGDB
    assert "CANARY" not in str(caught.value)


@pytest.mark.parametrize(
    "body", ["[]", '"x"', "7", "null", "{}", '{"versions": 1}', '{"version": 1}', '{"versions": [1]}']
)
def test_json_of_another_one_is_no_keystone_either(peer: responses.RequestsMock, body: str) -> None:
    for address in (KEYSTONE, f"{KEYSTONE}/"):
        peer.get(address, body=body, content_type="application/json")
    peer.post(f"{KEYSTONE}/auth/tokens", body=body, content_type="application/json")
    with pytest.raises(UnexpectedAnswerError, match="Keystone"):
        nodes(ENVIRON)


def test_a_login_without_a_password_says_what_it_lacks(small: Nailgun) -> None:
    environ = {name: value for name, value in small.login.items() if name != "OS_PASSWORD"}
    with connect(small.url, environ=environ) as client, pytest.raises(SettingsError, match="lacks password"):
        client.nodes(5)
