"""Each row of T, walked over a real socket with raw request lines against the running service."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from configdb_sync.tenants.paths import ResourcePath
from configdb_sync.tenants.registry import Registry, open_registry
from configdb_sync.tenants.rows import ChangeInfo
from configdb_sync.tenants.status import Status
from configdb_sync.web.requests import encoded
from tests.peers import proxies
from tests.tenants.support import ME, Api, public_port, serving
from tests.tenants.test_targets import GOOD

NUMBERS = itertools.count(1)
RUN = "{http://service.openstack.com/actions}"


IN_FRONT = {("nginx", "a%00b"), ("nginx", "%zz"), ("haproxy", "a#b")}


@dataclass(frozen=True)
class Way:
    """How the service is reached, and what it keeps its registry in."""

    database: str
    proxy: str | None = None


WAYS = [
    pytest.param(Way("sqlite"), id="sqlite"),
    pytest.param(Way("postgresql"), id="postgresql"),
    pytest.param(Way("sqlite", "nginx"), id="sqlite-nginx", marks=pytest.mark.long),
    pytest.param(Way("postgresql", "haproxy"), id="postgresql-haproxy", marks=pytest.mark.long),
]


@pytest.fixture(scope="module", params=WAYS)
def way(request: pytest.FixtureRequest) -> Way:
    found: Way = request.param
    reason = None if found.proxy is None else proxies.unavailable(found.proxy)
    if reason:
        pytest.skip(reason)
    return found


@pytest.fixture(scope="module")
def state(way: Way, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("contract") / "state"


@pytest.fixture(scope="module")
def registry_url(way: Way, state: Path, request: pytest.FixtureRequest) -> str:
    if way.database == "sqlite":
        return f"sqlite:///{state / 'configdb-sync.sqlite'}"
    cluster = request.getfixturevalue("cluster")
    return str(cluster.create(f"contract_{way.proxy or 'direct'}"))


@pytest.fixture(scope="module")
def api(way: Way, state: Path, registry_url: str) -> Iterator[Api]:
    arguments = ["--listed", "4", "--drivers", "none", "--database", registry_url]
    if way.proxy is None:
        with serving(state, *arguments) as (found, _):
            yield found
        return
    arguments += ["--behind-proxy", "--public", "127.0.0.1:0"]
    with (
        serving(state, *arguments) as (found, process),
        proxies.running(way.proxy, state.parent / "proxy", found.port, public_port(process)) as front,
    ):
        yield Api(front.admin, found.token, tls=True, proxy=way.proxy)


@pytest.fixture(scope="module")
def registry(registry_url: str, api: Api) -> Iterator[Registry]:
    found = Registry(open_registry(registry_url))
    yield found
    found.close()


@pytest.fixture
def env() -> int:
    return next(NUMBERS)


@pytest.fixture
def a(api: Api) -> str:
    """A tenant."""
    return made(api, f"a {next(NUMBERS)}")


@pytest.fixture
def b(api: Api) -> str:
    """Another."""
    return made(api, f"b:{next(NUMBERS)}\U0001f600")


def made(api: Api, tenant: str) -> str:
    assert api.put(ResourcePath(tenant).url).status == 201
    return tenant


def later() -> ChangeInfo:
    return ChangeInfo("test", "here", "req-test", 10**15 + next(NUMBERS))


def entries(api: Api, tenant: str) -> list[str]:
    return [entry["action"] for entry in api.get(f"{ResourcePath(tenant).url}/audit").json["entries"]]


class TestIds:
    """T1, cases T01, T06, T08, T09."""

    @pytest.mark.parametrize("tenant", GOOD, ids=lambda tenant: ascii(tenant)[:20])
    def test_each_works_from_end_to_end(self, api: Api, registry: Registry, tenant: str) -> None:
        url = ResourcePath(tenant).url
        first = api.put(url)
        assert first.status in (201, 409)
        assert api.get(url).json["id"] == tenant
        assert registry.tenant(tenant).id == tenant
        assert api("HEAD", url).headers["x-tenant-id"] == encoded(tenant)
        assert api.delete(url).status == 204
        assert [api.get(url).status, api.post(f"{url}/action/recover").status, api.get(url).status] == [410, 204, 200]

    @pytest.mark.parametrize("raw", ["..", ".", "%2E%2e", "a+b", "a;b", "resel\\sub\\acct", "Bob's%20Tenant"])
    def test_the_raw_target_counts(self, api: Api, raw: str) -> None:
        meant = {"%2E%2e": "..", "Bob's%20Tenant": "Bob's Tenant"}.get(raw, raw)
        assert api.put(f"/v1.0/{raw}").status in (201, 409)
        assert api.get(f"/v1.0/{raw}").json["id"] == meant
        if api.proxy != "haproxy":  # it takes none with another authority than Host
            assert api.get(f"http://elsewhere:1/v1.0/{raw}").json["id"] == meant

    @pytest.mark.parametrize(
        "raw",
        ["a%2Fb", "a%2faction%2fmove", "%2F", "", "a%00b", "%ff", "%zz", "%c0%af", "%ed%a0%80", "a" * 256, "a#b"],
    )
    def test_what_is_refused_touches_nothing(self, api: Api, raw: str) -> None:
        api.put("/v1.0/a")
        for method in ("GET", "PUT", "DELETE", "POST"):
            answer = api(method, f"/v1.0/{raw}")
            assert answer.status == 400
            # Some of it a proxy refuses by itself; the documents say what.
            assert (api.proxy, raw) in IN_FRONT or answer.json["error"]["code"] == 400
        assert api.get("/v1.0/a").status == 200

    def test_nothing_is_normalised(self, api: Api) -> None:
        for raw in ("caf%C3%A9", "cafe%CC%81", "%e2%84%ab", "A%CC%8A", "x", "X", "x%20"):
            assert api.put(f"/v1.0/{raw}").status in (201, 409)
        listed = [one["id"] for one in api.get("/v1.0?limit=1000").json["tenants"]]
        assert {"caf\u00e9", "cafe\u0301", "\u212b", "A\u030a", "x", "X", "x "} <= set(listed)
        assert listed == sorted(listed)

    def test_two_long_ids_fit_in_one_request(self, api: Api, registry: Registry, env: int) -> None:
        one, two = "\U0001f600" * 255, "\U0001f601" * 255
        for tenant in (one, two):
            assert api.put(ResourcePath(tenant).url).status in (201, 409)
        registry.own(later(), one, env, {"astute": None})
        place = ResourcePath(one, env, "astute")
        assert api.post(place.move_url(two)).status == 303
        assert api.get(place.url).headers["location"] == place.under(two).url

    def test_a_source_that_would_be_a_move_is_refused(self, api: Api, a: str) -> None:
        url = f"{ResourcePath(a).url}/environments/1/resources"
        assert api.get(f"{url}/action/move").status == 400
        assert api.get(f"{url}/x/action/move/action/move?dest=b").status == 400


class TestShow:
    """T2, T3."""

    def test_get_and_head_have_the_same_metadata(self, api: Api, registry: Registry, a: str, env: int) -> None:
        registry.own(later(), a, env, {"astute": None, "plugins/x": None})
        for place in (ResourcePath(a), ResourcePath(a, env), ResourcePath(a, env, "plugins/x")):
            shown, head = api.get(place.url), api("HEAD", place.url)
            assert (shown.status, head.status, head.body) == (200, 204, b"")
            own = {"date", "connection", "server", "x-openstack-request-id", "content-length", "content-type"}
            assert {key: value for key, value in shown.headers.items() if key not in own} == {
                key: value for key, value in head.headers.items() if key not in own
            }
            assert shown.etag.startswith('"')
            assert api.get(place.url, f"If-None-Match: {shown.etag}").status == 304
            assert api.get(place.url, 'If-None-Match: "other"').status == 200

    def test_the_representation(self, api: Api, registry: Registry, a: str, env: int) -> None:
        for number in (env * 1000 + 1, env * 1000 + 2, env * 1000 + 3):
            registry.own(later(), a, number, {"astute": None})
        first = api.get(f"{ResourcePath(a).url}?limit=2").json
        assert {"id", "metadata", "status", "status_details", "created_at", "updated_at"} <= set(first)
        assert [one["environment"] for one in first["resources"]] == [env * 1000 + 1, env * 1000 + 2]
        rest = api.get(first["resources_next"]).json
        assert [one["environment"] for one in rest["resources"]] == [env * 1000 + 3]
        assert rest["resources_next"] is None

    def test_the_etag_follows_what_is_shown(self, api: Api, registry: Registry, a: str, env: int) -> None:
        seen = [api.get(ResourcePath(a).url).etag]
        registry.own(later(), a, env, {"astute": None})
        seen.append(api.get(ResourcePath(a).url).etag)
        registry.tell(later(), env, {"astute": (Status.BUILD, None)})
        seen.append(api.get(ResourcePath(a).url).etag)
        api.put(ResourcePath(a).url, json={"metadata": {"tier": "1"}})
        seen.append(api.get(ResourcePath(a).url).etag)
        assert len(set(seen)) == 4
        assert api.get(f"{ResourcePath(a).url}?fields=id,status").json == {"id": a, "status": "BUILD"}

    def test_unknown_and_marked(self, api: Api, a: str) -> None:
        assert [api(method, "/v1.0/nobody").status for method in ("GET", "HEAD", "DELETE")] == [404] * 3
        api.delete(ResourcePath(a).url)
        assert [api(method, ResourcePath(a).url).status for method in ("GET", "HEAD", "DELETE")] == [410] * 3


class TestPut:
    """T4, T5, S4."""

    def test_made_then_modified_then_the_same(self, api: Api) -> None:
        url, body = ResourcePath(f"put {next(NUMBERS)}").url, {"metadata": {"tier": "gold"}}
        assert [api.put(url, json=body).status for _ in range(3)] == [201, 202, 202]
        tag = api.get(url).etag
        assert api.put(url, json=body).etag == tag
        assert api.put(url).status == 409
        assert api.put(url, json={"metadata": {"tier": "tin"}}).status == 202
        assert api.get(url).json["metadata"] == {"tier": "tin"}
        assert entries(api, f"put {next(NUMBERS) - 1}") == ["modify", "create"]

    def test_the_representation_goes_back_as_it_came(self, api: Api, registry: Registry, a: str, env: int) -> None:
        registry.own(later(), a, env, {"astute": None})
        registry.tell(later(), env, {"astute": (Status.ERROR, "broken")})
        shown = api.get(ResourcePath(a).url)
        assert api.put(ResourcePath(a).url, json=shown.json).status == 202
        assert api.get(ResourcePath(a).url).body == shown.body
        changed = {**shown.json, "metadata": {"x": "y"}}
        assert api.put(ResourcePath(a).url, f"If-Match: {shown.etag}", json=changed).status == 202
        assert api.put(ResourcePath(a).url, f"If-Match: {shown.etag}", json=changed).status == 412

    @pytest.mark.parametrize("field", [{"status": "ACTIVE"}, {"status_details": "fine"}])
    def test_status_is_read_only(self, api: Api, a: str, field: dict[str, str]) -> None:
        assert api.put(ResourcePath(a).url, json=field).status == 400
        assert api.put("/v1.0/never", json=field).status == 400
        assert api.get("/v1.0/never").status == 404
        assert api.put(ResourcePath(a).url, json={"status": None, "status_details": None}).status == 202

    @pytest.mark.parametrize(
        "body",
        [
            [],
            "x",
            {"id": "other"},
            {"what": 1},
            {"metadata": {"a": 1}},
            {"metadata": {"a": "\u0000"}},
            {"metadata": {"": "x"}},
            {"metadata": {"k" * 256: "x"}},
            {"metadata": {str(number): "" for number in range(65)}},
        ],
        ids=repr,
    )
    def test_bodies_that_are_no_representation(self, api: Api, a: str, body: object) -> None:
        assert api.put(ResourcePath(a).url, json=body).status == 400
        assert api.get(ResourcePath(a).url).json["metadata"] == {}

    def test_bodies_that_are_cut_or_strange(self, api: Api, a: str) -> None:
        url, token = ResourcePath(a).url, f"X-Auth-Token: {api.token}"
        kind = "Content-Type: application/json"
        assert api.put(url, "Content-Type: text/plain", body=b"{}").status == 415
        assert api.put(url, kind, "Content-Encoding: gzip", body=b"{}").status == 415
        for body in (b"{", b"\xff", b'{"a":NaN}', b'{"a":1e999}', b'{"metadata":{},"metadata":{}}', b"[" * 100_000):
            assert api.put(url, kind, body=body).status == 400
        assert api.put(url, kind, body=b" " * (1024 * 1024 + 1)).status == 413
        lines = [f"PUT {url} HTTP/1.1", "Host: x", "Connection: close", token, kind, "Content-Length: 50", "", "{}"]
        if api.proxy is None:  # a proxy waits for the rest of the body, and passes nothing on
            assert api.raw("\r\n".join(lines).encode(), shut=True).status == 400
        assert api.get(url).json["metadata"] == {}

    def test_conditions(self, api: Api) -> None:
        url = ResourcePath(f"condition {next(NUMBERS)}").url
        assert api.put(url, "If-Match: *").status == 412
        assert api.put(url, 'If-Match: "x"').status == 412
        assert api.put(url, "If-None-Match: *", json={}).status == 201
        assert api.put(url, "If-None-Match: *", json={}).status == 412
        tag = api.get(url).etag
        assert api.put(url, f"If-Match: W/{tag}", json={"metadata": {"a": "b"}}).status == 412
        assert api.put(url, f'If-Match: "x", {tag}', json={"metadata": {"a": "b"}}).status == 202
        for header in ("abc", '"abc" junk', '"', "", '*, "a"'):
            assert api.put(url, f"If-Match: {header}", json={}).status == 400
        assert api.get(url).json["metadata"] == {"a": "b"}

    def test_marked_and_not_updatable(self, api: Api, registry: Registry, a: str) -> None:
        api.delete(ResourcePath(a).url)
        assert api.put(ResourcePath(a).url, json={}).status == 409
        fixed = f"fixed {next(NUMBERS)}"
        registry.put(later(), fixed, None, updatable=False)
        assert api.get(ResourcePath(fixed).url).json["updatable"] is False
        assert api.put(ResourcePath(fixed).url, json={"metadata": {"a": "b"}}).status == 409

    @pytest.mark.parametrize("different", [False, True])
    def test_twenty_at_once_give_one_201(self, api: Api, different: bool) -> None:
        tenant = f"at once {next(NUMBERS)}"

        def put(number: int) -> int:
            body = {"metadata": {"who": str(number if different else 0)}}
            return api.put(ResourcePath(tenant).url, json=body).status

        with ThreadPoolExecutor(20) as pool:
            found = sorted(pool.map(put, range(20)))
        assert found == [201] + [202] * 19
        assert int(api.get(ResourcePath(tenant).url).json["metadata"]["who"]) in range(20)
        assert entries(api, tenant).count("create") == 1


class TestDeleteAndRecover:
    """T5, T6."""

    def test_everything_is_as_before(self, api: Api, registry: Registry, a: str, b: str, env: int) -> None:
        registry.settle_home(later(), env, a)
        registry.own(later(), a, env, {"astute": None, "globals": None})
        registry.tell(later(), env, {"astute": (Status.ERROR, "no")})
        assert api.post(ResourcePath(a, env, "globals").move_url(b)).status == 303
        places = [
            ResourcePath(a),
            ResourcePath(a, env),
            ResourcePath(a, env, "astute"),
            ResourcePath(a, env, "globals"),
        ]
        before = [(one.status, one.headers.get("etag"), one.body) for one in map(api.get, (p.url for p in places))]
        assert api.post(f"{ResourcePath(a).url}/action/recover").status == 409
        assert api.delete(ResourcePath(a).url).status == 204
        assert [api.get(place.url).status for place in places] == [410] * 4
        assert api.post(ResourcePath(b, env, "globals").move_url(a)).status == 410
        assert api.post(f"{ResourcePath(a).url}/action/recover").status == 204
        after = [(one.status, one.headers.get("etag"), one.body) for one in map(api.get, (p.url for p in places))]
        for old, new in zip(before[:3], after[:3], strict=True):
            assert old == new
        assert (after[3][0], before[3][0]) == (301, 301)
        assert api.post("/v1.0/nobody/action/recover").status == 404

    def test_purged(self, api: Api, registry: Registry, a: str, env: int) -> None:
        registry.own(later(), a, env, {"astute": 5})
        api.delete(ResourcePath(a).url)
        listed = api.get("/v1.0?recoverable=true&limit=1000").json["tenants"]
        assert [one["id"] for one in listed if one["id"] == a] == [a]
        assert all(one["recoverable_until"] for one in listed)
        assert registry.purge(ChangeInfo("test", "here", "req", 10**17), a)
        assert api.get(ResourcePath(a).url).status == 404
        assert api.post(f"{ResourcePath(a).url}/action/recover").status == 404
        assert entries(api, a)[0] == "purge"
        again = api.put(ResourcePath(a).url)
        assert (again.status, again.json["resources"]) == (201, [])

    def test_conditions(self, api: Api, a: str) -> None:
        assert api.delete(ResourcePath(a).url, 'If-Match: "x"').status == 412
        assert api.delete(ResourcePath(a).url, "If-Match: x").status == 400
        assert api.delete(ResourcePath(a).url, f"If-Match: {api.get(ResourcePath(a).url).etag}").status == 204


class TestMove:
    """T7, T8, T9."""

    def test_one_there_and_back(self, api: Api, registry: Registry, a: str, b: str, env: int) -> None:
        registry.own(later(), a, env, {"plugins/x": None, "q": None})
        here, there = ResourcePath(a, env, "plugins/x"), ResourcePath(b, env, "plugins/x")
        moved = api.post(here.move_url(b), "Content-Type: application/xml")
        assert (moved.status, moved.headers["location"]) == (303, there.url)
        again = api.post(here.move_url(b))
        assert (again.status, again.headers["location"]) == (301, there.move_url(b))
        old = api.get(here.url)
        assert (old.status, old.headers["location"]) == (301, there.url)
        assert api.get(there.url).status == 200
        assert api.post(there.move_url(a)).status == 303
        assert [api.get(here.url).status, api.get(there.url).status] == [200, 301]
        assert entries(api, a)[:2] == ["arrive", "move"]

    def test_an_environment_and_all(self, api: Api, registry: Registry, a: str, b: str, env: int) -> None:
        registry.settle_home(later(), env, a)
        registry.own(later(), a, env, {"q": None, "r": None})
        place = ResourcePath(a, env)
        moved = api.post(place.move_url(b))
        assert (moved.status, moved.headers["location"]) == (303, place.under(b).url)
        assert api.get(place.url).headers["location"] == place.under(b).url
        home = registry.home(env)
        assert home is not None
        assert home.id == b
        back = api.post(ResourcePath(b).move_url(a))
        assert (back.status, back.headers["location"]) == (303, ResourcePath(a).url)
        assert api.get(ResourcePath(b).url).json["resources"] == []
        assert [one["environment"] for one in api.get(ResourcePath(a).url).json["resources"]] == [env]

    def test_build_keeps_all_where_it_is(self, api: Api, registry: Registry, a: str, b: str, env: int) -> None:
        registry.own(later(), a, env, {"q": None, "r": None})
        registry.tell(later(), env, {"q": (Status.BUILD, None)})
        for place, status in ((ResourcePath(a), 409), (ResourcePath(a, env), 409), (ResourcePath(a, env, "q"), 409)):
            assert api.post(place.move_url(b)).status == status
        assert api.get(ResourcePath(a).url).json["resource_count"] == 2
        assert api.post(ResourcePath(a, env, "r").move_url(b)).status == 303

    def test_404_and_410(self, api: Api, registry: Registry, a: str, b: str, env: int) -> None:
        registry.own(later(), a, env, {"q": None})
        assert api.post(ResourcePath("nobody").move_url(b)).status == 404
        assert api.post(ResourcePath(a, env, "none").move_url(b)).status == 404
        assert api.post(ResourcePath(a, env + 10**6).move_url(b)).status == 404
        assert api.post(ResourcePath(a, env, "q").move_url("nobody")).status == 404
        api.delete(ResourcePath(b).url)
        for method in ("GET", "POST"):
            assert api(method, ResourcePath(a, env, "q").move_url(b)).status == 410
            assert api(method, ResourcePath(b).move_url(a)).status == 410

    @pytest.mark.parametrize(
        "query",
        ["", "?", "?dest", "?dest=", "?dest=a&dest=b", "?dest=%2F", "?dest=a/b", "?dest=%00", "?dest=%zz", "?x=1"],
    )
    @pytest.mark.parametrize("method", ["GET", "POST"])
    def test_dest_must_be_one_other_tenant(self, api: Api, method: str, query: str, a: str) -> None:
        assert api(method, f"{ResourcePath(a).url}/action/move{query}").status == 400
        assert api(method, ResourcePath(a).move_url(a)).status == 400
        assert api(method, f"{ResourcePath(a).url}/action/move?dest={'x' * 256}").status == 400

    def test_a_malformed_condition_is_told_even_where_there_is_a_redirect(
        self, api: Api, registry: Registry, a: str, b: str, env: int
    ) -> None:
        registry.own(later(), a, env, {"q": None})
        place = ResourcePath(a, env, "q")
        assert api.post(place.move_url(b)).status == 303
        for method, url in (("GET", place.url), ("HEAD", place.url), ("GET", place.move_url(b))):
            assert api(method, url).status == 301
            assert api(method, url, "If-Match: x").status == 400

    def test_a_data_source_that_configdb_has_not_yet(self, api: Api, registry: Registry, a: str, env: int) -> None:
        registry.own(later(), a, env, {"q": None})
        for method in ("GET", "HEAD", "PUT"):
            body = b"{}" if method == "PUT" else None
            assert api(method, f"{ResourcePath(a, env, 'q').url}?level=nodes=1", body=body).status == 404

    def test_a_plus_is_a_plus(self, api: Api, a: str) -> None:
        made(api, "p+q")
        assert api.post(f"{ResourcePath(a).url}/action/move?dest=p+q").headers["location"] == "/v1.0/p%2Bq"

    def test_a_move_has_no_body(self, api: Api, a: str, b: str) -> None:
        assert api.post(ResourcePath(a).move_url(b), body=b"x").status == 400


class TestAtOnce:
    """T5, T6, T7, T11: several at once over sockets; one wins, and everything is whole."""

    def test_a_move_against_a_delete(self, api: Api, registry: Registry, a: str, b: str, env: int) -> None:
        names = [f"s{number}" for number in range(5)]
        registry.own(later(), a, env, dict.fromkeys(names))
        place = ResourcePath(a, env)
        with ThreadPoolExecutor(2) as pool:
            moved = pool.submit(lambda: api.post(place.move_url(b)).status)
            deleted = pool.submit(lambda: api.delete(ResourcePath(a).url).status)
            assert (moved.result() in {303, 410}, deleted.result()) == (True, 204)
        assert api.post(f"{ResourcePath(a).url}/action/recover").status == 204
        owner = b if moved.result() == 303 else a
        found = [one["name"] for one in api.get(f"{ResourcePath(owner, env).url}/resources").json["resources"]]
        assert found == names
        counts = {tenant: api.get(ResourcePath(tenant).url).json["resource_count"] for tenant in (a, b)}
        assert counts == {a: 0, b: 0} | {owner: 5}

    def test_a_purge_against_a_recover(self, api: Api, registry: Registry, a: str, env: int) -> None:
        registry.own(later(), a, env, {"q": 1})
        assert api.delete(ResourcePath(a).url).status == 204
        with ThreadPoolExecutor(2) as pool:
            purged = pool.submit(lambda: registry.purge(ChangeInfo("test", "here", "req", 10**17), a))
            recovered = pool.submit(lambda: api.post(f"{ResourcePath(a).url}/action/recover").status)
            assert (purged.result(), recovered.result()) in {(True, 404), (False, 204)}
        assert api.get(ResourcePath(a, env, "q").url).status == (404 if purged.result() else 200)

    def test_a_recover_against_a_delete_and_puts(self, api: Api, registry: Registry, a: str) -> None:
        def call(number: int) -> int:
            match number % 3:
                case 0:
                    return api.delete(ResourcePath(a).url).status
                case 1:
                    return api.post(f"{ResourcePath(a).url}/action/recover").status
            return api.put(ResourcePath(a).url, json={"metadata": {"n": str(number)}}).status

        with ThreadPoolExecutor(12) as pool:
            found = list(pool.map(call, range(36)))
        assert set(found) <= {202, 204, 409, 410}
        told = entries(api, a)
        assert told.count("delete") == found[0::3].count(204)
        assert told.count("recover") == found[1::3].count(204)
        assert abs(told.count("delete") - told.count("recover")) <= 1
        assert api.get(ResourcePath(a).url).status == (200 if told.count("delete") == told.count("recover") else 410)


class TestMoveAction:
    """T10, T11."""

    def test_json_and_xml(self, api: Api, registry: Registry, a: str, b: str, env: int) -> None:
        registry.own(later(), a, env, {"plugins/x": None, "q": None})
        registry.tell(later(), env, {"q": (Status.ERROR, "not to be seen")})
        url = ResourcePath(a, env).move_url(b)
        shown, xml = api.get(url), api.get(url, "Accept: application/xml")
        assert (shown.status, xml.status) == (200, 200)
        assert xml.headers["content-type"] == "application/xml; charset=UTF-8"
        assert shown.headers["cache-control"] == xml.headers["cache-control"] == "no-store, no-transform"
        assert b"not to be seen" not in shown.body + xml.body
        move = shown.json["move"]
        assert (move["dest"], [one["id"] for one in move["tenants"]]) == (b, [a, b])
        root = ET.fromstring(xml.body)
        assert (root.tag, root.get("dest")) == (f"{RUN}move", b)
        assert [one.get("id") for one in root.findall(f"{RUN}tenants/{RUN}tenant")] == [a, b]
        found = [(one.get("id"), one.get("status")) for one in root.findall(f"{RUN}resources/{RUN}resource")]
        assert found == [(one["id"], one["status"]) for one in move["resources"]]
        assert found[1:] == [
            (f"environments/{env}/resources/plugins/x", None),
            (f"environments/{env}/resources/q", "ERROR"),
        ]
        assert shown.etag != xml.etag
        assert api.get(url, f"If-None-Match: {shown.etag}").status == 304

    @pytest.mark.parametrize("accept", ["", "Accept: application/xml"])
    def test_a_conditional_move(self, api: Api, registry: Registry, a: str, b: str, env: int, accept: str) -> None:
        registry.own(later(), a, env, {"q": None})
        url = ResourcePath(a, env, "q").move_url(b)
        asked = [accept] if accept else []
        tag = api.get(url, *asked).etag
        registry.tell(later(), env, {"q": (Status.ACTIVE, None)})
        assert api.post(url, f"If-Match: {tag}").status == 412
        tag = api.get(url, *asked).etag
        registry.tell(later(), env, {"q": (Status.ACTIVE, "only words")})
        assert api.get(url, *asked).etag == tag
        for header in ("abc", '"abc" junk', '"', "", "w/" + tag):
            assert api.post(url, f"If-Match: {header}").status == 400
        for header in (f"W/{tag}", tag.upper().replace("W/", "") if tag != tag.upper() else '"x"'):
            assert api.post(url, f"If-Match: {header}").status == 412
        both = ['If-Match: "x"', f"If-Match: {tag}"]
        if api.proxy == "nginx":  # it takes no header twice
            assert api.post(url, *both).status == 400
            both = [f'If-Match: "x", {tag}']
        assert api.post(url, *both).status == 303

    @pytest.mark.parametrize(
        ("accept", "kind"),
        [
            ("application/xml", "xml"),
            ("text/xml", "xml"),
            ("application/json", "json"),
            ("*/*", "json"),
            ("application/*", "json"),
            ("text/html", "json"),
            ("application/json;q=0.5, application/xml", "xml"),
            ("application/xml;q=0.5, application/json", "json"),
            ("application/xml;q=0, */*", "json"),
            ("application/xml;q=x", "json"),
            ("application/xml; charset=utf-8, */*;q=0.1", "xml"),
            (",,;q=1,", "json"),
        ],
    )
    def test_accept_chooses_the_format(self, api: Api, a: str, b: str, accept: str, kind: str) -> None:
        answer = api.get(ResourcePath(a).move_url(b), f"Accept: {accept}")
        assert (answer.status, answer.headers["content-type"].startswith(f"application/{kind}")) == (200, True)
        assert answer.headers["vary"] == "Accept"

    def test_any_tag_is_a_condition_too(self, api: Api, registry: Registry, a: str, b: str, env: int) -> None:
        """T11: ``*`` and If-None-Match (RFC 9110, 13.1)."""
        registry.own(later(), a, env, {"q": None})
        place = ResourcePath(a, env, "q")
        assert api.post(place.move_url("nobody"), "If-Match: *").status == 404
        assert api.post(place.move_url(b), "If-None-Match: *").status == 412
        assert api.post(place.move_url(b), 'If-Match: *, "x"').status == 400
        assert api.get(place.url).status == 200
        assert api.post(place.move_url(b), "If-Match: *").status == 303

    def test_any_change_of_the_parties_changes_the_tag(self, api: Api, registry: Registry, env: int) -> None:
        one, two = made(api, f"one {env}"), made(api, f"two {env}")
        registry.own(later(), one, env, {f"s{number}": None for number in range(9)})
        for url in (ResourcePath(one).move_url(two), ResourcePath(one, env).move_url(two)):
            shown = api.get(url)
            listed = shown.json["move"]["resources"]
            assert listed["size"] == 9
            api.put(ResourcePath(two).url, json={"metadata": {"n": str(next(NUMBERS))}})
            changed = api.get(url)
            assert changed.etag != shown.etag
            assert changed.json["move"]["resources"]["tag"] == listed["tag"]
            registry.tell(later(), env, {"s4": (Status.ERROR if listed["error"] == 0 else Status.ACTIVE, None)})
            told = api.get(url)
            assert told.json["move"]["resources"]["tag"] != listed["tag"]
            assert told.etag != changed.etag
            tagged = ET.fromstring(api.get(url, "Accept: application/xml").body).find(f"{RUN}resources")
            assert tagged is not None
            assert tagged.get("size") == "9"
            assert api.post(url, f"If-Match: {changed.etag}").status == 412

    def test_of_two_racing_conditional_moves_one_wins(self, api: Api, registry: Registry, a: str, env: int) -> None:
        rivals = [made(api, f"rival {next(NUMBERS)}") for _ in range(6)]
        registry.own(later(), a, env, {"q": None})
        place = ResourcePath(a, env, "q")
        tags = {rival: api.get(place.move_url(rival)).etag for rival in rivals}

        def move(rival: str) -> int:
            return api.post(place.move_url(rival), f"If-Match: {tags[rival]}").status

        with ThreadPoolExecutor(6) as pool:
            found = sorted(pool.map(move, rivals))
        assert found == [301] * 5 + [303]

    def test_ids_that_xml_cannot_hold(self, api: Api, a: str) -> None:
        odd = made(api, f"\x01{next(NUMBERS)}\ufffe")
        root = ET.fromstring(api.get(ResourcePath(a).move_url(odd), "Accept: application/xml").body)
        assert (root.get("dest"), root.get("dest-encoding")) == (encoded(odd), "percent")

    def test_by_the_way_of_xml_tabs_and_line_ends_stay(self, api: Api, a: str) -> None:
        odd = made(api, f"\t\r\n<&>\"'{next(NUMBERS)}")
        root = ET.fromstring(api.get(ResourcePath(a).move_url(odd), "Accept: application/xml").body)
        assert root.get("dest") == odd


class TestAccessAndLists:
    """T12, T15, and the shape of errors."""

    @pytest.mark.parametrize("target", ["/v1.0", "/v1.0/x", "/audit", "/v1.0/x/action/move?dest=y", "/nothing"])
    def test_without_the_token_nothing_is_told(self, api: Api, target: str) -> None:
        for token in ("", "wrong", api.token + "x", api.token[:-1], "\u00e9"):
            answer = api.get(target, f"X-Auth-Token: {token}")
            assert answer.status in (401, 404)
            assert answer.status == 401 or target == "/nothing"

    def test_errors_have_one_shape(self, api: Api) -> None:
        for method, target in (("GET", "/v1.0/%2F"), ("GET", "/v1.0/none"), ("PATCH", "/v1.0/x"), ("GET", "/x")):
            answer = api(method, target)
            error = answer.json["error"]
            assert set(error) == {"code", "title", "message", "request_id"}
            assert error["code"] == answer.status
            assert error["request_id"] == answer.headers["x-openstack-request-id"]
        assert api("PATCH", "/v1.0/x").headers["allow"] == "DELETE, GET, HEAD, PUT"

    @pytest.mark.parametrize(
        ("request_head", "status"),
        [
            ("GET /v1.0/x?fields={long} HTTP/1.1\r\nHost: x\r\n", 414),
            ("GET /v1.0/x HTTP/1.1\r\nHost: x\r\nX-Long: {long}\r\n", 431),
            ("GET /v1.0/x HTTP/1.1\r\nHost: x\r\n{many}", 431),
            ("GET /v1.0/x y HTTP/1.1\r\nHost: x\r\n", 400),
            ("GET /v1.0/\xe9 HTTP/1.1\r\nHost: x\r\n", 400),
            ("GET /v1.0/x HTTP/1.1\r\nHost : x\r\n", 400),
            ("GET /v1.0/x HTTP/1.1\r\nHost: x\r\nX-A: b\r\n folded\r\n", 400),
            ("PUT /v1.0/x HTTP/1.1\r\nHost: x\r\nContent-Length: 3x\r\n", 400),
            ("PUT /v1.0/x HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n", 400),
            ("PUT /v1.0/x HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n", 400),
            ("PUT /v1.0/x HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n", 400),
            ("nonsense\r\n", 400),
        ],
        ids=lambda value: ascii(value)[:50],
    )
    def test_what_the_server_itself_refuses_has_the_shape(self, api: Api, request_head: str, status: int) -> None:
        """Limits on the request line and the headers; requests that are no HTTP."""
        many = "".join(f"X-{number}: x\r\n" for number in range(90))
        end = b"\r\n" if api.proxy is None else b"Connection: close\r\n\r\n"  # A proxy may take the request.
        answer = api.raw(request_head.format(long="x" * 9000, many=many).encode("latin-1") + end)
        if api.proxy is not None:
            assert answer.status in {400, 404, 405, 408, 414, 431, 401, 502}
            return
        assert (answer.status, answer.json["error"]["code"]) == (status, status)
        assert answer.json["error"]["request_id"] == answer.headers["x-openstack-request-id"]
        assert answer.headers["content-type"] == "application/json"

    def test_pages_by_marker(self, api: Api, registry: Registry, a: str, b: str, env: int) -> None:
        registry.own(later(), a, env, {f"s/{number}": None for number in range(5)})
        for base in (f"{ResourcePath(a).url}/resources", f"{ResourcePath(a, env).url}/resources"):
            found, target = [], f"{base}?limit=2"
            while target:
                page = api.get(target).json
                found += [one["name"] for one in page["resources"]]
                target = page["resources_next"]
            assert found == [f"s/{number}" for number in range(5)]
        first = api.get("/v1.0?limit=1").json
        assert api.get(first["tenants_next"]).json["tenants"][0]["id"] > first["tenants"][0]["id"]
        assert [api.get(f"/v1.0?{query}").status for query in ("limit=0", "limit=x", "offset=3")] == [400] * 3

    def test_every_change_leaves_an_entry(self, api: Api, registry: Registry, a: str, b: str, env: int) -> None:
        """T15: and what is refused or changes nothing leaves none."""
        registry.settle_home(later(), env, a)
        registry.own(later(), a, env, {"q": None, "r": None})
        url = ResourcePath(a).url
        assert api.put(url, json={"metadata": {"k": "v"}}).status == 202
        assert api.put(url, json={"metadata": {"k": "v"}}).status == 202
        assert api.put(url).status == 409
        assert api.post(ResourcePath(a, env, "q").move_url(b)).status == 303
        assert api.post(ResourcePath(a, env, "q").move_url(b)).status == 301
        assert api.post(ResourcePath(a, env).move_url(b)).status == 303
        assert api.post(ResourcePath(b).move_url(a), 'If-Match: "x"').status == 412
        assert api.post(ResourcePath(b).move_url(a)).status == 303
        assert api.delete(url).status == 204
        assert api.delete(url).status == 410
        assert api.post(f"{url}/action/recover").status == 204
        told = api.get(f"{url}/audit").json["entries"][::-1]
        assert [(one["action"], one["path"]) for one in told] == [
            ("create", ""),
            ("home", f"environments/{env}"),
            ("own", f"environments/{env}"),
            ("modify", ""),
            ("move", f"environments/{env}/resources/q"),
            ("move", f"environments/{env}"),
            ("arrive", ""),
            ("delete", ""),
            ("recover", ""),
        ]
        assert told[3]["details"] == {"before": {}, "after": {"k": "v"}}
        assert told[4]["details"] == {"from": a, "to": b, "data_sources": 1}
        by_hand = {"create", "modify", "move", "arrive", "delete", "recover"}
        assert {(one["actor"], one["origin"]) for one in told if one["action"] in by_hand} == {("token", "127.0.0.1")}
        assert len({one["request_id"] for one in told if one["action"] in by_hand}) == 7

    def test_the_audit_trail(self, api: Api, a: str) -> None:
        entry = api.get(f"{ResourcePath(a).url}/audit?limit=1").json["entries"][0]
        assert (entry["action"], entry["actor"], entry["origin"]) == ("create", "token", "127.0.0.1")
        assert entry["request_id"].startswith("req-")
        assert api.get("/audit?limit=1").json["entries_next"]


def test_it_is_the_same_on_a_server_without_raw_targets() -> None:
    """Case T02: such a server is refused with 500, and nothing is touched."""
    from configdb_sync.clock import SystemClock
    from configdb_sync.tenants.app import TenantsApplication
    from configdb_sync.tenants.policy import Policy
    from configdb_sync.tenants.requests import Context
    from configdb_sync.web.access import OpenAccess

    seen: list[str] = []
    application = TenantsApplication(Context(None), OpenAccess(), SystemClock(), Policy(SystemClock()))  # type: ignore[arg-type]
    environ = {"REQUEST_METHOD": "DELETE", "PATH_INFO": "/v1.0/a/b"}
    body = b"".join(application(environ, lambda status, _headers: seen.append(status)))  # type: ignore[arg-type]
    assert seen == ["500 Internal Server Error"]
    assert b"raw request target" in body
    assert ME.actor == "test"
