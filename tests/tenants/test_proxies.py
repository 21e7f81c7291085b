"""The service behind the real nginx and the real HAProxy, with the settings that the documents give (T1, T10, T11)."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from configdb_sync.tenants.paths import ResourcePath
from configdb_sync.tenants.registry import Registry, open_registry
from configdb_sync.tenants.rows import ChangeInfo
from tests.peers import proxies
from tests.support.product import Product
from tests.tenants.support import Api, called, public_port, serving
from tests.tenants.test_targets import GOOD

NUMBERS = itertools.count(1)
LONG = ("\U0001f600" * 255, "\U0001f601" * 255)


class Behind:
    """A service with both endpoints, ``--behind-proxy``."""

    def __init__(self, admin: Api, public: int, state: Path) -> None:
        self.admin = admin
        self.public = public
        self.state = state
        self.registry = Registry(open_registry(f"sqlite:///{state / 'configdb-sync.sqlite'}"))


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Behind]:
    state = tmp_path_factory.mktemp("behind") / "state"
    arguments = ("--behind-proxy", "--public", "127.0.0.1:0", "--drivers", "none")
    with serving(state, *arguments) as (admin, process):
        found = Behind(admin, public_port(process), state)
        yield found
        found.registry.close()


@pytest.fixture(scope="module", params=proxies.KINDS)
def proxy(
    request: pytest.FixtureRequest, behind: Behind, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, proxies.Proxy]]:
    kind = str(request.param)
    reason = proxies.unavailable(kind)
    if reason:
        pytest.skip(reason)
    with proxies.running(kind, tmp_path_factory.mktemp(kind), behind.admin.port, behind.public) as found:
        yield kind, found


@pytest.fixture
def api(behind: Behind, proxy: tuple[str, proxies.Proxy]) -> Api:
    return Api(proxy[1].admin, behind.admin.token, tls=True, proxy=proxy[0])


@pytest.fixture
def registry(behind: Behind) -> Registry:
    return behind.registry


def later() -> ChangeInfo:
    return ChangeInfo("test", "here", "req-test", 10**15 + next(NUMBERS))


def test_check_says_that_all_is_well(proxy: tuple[str, proxies.Proxy]) -> None:
    for port in (proxy[1].admin, proxy[1].public):
        told = called("tenants", "check", f"https://127.0.0.1:{port}", "--state", "/nonexistent")
        assert (told.code, told.err) == (0, "")


_NORMALIZED = "global\n    expose-experimental-directives\ndefaults\n"
SPOILED: dict[str, dict[str, str]] = {
    "a path": {"http://tenants_admin;": "http://tenants_admin/;"},
    "compressed": {"gzip off;   ": "gzip on; gzip_types application/json; gzip_proxied any;"},
    "small buffers": {"4 16k": "4 4k"},
    "decoded": {"%[src]\n": "%[src]\n    http-request set-path %[path,url_dec]\n"},
    **{
        one: {"defaults\n": _NORMALIZED, "%[src]\n": f"%[src]\n    http-request normalize-uri {one}\n"}
        for one in ("path-merge-slashes", "path-strip-dotdot")
    },
}
"""Settings that look harmless."""


@pytest.mark.parametrize(
    ("kind", "spoiled", "what"),
    [
        ("nginx", "a path", "decodes it"),
        ("nginx", "compressed", "compresses"),
        ("nginx", "small buffers", "two long tenant IDs"),
        ("haproxy", "path-merge-slashes", "merges slashes"),
        ("haproxy", "path-strip-dotdot", "resolves dots"),
        ("haproxy", "decoded", "decodes it"),
    ],
)
def test_check_finds_a_wrong_setting(behind: Behind, tmp_path: Path, kind: str, spoiled: str, what: str) -> None:
    reason = proxies.unavailable(kind)
    if reason:
        pytest.skip(reason)
    with proxies.running(kind, tmp_path, behind.admin.port, behind.public, SPOILED[spoiled]) as found:
        told = called("tenants", "check", f"https://127.0.0.1:{found.admin}", "--state", "/nonexistent")
    assert (told.code, what in told.err) == (2, True), told.err
    assert "docs/tenants.md" in told.err


@pytest.mark.parametrize("tenant", GOOD, ids=lambda tenant: ascii(tenant)[:20])
def test_ids_arrive_as_they_are_sent(api: Api, registry: Registry, tenant: str) -> None:
    url = ResourcePath(tenant).url
    assert api.put(url).status in (201, 409)
    assert api.get(url).json["id"] == tenant
    assert registry.tenant(tenant).id == tenant


@pytest.mark.parametrize("raw", ["..", ".", "%2E%2e", "a;b", "a+b", "resel\\sub", "[x]", "a=b&c", "'\"<>^`{|}"])
def test_raw_targets_arrive_as_they_are_sent(api: Api, raw: str) -> None:
    meant = ".." if raw == "%2E%2e" else raw
    for target in (f"/v1.0/{raw}", f"/v1.0/{raw}?fields=id"):
        if api.put(f"/v1.0/{raw}").status != 400:
            assert api.get(target).json["id"] == meant
            continue
        assert (api.proxy, raw) == ("haproxy", "'\"<>^`{|}"), "refused by the proxy itself"


@pytest.mark.parametrize(
    "raw",
    [
        "a%2Fb",
        "a%2faction%2fmove",
        "%2F",
        "",
        "%ff",
        "%c0%af",
        "%ed%a0%80",
        "a" * 256,
        "%00",
        "%zz",
        "a#b",
        "/x",
        "\xe9",
    ],
)
def test_what_is_refused_touches_nothing(api: Api, registry: Registry, raw: str) -> None:
    assert api.put("/v1.0/a").status in (201, 409)
    for method in ("GET", "PUT", "DELETE", "POST"):
        answer = api(method, f"/v1.0/{raw}")
        assert answer.status == 400
        refused_in_front = raw in {"%00", "%zz", "a#b", "\xe9"}
        assert refused_in_front or set(answer.json["error"]) == {"code", "title", "message", "request_id"}
    assert registry.tenant("a").deleted is None


def test_two_long_ids_fit_in_one_request(api: Api, registry: Registry) -> None:
    env = next(NUMBERS)
    for tenant in LONG:
        assert api.put(ResourcePath(tenant).url).status in (201, 409)
    registry.own(later(), LONG[0], env, {"plugins/x": None})
    place = ResourcePath(LONG[0], env, "plugins/x")
    assert len(place.move_url(LONG[1])) > 6100
    shown = api.get(place.move_url(LONG[1]))
    assert (shown.status, shown.headers["cache-control"]) == (200, "no-store, no-transform")
    moved = api.post(place.move_url(LONG[1]), f"If-Match: {shown.etag}")
    assert (moved.status, moved.headers["location"]) == (303, place.under(LONG[1]).url)
    gone = api.get(place.url)
    assert (gone.status, gone.headers["location"]) == (301, place.under(LONG[1]).url)


def test_a_line_beyond_the_limit_is_414_or_400_and_a_header_431_or_400(api: Api) -> None:
    assert api.get(f"/v1.0/a?fields={'x' * 9000}").status in (400, 414)
    assert api.get("/v1.0/a", f"X-Long: {'x' * 9000}").status in (400, 431, 200)
    assert api.get("/v1.0/a", f"X-Long: {'x' * 40_000}").status in (400, 431)
    assert api.get("/v1.0/a", *(f"X-{number}: x" for number in range(90))).status in (400, 431)
    assert api.get("/healthz").status == 200


def test_heads_and_conditions(api: Api) -> None:
    url = ResourcePath(f"head {next(NUMBERS)}").url
    assert api.put(url, json={}).status == 201
    head, shown = api("HEAD", url), api.get(url, "Accept-Encoding: gzip")
    assert (head.status, head.body, head.etag) == (204, b"", shown.etag)
    assert "content-encoding" not in shown.headers
    assert (api("HEAD", "/v1.0/none").status, api("HEAD", "/v1.0/none").body) == (404, b"")
    assert api.get(url, f"If-None-Match: {shown.etag}").status == 304
    assert api.put(url, 'If-Match: "x"', json={}).status == 412
    assert api.put(url, f"If-Match: {shown.etag}", json={"metadata": {"a": "b"}}).status == 202
    for header in ("abc", '"abc" junk', '"', ""):
        assert api.put(url, f"If-Match: {header}", json={}).status == 400
    two = api.put(url, 'If-Match: "x"', f"If-Match: {api.get(url).etag}", json={"metadata": {}}).status
    assert two == {"nginx": 400, "haproxy": 202}[str(api.proxy)], "joined, or refused: never one of the two alone"


def test_refusals_have_their_bodies(api: Api) -> None:
    url = ResourcePath(f"refusals {next(NUMBERS)}").url
    for method, target, status in (
        ("GET", url, 404),
        ("PATCH", url, 405),
        ("POST", f"{url}/action/recover", 404),
        ("GET", "/nothing", 404),
        ("GET", "//healthz", 404),
    ):
        answer = api(method, target)
        assert (answer.status, answer.json["error"]["code"]) == (status, status)
        assert answer.json["error"]["request_id"] == answer.headers["x-openstack-request-id"]
    large = api.put(url, "Content-Type: application/json", body=b" " * (1024 * 1024 + 1))
    assert (large.status, large.json["error"]["code"]) == (413, 413)
    assert api.put(url, "Content-Type: application/json", body=b" " * (3 * 1024 * 1024)).status in (413, 400)
    assert api.get(url).status == 404


def test_bodies_with_expectations_and_in_chunks(api: Api) -> None:
    url = ResourcePath(f"body {next(NUMBERS)}").url
    lines = [f"PUT {url} HTTP/1.1", "Host: x", f"X-Auth-Token: {api.token}", "Connection: close"]
    body = b'{"metadata": {"a": "b"}}'
    head = [*lines, "Content-Type: application/json", f"Content-Length: {len(body)}", "Expect: 100-continue", "", ""]
    with api.connected() as connection:
        connection.sendall("\r\n".join(head).encode())
        answer = connection.recv(65536)
        assert answer == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(body)
        assert connection.recv(65536).startswith(b"HTTP/1.1 201 ")
    chunked = "\r\n".join([*lines, "Content-Type: application/json", "Transfer-Encoding: chunked", "", ""]).encode()
    changed = body.replace(b'"b"', b'"c"')
    assert api.raw(chunked + b"%x\r\n%s\r\n0\r\n\r\n" % (len(changed), changed)).status == 202
    assert api.get(url).json["metadata"] == {"a": "c"}
    cut = "\r\n".join([*lines, "Content-Type: application/json", "Content-Length: 500", "", ""]).encode() + body
    if not api.tls:
        assert api.raw(cut, shut=True).status == 400
    both = "\r\n".join([*lines, "Content-Length: 3", "Transfer-Encoding: chunked", "", ""]).encode()
    api.raw(both + b"0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    assert api.get(url).json["metadata"] == {"a": "c"}


def test_a_slow_client_stops_no_other(api: Api) -> None:
    """More half-sent requests than the service has threads: the proxy keeps them."""
    head = f"PUT /v1.0/slow HTTP/1.1\r\nHost: x\r\nX-Auth-Token: {api.token}\r\nContent-Length: 100\r\n\r\n{{"
    with ThreadPoolExecutor(1) as pool:
        slow = [api.connected() for _ in range(16)]
        try:
            for each in slow:
                each.__enter__().sendall(head.encode())
            answer = pool.submit(api.get, "/healthz").result(60)
            assert answer.status == 200
        finally:
            for each in slow:
                each.__exit__(None, None, None)


def test_the_endpoints_are_told_apart_and_clients_are_named(
    behind: Behind, api: Api, proxy: tuple[str, proxies.Proxy]
) -> None:
    """T12, T15: a client that claims an address of its own isn't believed."""
    tenant = f"known {next(NUMBERS)}"
    assert api.put(ResourcePath(tenant).url, "X-Forwarded-For: 6.6.6.6", "X-Forwarded-Port: 1").status == 201
    entry = api.get(f"{ResourcePath(tenant).url}/audit").json["entries"][0]
    assert entry["origin"] == "127.0.0.1"
    user = Api(proxy[1].public, Product(behind.state)("tenants", "token", tenant).out.strip(), tls=True)
    assert user.get(ResourcePath(tenant).url).status == 200
    assert user.get("/audit").status in (401, 404)
    assert user.put(ResourcePath(tenant).url, json={}).status == 405
    assert Api(proxy[1].public, api.token, tls=True).get(ResourcePath(tenant).url).status == 401


def test_forged_headers_pass_for_nothing(api: Api) -> None:
    for header in ("X-Identity-Status: Confirmed", "X_Auth_Token: " + api.token, "X-Roles: admin"):
        assert api.get("/v1.0", "X-Auth-Token: ", header).status == 401


@pytest.mark.parametrize("kind", proxies.KINDS)
def test_the_document_has_settings_of_each(kind: str) -> None:
    assert re.search(r"\b8083\b", proxies.settings(kind))
