"""Who is let in (``docs/configdb-api.md``, Access): the token, compared whole; names for the history."""

from __future__ import annotations

import pytest

from configdb_sync.web.access import LimitedAccess, TokenAccess, TokenBuckets
from configdb_sync.web.refusals import RefusalError
from tests.configdb_server.conftest import MakeServer
from tests.support.clocks import ManualClock
from tests.support.configdb_server import ROOT, Api

TOKEN = "correct-horse-battery"


def token_of(headers: dict[str, str]) -> str:
    return (
        TokenAccess(TOKEN)
        .caller({f"HTTP_{name.upper().replace('-', '_')}": text for name, text in headers.items()})
        .name
    )


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-Auth-Token": ""},
        {"X-Auth-Token": TOKEN + "x"},
        {"X-Auth-Token": TOKEN[:-1]},
        {"X-Auth-Token": "caf\xe9"},
        {"Authorization": TOKEN},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": "Bearer"},
        {"X-Auth-Token": "wrong", "Authorization": f"Bearer {TOKEN}"},
    ],
)
def test_without_the_token_it_is_401(headers: dict[str, str]) -> None:
    with pytest.raises(RefusalError) as caught:
        token_of(headers)
    assert caught.value.status == 401
    assert TOKEN not in str(caught.value)


def author(api: Api, headers: dict[str, str]) -> str:
    """Return under which name a change goes into the history."""
    assert api.put(ROOT + "/values", {"a": str(headers)}, headers=headers).status_code == 204
    found: str = api.good("GET", ROOT + "/values/history", headers=headers)[0]["author"]
    return found


def test_the_token_goes_either_way(fuel: Api, make: MakeServer) -> None:
    api = make(access=TokenAccess(TOKEN))
    assert author(api, {"X-Auth-Token": TOKEN}) == "token"
    assert author(api, {"Authorization": f"bearer  {TOKEN}"}) == "token"
    assert author(api, {"X-Auth-Token": TOKEN, "X-Configdb-Author": "Zo%C3%AB"}) == "Zo\u00eb"


def test_open_access_takes_the_name_given(fuel: Api) -> None:
    assert author(fuel, {}) == "anonymous"
    assert author(fuel, {"X-Configdb-Author": "admin"}) == "admin"


def test_bad_tokens_are_limited_by_address(fuel: Api, make: MakeServer) -> None:
    clock = ManualClock()
    few = LimitedAccess(TokenAccess(TOKEN), TokenBuckets(clock, 1.0, 2.0))
    api, proxied = make(access=few), make(access=few, behind_proxy=True)
    good = {"X-Auth-Token": TOKEN}
    bad = {"X-Auth-Token": "wrong", "X-Forwarded-For": "192.0.2.1"}
    assert api.get("/components", headers=good).status_code == 200
    assert [api.get("/components", headers=bad).status_code for _ in range(4)] == [401, 401, 429, 429]
    refused = api.get("/components", headers=bad)
    assert refused.headers["Retry-After"] == "1"
    assert refused.get_json()["status"] == 429
    # Who had a good token before goes on; behind a proxy the address is the one that it tells.
    assert api.get("/components", headers=good).status_code == 200
    assert [proxied.get("/components", headers=bad).status_code for _ in range(3)] == [401, 401, 429]
    clock.advance(1.0)
    assert api.get("/components", headers=bad).status_code == 401


def test_the_token_shows_in_no_repr() -> None:
    assert TOKEN not in repr(TokenAccess(TOKEN))
