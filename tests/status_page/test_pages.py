"""The pages over real sockets: signing in and out, who sees which, and that nothing in them is anything but text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlencode

import pytest
import sqlalchemy as sa

from configdb_sync.state import StateFolder
from configdb_sync.status_page.html import policy
from configdb_sync.store.tenant_schema import ENDED_SESSIONS
from configdb_sync.tenants.paths import ResourcePath
from configdb_sync.tenants.registry import open_registry
from configdb_sync.web.requests import encoded
from tests.status_page.conftest import HOSTILE, SCRIPT, SOURCE, TENANT, Shown
from tests.tenants.support import Api, Reply, public_port, serving

FORM = "Content-Type: application/x-www-form-urlencoded"
NOBODY = "X-Other: 1"
MINE = f"/status/tenants/{encoded(TENANT)}"
GLOBALS = "/status/tenants/admin/environments/1/resources/globals?level=nodes=2"
PAGES = [
    "/status",
    "/status/",
    "/status/environments/1",
    "/status/environments/1?node=2&status=ACTIVE",
    "/status/environments/1/runs",
    "/status/tenants/admin",
    "/status/tenants/admin/environments/1",
    GLOBALS,
    f"{GLOBALS}&show=history",
    f"{GLOBALS}&show=history&kind=values",
    f"{MINE}/environments/1",
]


def bare(api: Api) -> Api:
    """The same endpoint, without the token going along."""

    class Bare(Api):
        def __call__(
            self, method: str, target: str, *headers: str, body: bytes | None = None, json: object = ...
        ) -> Reply:
            del json
            lines = [f"{method} {target} HTTP/1.1", "Host: test", "Connection: close", *headers]
            lines += [] if body is None else [f"Content-Length: {len(body)}"]
            return self.raw("\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b""))

    return Bare(api.port, "")


def sign_in(api: Api, *headers: str, **fields: str) -> Reply:
    return bare(api)("POST", "/status/sign-in", FORM, *headers, body=urlencode(fields).encode())


def cookie_of(reply: Reply) -> str:
    return f"Cookie: {reply.headers['set-cookie'].partition(';')[0]}"


class _Text(HTMLParser):
    """The texts of a page, and what in it could do anything."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.tags: list[str] = []
        self.active: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            address = name in {"href", "src", "action"} and not re.match(r"[/?#]|data:image/svg", value or "")
            if name.startswith("on") or name == "style" or address:
                self.active.append(f"{tag} {name}={value}")

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def read(reply: Reply) -> _Text:
    found = _Text()
    found.feed(reply.body.decode())
    return found


@pytest.mark.parametrize("target", PAGES)
def test_every_page_is_text_with_the_headers_that_keep_it_so(shown: Shown, target: str) -> None:
    reply = shown.admin.get(target)
    assert reply.status == 200, reply.body
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    assert reply.headers["content-security-policy"] == policy()
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["cache-control"] == "no-store"
    assert reply.headers["referrer-policy"] == "same-origin"
    found = read(reply)
    assert found.active == []
    assert (found.tags.count("script"), found.tags.count("style"), found.tags.count("img")) == (1, 1, 0)
    assert found.tags.count("h1") == 1
    text = reply.body.decode()
    assert "CANARY" not in text
    assert len(text) < 400_000, "a value of a megabyte is cut"
    assert all(character.isprintable() or character == "\n" for character in text)
    head = shown.admin("HEAD", target)
    assert (head.status, head.body) == (200, b"")


def test_hostile_values_names_and_comments_are_seen_as_they_are(shown: Shown) -> None:
    texts = "\n".join(read(shown.admin.get(GLOBALS)).texts)
    assert SCRIPT.replace("'", "'") in texts
    assert "&lt;b&gt;&amp;nbsp;" in texts
    assert "{{ 7 * 7 }}" in texts
    assert "\\u202eabc\\u202c\\u200f" in texts
    assert "a\\u0001b\\u001b[31m" in texts
    assert "(1,000,002 characters)" in texts
    assert SCRIPT in "\n".join(read(shown.admin.get(f"{GLOBALS}&show=history")).texts)
    matrix = "\n".join(read(shown.admin.get("/status/environments/1")).texts)
    assert "<i>x&y" in matrix
    assert "<b>T'\\u202e&amp;<img src=x>" in "\n".join(read(shown.admin.get("/status")).texts)
    assert HOSTILE["entity"] in texts


@pytest.mark.parametrize("target", PAGES)
def test_without_a_session_one_is_led_to_sign_in_and_back(shown: Shown, target: str) -> None:
    reply = bare(shown.admin).get(target)
    assert reply.status == 303
    form = bare(shown.admin).get(reply.headers["location"])
    assert form.status == 200
    following = re.search(r'name="next" value="([^"]*)"', form.body.decode())
    assert following is not None
    wanted = following[1].replace("&amp;", "&").replace("&#39;", "'")
    back = sign_in(shown.admin, token=shown.admin.token, next=wanted)
    assert back.status == 303
    assert bare(shown.admin).get(back.headers["location"], cookie_of(back)).status == 200


def test_the_cookie_is_for_looking_at_pages_and_for_nothing_else(shown: Shown) -> None:
    reply = sign_in(shown.admin, token=shown.admin.token)
    assert (reply.status, reply.headers["location"]) == (303, "/status")
    flags = reply.headers["set-cookie"].split("; ")[1:]
    assert flags == ["HttpOnly", "SameSite=Strict", "Path=/status"]
    assert shown.admin.token not in reply.headers["set-cookie"]
    api, cookie = bare(shown.admin), cookie_of(reply)
    assert api.get("/status", cookie).status == 200
    for method, target in [("GET", "/v1.0"), ("GET", "/environments"), ("PUT", "/v1.0/x"), ("DELETE", "/v1.0/admin")]:
        assert api(method, target, cookie).status == 401
    for method in ("POST", "PUT", "DELETE"):
        assert api(method, "/status", cookie).status == 405
        assert api(method, "/status/environments/1", cookie).status == 405
    assert bare(shown.public).get(MINE, cookie).status == 303


@pytest.mark.parametrize("cookie", ["", "x", "a.b.c", ".1.", "..", "configdb-sync-admin=", "%00", '"', "\xe9"])
def test_any_other_cookie_is_nobodys(shown: Shown, cookie: str) -> None:
    for name in ("configdb-sync-admin", "configdb-sync-tenant"):
        assert bare(shown.admin).get("/status", f"Cookie: {name}={cookie}").status == 303


@pytest.mark.parametrize("other", ["a[]=1", "x=b\xe4r", "[", '"', "=;=", "y", "configdb-sync-adminx=1"])
def test_other_services_cookies_stand_in_nobodys_way(shown: Shown, other: str) -> None:
    mine = cookie_of(sign_in(shown.admin, token=shown.admin.token))
    assert bare(shown.admin).get("/status", mine.replace("Cookie: ", f"Cookie: {other}; ")).status == 200
    assert bare(shown.admin).get("/status", f"{mine}; {other}").status == 200


def test_no_escape_in_a_cookie_is_undone(shown: Shown) -> None:
    name, _, value = cookie_of(sign_in(shown.admin, token=shown.admin.token)).partition("=")
    assert bare(shown.admin).get("/status", f'{name}="{value}"').status == 303
    assert bare(shown.admin).get("/status", rf'{name}="\012{value}"').status == 303


def test_signing_out_takes_the_cookie_away(shown: Shown) -> None:
    api = bare(shown.admin)
    reply = api.post("/status/sign-out")
    assert (reply.status, reply.headers["location"]) == (303, "/status/sign-in")
    assert "Max-Age=0" in reply.headers["set-cookie"]
    assert api.get("/status/sign-out").status == 405


@pytest.mark.parametrize("whose", ["operator", "tenant"])
def test_signing_out_ends_the_session_for_whoever_has_the_cookie(shown: Shown, whose: str) -> None:
    """In every worker: each asks on a connection of its own."""
    if whose == "operator":
        api, page, fields = shown.admin, "/status", {"token": shown.admin.token}
    else:
        api, page = shown.public, MINE
        fields = {"token": shown.tenant_token(TENANT), "tenant": TENANT}
    stolen, other = (cookie_of(sign_in(api, **fields)) for _ in range(2))
    assert {bare(api).get(page, stolen).status for _ in range(8)} == {200}
    assert bare(api).post("/status/sign-out", stolen).status == 303
    assert {bare(api).get(page, stolen).status for _ in range(8)} == {303}
    assert bare(api).get(page, other).status == 200, "another session of the same user goes on"
    assert bare(api).post("/status/sign-out", stolen).status == 303


def test_what_is_no_session_is_remembered_nowhere(shown: Shown) -> None:
    """Anyone could fill the database with such."""
    with closing(open_registry(StateFolder(shown.state).database_url)) as database:

        def ended() -> int:
            count = sa.select(sa.func.count()).select_from(ENDED_SESSIONS)
            return int(database.read(lambda connection: connection.execute(count).scalar_one()))

        before = ended()
        for cookie in ("x", "a.1.b.c", f".{10**11}.{'0' * 16}.{'0' * 64}"):
            assert bare(shown.admin).post("/status/sign-out", f"Cookie: configdb-sync-admin={cookie}").status == 303
        assert ended() == before


@pytest.mark.parametrize(
    "header",
    [
        "Origin: https://evil.example",
        "Origin: null",
        "Origin: http://[",
        "Sec-Fetch-Site: cross-site",
        "Sec-Fetch-Site: same-site",
    ],
)
def test_no_other_site_signs_anyone_in_or_out(shown: Shown, header: str) -> None:
    assert sign_in(shown.admin, header, token=shown.admin.token).status == 403
    assert bare(shown.admin).post("/status/sign-out", header).status == 403
    assert sign_in(shown.admin, "Origin: http://test", token=shown.admin.token).status == 303


@pytest.mark.parametrize(
    "following", ["//evil.example/", "https://evil.example/status", "/v1.0", "/status/sign-out", "x"]
)
def test_signing_in_leads_to_no_other_place(shown: Shown, following: str) -> None:
    assert sign_in(shown.admin, token=shown.admin.token, next=following).headers["location"] == "/status"


def test_a_body_that_is_no_form(shown: Shown) -> None:
    api = bare(shown.admin)
    assert api("POST", "/status/sign-in", body=b"token=x").status == 415
    assert api("POST", "/status/sign-in", FORM, body=b"token").status == 400
    assert api("POST", "/status/sign-in", FORM, body=b"\xff").status == 400
    assert api("POST", "/status/sign-in", FORM, body=b"token=" + b"x" * 20_000).status == 413
    assert api("POST", "/status/sign-in", FORM, body=b"&".join([b"a=1"] * 30)).status == 400


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/status/environments/99", 404),
        ("/status/tenants/never", 404),
        ("/status/nothing", 404),
        ("/status/environments/1?x=1", 400),
        ("/status/environments/1?status=%3Cscript%3E", 400),
        (f"{GLOBALS}&level=nodes=3", 400),
        ("/status/tenants/admin/environments/1/resources/globals?level=%3Cscript%3E", 400),
    ],
)
def test_what_isnt_there_is_a_page_too(shown: Shown, target: str, status: int) -> None:
    reply = shown.admin.get(target)
    assert reply.status == status
    assert reply.headers["content-security-policy"] == policy()
    assert read(reply).active == []


def test_a_data_source_that_was_moved_is_found_where_it_is(shown: Shown) -> None:
    reply = shown.admin.get("/status/tenants/admin/environments/1/resources/plugins/%3Ci%3Ex%26y?level=nodes=1")
    assert reply.status == 301
    there = (
        f"/status{ResourcePath(TENANT, 1, SOURCE).url.removeprefix('/v1.0').replace('/', '/tenants/', 1)}?level=nodes=1"
    )
    assert reply.headers["location"] == there
    assert shown.admin.get(there).status == 200


def test_an_operator_sees_all_tenants_and_the_audit_trail(shown: Shown) -> None:
    listed = shown.admin.get("/status/tenants").body.decode()
    assert f'href="{MINE}"' in listed
    assert '<a href="/status/tenants/admin">' in listed
    assert "No deleted tenant" in shown.admin.get("/status/tenants?recoverable=true").body.decode()
    assert shown.product("tenants", "create", "gone").code == 0
    assert shown.product("tenants", "delete", "gone").code == 0
    told = shown.admin.get("/status/tenants?recoverable=true").body.decode()
    assert ("<bdi>gone</bdi>" in told, "Recoverable until" in told, "tenants/admin" in told) == (True, True, False)
    trail = shown.admin.get("/status/audit?limit=1").body.decode()
    assert "<bdi>gone</bdi>" in trail
    following = re.search(r'<a href="(/status/audit\?[^"]+)">Older', trail)
    assert following is not None
    assert "<bdi>gone</bdi>" in shown.admin.get(following[1].replace("&amp;", "&")).body.decode()
    assert shown.admin.get("/status/audit?x=1").status == 400
    assert shown.admin.get("/status/tenants?recoverable=x").status == 400
    assert bare(shown.admin).get("/status/audit").status == 303


def test_a_tenants_user_sees_its_own_pages_alone(shown: Shown) -> None:
    token = shown.tenant_token(TENANT)
    reply = sign_in(shown.public, tenant=TENANT, token=token)
    assert (reply.status, reply.headers["location"]) == (303, MINE)
    api, cookie = bare(shown.public), cookie_of(reply)
    for target in (MINE, f"{MINE}/environments/1", f"{MINE}/environments/1/runs"):
        page = api.get(target, cookie)
        assert page.status == 200
        assert "admin" not in page.body.decode().replace("system-ui", "")
    across = ("/status/tenants", "/status/audit", "/status/environments/1/lookup?node=1&key=debug")
    for target in ("/status", "/status/environments/1", "/status/tenants/admin", GLOBALS, *across):
        assert api.get(target, cookie).status in {303, 404}
    assert bare(shown.admin).get("/status", cookie).status == 303
    assert sign_in(shown.public, tenant="admin", token=token).status == 401


def test_wrong_tries_are_refused_then_slowed_down(tmp_path: Path) -> None:
    with serving(tmp_path / "state", "--drivers", "none", "--workers", "1") as (api, _):
        wrong = [sign_in(api, token="wrong") for _ in range(12)]
        assert [reply.status for reply in wrong] == [401] * 10 + [429] * 2
        assert int(wrong[-1].headers["retry-after"]) > 0
        assert 'role="alert"' in wrong[0].body.decode()
        assert "set-cookie" not in wrong[0].headers
        assert sign_in(api, token=api.token).status == 429
        assert api.get("/status").status == 200, "the API's own way isn't slowed down"


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Api, Api]]:
    state = tmp_path_factory.mktemp("closed") / "state"
    more = ("--public", "127.0.0.1:0", "--auth", "none", "--drivers", "none")
    with serving(state, *more) as (admin, process):
        yield admin, Api(public_port(process), "")


def test_the_public_endpoint_has_pages_only_if_it_is_told_to(closed: tuple[Api, Api]) -> None:
    for target in ("/status", "/status/sign-in", "/status/tenants/a"):
        reply = closed[1].get(target)
        assert (reply.status, reply.headers["content-type"]) == (404, "application/json")
    assert closed[1].get("/v1.0/a/environments/1/matrix").status in {401, 404}


def test_without_sign_in_pages_are_for_this_machines_own_names(closed: tuple[Api, Api]) -> None:
    api = bare(closed[0])
    page = b"GET /status HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n"
    for host in (b"127.0.0.1:8083", b"localhost", b"[::1]:80"):
        assert api.raw(page % host).status == 200
    for host in (b"evil.example", b"127.0.0.1.evil.example", b"localhost@evil", b"10.0.0.1", b""):
        assert api.raw(page % host).status == 403
    assert api.raw(page.replace(b"/status", b"/status/sign-in") % b"localhost").status == 404


def test_behind_tls_the_cookie_is_for_tls_alone(tmp_path: Path) -> None:
    with serving(tmp_path / "state", "--drivers", "none", "--behind-proxy") as (api, _):
        told = sign_in(api, token=api.token).headers["set-cookie"]
    assert told.startswith("__Host-configdb-sync-admin=")
    assert told.split("; ")[1:] == ["HttpOnly", "SameSite=Strict", "Path=/", "Secure"]


def test_a_page_is_in_the_usage_records(tmp_path: Path) -> None:
    """T14: with the tenant that it names."""
    log = tmp_path / "usage.jsonl"
    with serving(tmp_path / "state", "--drivers", "none", "--usage-log", str(log)) as (api, _):
        api.get("/status/tenants/a%20b")
    assert '"tenant": "a b"' in log.read_text()
    assert '"kind": "page"' in log.read_text()
