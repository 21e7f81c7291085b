"""Signing in (T12): what the cookie is, whom it stands for, and that nothing else does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configdb_sync.errors import AccessError, UnavailableError
from configdb_sync.keystone.clouds import Cloud
from configdb_sync.status_page.sessions import LASTS, KeystoneSessions, TokenSessions
from configdb_sync.status_page.sign_in import SignInFailures
from configdb_sync.tenants.paths import ResourcePath
from configdb_sync.tenants.policy import TenantTokenAccess
from configdb_sync.web.access import OpenAccess, TokenAccess
from configdb_sync.web.refusals import RefusalError
from tests.tenants.test_targets import GOOD

TOKEN = "t" * 43
ADMIN = TokenSessions(TokenAccess(TOKEN), lambda _: TOKEN)
KEYS = TenantTokenAccess(b"k" * 32)
TENANTS = TokenSessions(KEYS, lambda tenant: KEYS.token(tenant or ""), tenants=True)
NOW = 1_800_000_000.0


def status(refused: pytest.ExceptionInfo[RefusalError]) -> int:
    return refused.value.status


def test_the_cookie_is_no_token_and_holds_for_its_time() -> None:
    cookie = ADMIN.begin({"token": f" {TOKEN}\n"}, NOW)
    assert TOKEN not in cookie
    assert ADMIN.caller(cookie, None, NOW + LASTS - 1, "").admin
    for now, given_cookie in [(NOW + LASTS, cookie), (NOW, cookie[:-1]), (NOW, f"{cookie}0"), (NOW, f"YQ{cookie}")]:
        with pytest.raises(RefusalError) as refused:
            ADMIN.caller(given_cookie, None, now, "")
        assert status(refused) == 401


def test_its_end_cant_be_put_off() -> None:
    packed, until, nonce, proof = ADMIN.begin({"token": TOKEN}, NOW).split(".")
    for changed in (f"{packed}.{int(until) + 1}.{nonce}.{proof}", f"{packed}.{until}.{nonce}0.{proof}"):
        with pytest.raises(RefusalError):
            ADMIN.caller(changed, None, NOW, "")


def test_two_sessions_of_one_second_are_two() -> None:
    """Signing out ends one of them."""
    assert ADMIN.begin({"token": TOKEN}, NOW) != ADMIN.begin({"token": TOKEN}, NOW)


def test_only_a_good_cookie_can_be_ended() -> None:
    cookie = ADMIN.begin({"token": TOKEN}, NOW)
    assert ADMIN.end(cookie, NOW, "") == NOW + LASTS
    for other, now in [(f"{cookie}0", NOW), ("a.b.c.d", NOW), (cookie, NOW + LASTS)]:
        with pytest.raises(RefusalError):
            ADMIN.end(other, now, "")


def test_another_token_ends_all_sessions() -> None:
    cookie = ADMIN.begin({"token": TOKEN}, NOW)
    with pytest.raises(RefusalError):
        TokenSessions(TokenAccess("another"), lambda _: "another").caller(cookie, None, NOW, "")


@pytest.mark.parametrize("token", ["", "t", TOKEN[:-1], "é", "\ud800"])
def test_a_wrong_token(token: str) -> None:
    with pytest.raises(RefusalError) as refused:
        ADMIN.begin({"token": token}, NOW)
    assert status(refused) == 401


@pytest.mark.parametrize("tenant", GOOD, ids=ascii)
def test_a_tenant_sees_itself_alone(tenant: str) -> None:
    form = {"tenant": tenant, "token": KEYS.token(tenant)}
    cookie = TENANTS.begin(form, NOW)
    assert cookie.isascii()
    assert TENANTS.tenant(form) == tenant
    caller = TENANTS.caller(cookie, ResourcePath(tenant, 1), NOW, "")
    assert (caller.admin, caller.tenant) == (False, tenant)
    for place in (None, ResourcePath(tenant + "x")):
        with pytest.raises(RefusalError) as refused:
            TENANTS.caller(cookie, place, NOW, "")
        assert status(refused) == 401
    with pytest.raises(RefusalError):
        ADMIN.caller(cookie, None, NOW, "")


@pytest.mark.parametrize("tenant", ["", "a/b", "x" * 256])
def test_what_can_be_no_tenant(tenant: str) -> None:
    with pytest.raises(RefusalError) as refused:
        TENANTS.begin({"tenant": tenant, "token": "x"}, NOW)
    assert status(refused) == 401


@given(st.text(max_size=80))
def test_any_other_cookie_is_nobodys(cookie: str) -> None:
    for sessions in (ADMIN, TENANTS):
        with pytest.raises(RefusalError) as refused:
            sessions.caller(cookie, ResourcePath("a"), NOW, "")
        assert status(refused) == 401


CLOUD = Cloud("password", {"auth_url": "http://keystone/v3", "password": "service", "user_domain_name": "Own"})


def keystone(token: str | Exception, asked: list[dict[str, str]] | None = None) -> KeystoneSessions:
    def log_in(environ: object) -> str:
        if asked is not None:
            asked.append(dict(environ))  # type: ignore[call-overload]
        if isinstance(token, Exception):
            raise token
        return token

    return KeystoneSessions(CLOUD, OpenAccess(), log_in)


def test_a_user_of_keystone_logs_in_with_their_own_words_alone() -> None:
    asked: list[dict[str, str]] = []
    form = {"username": "ann", "password": "p w", "project": " p ", "domain": ""}
    assert keystone("gAAAA-token_", asked).begin(form, NOW) == "gAAAA-token_"
    assert asked == [
        {
            "OS_AUTH_URL": "http://keystone/v3",
            "OS_USERNAME": "ann",
            "OS_PASSWORD": "p w",
            "OS_PROJECT_NAME": "p",
            "OS_USER_DOMAIN_NAME": "Own",
            "OS_PROJECT_DOMAIN_NAME": "Own",
        }
    ]


@pytest.mark.parametrize(
    ("token", "code"),
    [
        (AccessError("no"), 401),
        (UnavailableError("away"), 503),
        ("x" * 4000, 503),
        ("a;b", 503),
        ("a b", 503),
        ("a\r\nSet-Cookie: x", 503),
    ],
)
def test_a_login_that_fails_or_gives_what_no_cookie_holds(token: str | Exception, code: int) -> None:
    with pytest.raises(RefusalError) as refused:
        keystone(token).begin({"username": "ann", "password": "secret-word"}, NOW)
    assert status(refused) == code
    assert "secret-word" not in str(refused.value)


@pytest.mark.parametrize("away", [False, True])
def test_keystones_token_is_revoked_there(away: bool) -> None:
    revoked: list[str] = []

    def revoke(token: str) -> None:
        revoked.append(token)
        if away:
            raise UnavailableError("nobody answers")

    sessions = replace(keystone("x"), revoke=revoke)
    assert sessions.end("gAAAA-token", NOW, "") > NOW + 7 * 86400
    assert revoked == ["gAAAA-token"]


class Clock:
    def __init__(self) -> None:
        self.time = 0.0

    def monotonic(self) -> float:
        return self.time


def test_wrong_tries_are_let_through_slowly() -> None:
    clock = Clock()
    failures = SignInFailures(clock, most=3, within=60)  # type: ignore[arg-type]
    for _ in range(3):
        failures.check("a")
        failures.note("a")
    with pytest.raises(RefusalError) as refused:
        failures.check("a")
    assert (status(refused), dict(refused.value.headers)["Retry-After"]) == (429, "60")
    failures.check("b")
    clock.time = 61
    failures.check("a")
