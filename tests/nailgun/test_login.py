"""Logging in to Nailgun through Keystone (U3, U5, U12), where a real Keystone isn't needed: by ``responses``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import responses

from configdb_sync.configdb.retry import RetryPolicy
from configdb_sync.errors import AccessError, UnavailableError
from configdb_sync.nailgun.connect import connect
from tests.configdb.support import surroundings
from tests.configdb.test_catalog import ENVIRON, KEYSTONE, Keystone
from tests.nailgun.conftest import make_small

NAILGUN = "https://master.example:8443"
POLICY = RetryPolicy(attempts=1)


@pytest.fixture
def peer() -> Iterator[responses.RequestsMock]:
    with responses.RequestsMock(assert_all_requests_are_fired=False) as mock:
        mock.get(f"{NAILGUN}/api/version", json={"release": "9.0", "auth_required": True})
        yield mock


def nodes(environ: dict[str, str]) -> int:
    with connect(NAILGUN, environ=environ, policy=POLICY, surroundings=surroundings()) as client:
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


def test_without_a_login_nailguns_refusal_says_what_to_set(peer: responses.RequestsMock) -> None:
    peer.get(f"{NAILGUN}/api/nodes", status=401, json={})
    with pytest.raises(AccessError, match="OS_AUTH_URL"):
        nodes({})


def test_keystone_behind_the_masters_web_server_has_its_certificate(
    peer: responses.RequestsMock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U12: OS_AUTH_URL on the same host as Nailgun is verified by the same file, unless OS_CACERT says otherwise."""
    from configdb_sync.configdb import catalog

    authority = tmp_path / "ca.pem"
    authority.touch()
    used: list[Path | None] = []

    def tokens_of(environ: object, *, default_ca: Path | None, limits: object) -> None:
        used.append(default_ca)

    monkeypatch.setattr(catalog, "tokens_of", tokens_of)
    for url in ("https://master.example:8443/keystone/v3", "https://elsewhere.example:5000/v3"):
        environ = ENVIRON | {"OS_AUTH_URL": url}
        with connect(NAILGUN, environ=environ, ca_file=authority) as client:
            client.version()
    assert used == [authority, None]
