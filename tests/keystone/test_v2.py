"""Keystone v2.0, as old masters have it (U5): today's has none, so it is answered for by ``responses``.

The answers are of the form that Keystone of Mitaka gave: versions behind 300 at the root, a token in the body, a
catalog by kinds of addresses.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import responses

from configdb_sync.configdb.connect import connect
from configdb_sync.errors import AccessError, MissingError, UnavailableError, UnexpectedAnswerError
from tests.configdb.support import timing

ROOT = "http://master.example:5000"
CONFIGDB = "http://configdb.example:8000/api/v1/config"
LOGIN = {"OS_USERNAME": "lcm", "OS_PASSWORD": "CANARY-pw", "OS_TENANT_NAME": "services", "OS_REGION_NAME": "RegionOne"}
V2 = {**LOGIN, "OS_AUTH_URL": f"{ROOT}/v2.0"}
BARE = {**LOGIN, "OS_AUTH_URL": ROOT}


def version(number: str) -> dict[str, Any]:
    return {"id": f"v{number}", "status": "stable", "links": [{"rel": "self", "href": f"{ROOT}/v{number}/"}]}


class OldKeystone:
    """Answers as Keystone did; ``life``: seconds that its tokens live; ``versions``: those that it offers."""

    def __init__(
        self, peer: responses.RequestsMock, *, life: float = 3600, versions: tuple[str, ...] = ("2.0",)
    ) -> None:
        self.life = life
        self.bodies: list[dict[str, Any]] = []
        self.services = [("config", "RegionOne", CONFIGDB), ("config", "RegionTwo", f"{CONFIGDB}/two")]
        offered = {"versions": {"values": [version(number) for number in versions]}}
        for root in (ROOT, f"{ROOT}/"):
            peer.get(root, json=offered, status=300)
        for number in versions:
            for url in (f"{ROOT}/v{number}", f"{ROOT}/v{number}/"):
                peer.get(url, json={"version": version(number)})
        peer.add_callback(responses.POST, f"{ROOT}/v2.0/tokens", self.issue)

    def issue(self, request: Any) -> tuple[int, dict[str, str], str]:
        self.bodies.append(json.loads(request.body))
        end = datetime.now(UTC) + timedelta(seconds=self.life)
        token = {
            "id": f"CANARY-{len(self.bodies)}",
            "issued_at": "2026-01-01T00:00:00.000000",
            "expires": end.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "tenant": {"id": "t", "name": "services", "enabled": True},
        }
        catalog: dict[str, Any] = {}
        for kind, region, url in self.services:
            entry = catalog.setdefault(
                kind, {"type": kind, "name": "tuning-box", "endpoints": [], "endpoints_links": []}
            )
            urls = {"publicURL": url, "internalURL": f"{url}/internal", "adminURL": f"{url}/admin"}
            entry["endpoints"].append({"region": region, "id": region, **urls})
        user = {"id": "u", "name": "lcm", "username": "lcm", "roles": [{"name": "admin"}], "roles_links": []}
        access = {"token": token, "serviceCatalog": list(catalog.values()), "user": user, "metadata": {}}
        return 200, {"Content-Type": "application/json"}, json.dumps({"access": access})


@pytest.fixture
def peer() -> Iterator[responses.RequestsMock]:
    with responses.RequestsMock(assert_all_requests_are_fired=False) as mock:
        yield mock


def taking(peer: responses.RequestsMock, *good: str) -> list[str]:
    """A ConfigDB that takes these tokens alone; the list is of those it was sent."""
    seen: list[str] = []

    def answer(request: Any) -> tuple[int, dict[str, str], str]:
        if "X-Auth-Token" not in request.headers:
            # A plain http address is asked without one first.
            return 401, {}, ""
        seen.append(request.headers["X-Auth-Token"])
        return (200 if not good or seen[-1] in good else 401), {}, "[]"

    peer.add_callback(responses.GET, f"{CONFIGDB}/components", answer, content_type="application/json")
    return seen


@pytest.mark.parametrize("environ", [V2, BARE, {**BARE, "OS_DEFAULT_DOMAIN_NAME": "Default"}])
def test_user_password_and_tenant_give_a_token_and_the_endpoint(
    peer: responses.RequestsMock, environ: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "configdb_sync")
    old = OldKeystone(peer)
    seen = taking(peer)
    with connect("catalog", environ=environ) as client:
        assert client.components() == []
        assert client.base == CONFIGDB
    credentials = {"username": "lcm", "password": "CANARY-pw"}
    assert old.bodies == [{"auth": {"passwordCredentials": credentials, "tenantName": "services"}}]
    assert seen == ["CANARY-1"]
    assert f"POST {ROOT}/v2.0/tokens: 200, " in caplog.text
    assert "CANARY" not in caplog.text


@pytest.mark.parametrize(
    ("more", "base"),
    [
        ({}, CONFIGDB),
        ({"OS_REGION_NAME": "RegionTwo"}, f"{CONFIGDB}/two"),
        ({"OS_INTERFACE": "internal"}, f"{CONFIGDB}/internal"),
        ({"OS_ENDPOINT_TYPE": "adminURL", "OS_REGION_NAME": "RegionTwo"}, f"{CONFIGDB}/two/admin"),
    ],
)
def test_region_and_interface_choose(peer: responses.RequestsMock, more: dict[str, str], base: str) -> None:
    OldKeystone(peer)
    with connect("catalog", environ=V2 | more) as client:
        assert client.base == base


def test_without_an_endpoint_it_is_on_nailgun(peer: responses.RequestsMock) -> None:
    old = OldKeystone(peer)
    old.services = [("compute", "RegionOne", "http://nova.example")]
    with pytest.raises(MissingError, match="no public endpoint of type config"):
        connect("catalog", environ=V2)
    there = "http://master.example:8000/api/v1/config"
    peer.get(f"{there}/components", json=[], headers={"Server-Product": "configdb-sync/1"})
    with connect("catalog", environ=V2, fallback=lambda: there) as client:
        assert client.base == there


def test_a_token_about_to_expire_is_renewed_before_it_is_sent(peer: responses.RequestsMock) -> None:
    old = OldKeystone(peer, life=10)
    seen = taking(peer)
    with connect("catalog", environ=V2) as client:
        for _ in range(2):
            assert client.components() == []
    assert seen == [f"CANARY-{number}" for number in range(len(old.bodies) - 1, len(old.bodies) + 1)]


def test_a_token_that_is_refused_is_renewed(peer: responses.RequestsMock) -> None:
    old = OldKeystone(peer)
    seen = taking(peer, "CANARY-2")
    with connect("catalog", environ=V2, timing=timing()) as client:
        assert client.components() == []
        assert client.components() == []
    assert seen == ["CANARY-1", "CANARY-2", "CANARY-2"]
    assert len(old.bodies) == 2


def test_where_both_are_v3_is_taken(peer: responses.RequestsMock) -> None:
    old = OldKeystone(peer, versions=("3", "2.0"))
    bodies: list[Any] = []

    def issue(request: Any) -> tuple[int, dict[str, str], str]:
        bodies.append(json.loads(request.body))
        return 401, {}, "{}"

    peer.add_callback(responses.POST, f"{ROOT}/v3/auth/tokens", issue)
    with pytest.raises(AccessError):
        connect("catalog", environ=BARE)
    assert old.bodies == []
    # A login that names no domain means the default one.
    assert bodies[0]["auth"]["identity"]["password"]["user"]["domain"] == {"id": "default"}
    assert bodies[0]["auth"]["scope"]["project"] == {"name": "services", "domain": {"id": "default"}}


def test_a_version_in_the_address_is_enough_where_none_are_told(peer: responses.RequestsMock) -> None:
    OldKeystone(peer, versions=())
    peer.get(f"{ROOT}/v2.0", status=404)
    with connect("catalog", environ=V2) as client:
        assert client.base == CONFIGDB


def test_domains_are_nothing_for_v2(peer: responses.RequestsMock) -> None:
    old = OldKeystone(peer)
    with pytest.raises(UnexpectedAnswerError, match=r"offers no version .*v2\.0 takes no OS_\*_DOMAIN") as caught:
        connect("catalog", environ={**BARE, "OS_USER_DOMAIN_NAME": "Default"})
    assert old.bodies == []
    assert "CANARY" not in str(caught.value)


@pytest.mark.parametrize(("status", "kind"), [(401, AccessError), (403, AccessError), (503, UnavailableError)])
def test_what_it_refuses(peer: responses.RequestsMock, status: int, kind: type[Exception]) -> None:
    OldKeystone(peer)
    peer.replace(responses.POST, f"{ROOT}/v2.0/tokens", status=status, json={"error": {"message": "CANARY-pw"}})
    with pytest.raises(kind, match=r"master\.example:5000/v2\.0") as caught:
        connect("catalog", environ=V2)
    assert "CANARY" not in f"{caught.value!r}{caught.value}"
