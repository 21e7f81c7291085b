"""The public endpoint (T12): reading alone, one's own tenant alone, and not a word of any other."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from configdb_sync.tenants.paths import ResourcePath
from configdb_sync.tenants.registry import Registry, open_registry
from configdb_sync.tenants.rows import ChangeInfo
from tests.support.product import Product
from tests.tenants.support import Api, public_port, serving

TIMES = itertools.count(10**15)


def change() -> ChangeInfo:
    return ChangeInfo("me", "here", "req", next(TIMES))


class Both:
    """Both endpoints of a service, and its registry: ``a`` owns a data source and had another that ``b`` has now."""

    def __init__(self, admin: Api, port: int, state: Path) -> None:
        self.admin = admin
        self.port = port
        self.state = state
        self.registry = Registry(open_registry(f"sqlite:///{state / 'configdb-sync.sqlite'}"))
        for tenant in ("a", "b"):
            self.registry.put(change(), tenant, None)
        self.registry.own(change(), "a", 1, {"kept": None, "gone": None})
        self.registry.move(change(), ResourcePath("a", 1, "gone"), "b")

    def user(self, tenant: str) -> Api:
        told = Product(self.state)("tenants", "token", tenant)
        return Api(self.port, told.out.strip())


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    state = tmp_path_factory.mktemp("public") / "state"
    with serving(state, "--public", "127.0.0.1:0", "--drivers", "none") as (admin, process):
        found = Both(admin, public_port(process), state)
        yield found
        found.registry.close()


def test_its_own_tenant_can_be_read(both: Both) -> None:
    user = both.user("a")
    for place in (ResourcePath("a"), ResourcePath("a", 1), ResourcePath("a", 1, "kept")):
        assert (user.get(place.url).status, user("HEAD", place.url).status) == (200, 204)
    assert [one["name"] for one in user.get("/v1.0/a/resources").json["resources"]] == ["kept"]


def test_no_other_is_told_of(both: Both) -> None:
    user = both.user("a")
    there, not_there = user.get("/v1.0/b"), user.get("/v1.0/never")
    assert (there.status, not_there.status) == (401, 401)
    assert {**there.json["error"], "request_id": ""} == {**not_there.json["error"], "request_id": ""}
    assert user.get(ResourcePath("a", 1, "gone").url).status == 404, "a redirect would name its new tenant"
    assert both.admin.get(ResourcePath("a", 1, "gone").url).status == 301


@pytest.mark.parametrize("target", ["/v1.0", "/audit", "/v1.0/a/audit", "/v1.0/a/action/move?dest=b", "/metrics"])
def test_what_spans_tenants_is_not_there(both: Both, target: str) -> None:
    assert both.user("a").get(target).status in (401, 404)
    assert both.admin.get(target).status in (200, 404)


@pytest.mark.parametrize("method", ["PUT", "DELETE", "POST", "PATCH"])
def test_nothing_can_be_changed(both: Both, method: str) -> None:
    user = both.user("a")
    for target in ("/v1.0/a", "/v1.0/a/environments/1"):
        answer = user(method, target)
        assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")
    for target in ("/v1.0/a/action/recover", "/v1.0/a/action/move?dest=b"):
        assert user(method, target).status == 404


def test_the_endpoints_take_each_their_own_token_alone(both: Both) -> None:
    user = both.user("a")
    assert Api(both.admin.port, user.token).get("/v1.0/a").status == 401
    assert Api(both.port, both.admin.token).get("/v1.0/a").status == 401
    for header in ("X-Identity-Status: Confirmed", "X-Roles: admin", "OpenStack-System-Scope: all"):
        assert both.admin.get("/v1.0/a", "X-Auth-Token: x", header, "X-Project-Id: a").status == 401


def test_a_marked_tenant_is_gone_for_its_user(both: Both) -> None:
    both.registry.put(change(), "m", None)
    user = both.user("m")
    both.registry.mark(change(), "m", 10**12)
    assert user.get("/v1.0/m").status == 410


def test_every_usage_record_has_the_tenant(tmp_path: Path) -> None:
    """T14: also of what was refused; a file for its owner alone."""
    log = tmp_path / "usage.jsonl"
    with serving(tmp_path / "state", "--drivers", "none", "--usage-log", str(log)) as (api, _):
        api.put("/v1.0/%2E%2E")
        api.get("/v1.0/a%20b")
        api.get("/v1.0/a%20b", "X-Auth-Token: wrong")
        api.post("/v1.0/a%20b/environments/7/action/move?dest=x")
        api.get("/v1.0/%2F")
    found = [json.loads(line) for line in log.read_text().splitlines()]
    asked = [one for one in found if one["kind"] is not None]
    assert [(one["tenant"], one["method"], one["status"]) for one in asked] == [
        ("..", "PUT", 201),
        ("a b", "GET", 404),
        ("a b", "GET", 401),
        ("a b", "POST", 404),
    ]
    assert asked[-1]["path"] == "environments/7"
    assert all(one["request_id"].startswith("req-") for one in found)
    assert log.stat().st_mode & 0o777 == 0o600
