"""Who is let in (``docs/configdb-api.md``, Access): the token, compared whole; names for the history."""

from __future__ import annotations

import pytest
from werkzeug.datastructures import Headers

from configdb_sync.configdb_server.access import OpenAccess, TokenAccess
from configdb_sync.web.refusals import RefusalError

TOKEN = "correct-horse-battery"


def author(headers: dict[str, str], access: TokenAccess | OpenAccess | None = None) -> str:
    return (access or TokenAccess(TOKEN)).author(Headers(headers), {}, writing=False)


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
        author(headers)
    assert caught.value.status == 401
    assert TOKEN not in str(caught.value)


def test_the_token_goes_either_way() -> None:
    assert author({"X-Auth-Token": TOKEN}) == "token"
    assert author({"Authorization": f"bearer  {TOKEN}"}) == "token"
    assert author({"X-Auth-Token": TOKEN, "X-Configdb-Author": "Zo%C3%AB"}) == "Zo\u00eb"


def test_open_access_takes_the_name_given() -> None:
    assert author({}, OpenAccess()) == "anonymous"
    assert author({"X-Configdb-Author": "admin"}, OpenAccess()) == "admin"


def test_the_token_shows_in_no_repr() -> None:
    assert TOKEN not in repr(TokenAccess(TOKEN))
