"""Access by Keystone (``docs/configdb-api.md``, Access): a real one; roles, revoked tokens, and Keystone away."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import requests
from werkzeug.datastructures import Headers

from configdb_sync.configdb_server import access
from configdb_sync.web.refusals import RefusalError
from tests.peers import keystone as peer
from tests.support.configdb_server import NODE
from tests.support.service import fill, serving

ACCESS = access.KeystoneAccess("admin", None, "http://keystone/v3")


def without_login() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("OS_")}


def author(environ: dict[str, str], told: access.KeystoneAccess = ACCESS, *, writing: bool = True) -> str:
    return told.author(Headers(), environ, writing=writing)


def user(roles: str, name: str = "zo\xc3\xab") -> dict[str, str]:
    return {"HTTP_X_IDENTITY_STATUS": "Confirmed", "HTTP_X_USER_NAME": name, "HTTP_X_ROLES": roles}


def test_the_user_is_the_author() -> None:
    assert author(user("member, Admin")) == "zo\u00eb"
    assert author({**user("admin", ""), "HTTP_X_USER_ID": "abc"}) == "abc"


@pytest.mark.parametrize("environ", [{}, {**user("admin"), "HTTP_X_IDENTITY_STATUS": "Invalid"}])
def test_a_token_that_is_not_confirmed_is_401(environ: dict[str, str]) -> None:
    with pytest.raises(RefusalError) as caught:
        author(environ)
    assert caught.value.status == 401
    assert caught.value.headers == (("WWW-Authenticate", 'Keystone uri="http://keystone/v3"'),)


@pytest.mark.parametrize("roles", ["", "member", "administrator", "admin2,not-admin"])
def test_without_the_role_it_is_403_for_reading_too(roles: str) -> None:
    for writing in (True, False):
        with pytest.raises(RefusalError) as caught:
            author(user(roles), writing=writing)
        assert caught.value.status == 403


def test_a_role_may_read_alone() -> None:
    told = access.KeystoneAccess("operator", "auditor", "")
    assert author(user("auditor"), told, writing=False)
    assert author(user("operator"), told, writing=False)
    assert author(user("operator"), told)
    with pytest.raises(RefusalError):
        author(user("auditor"), told)


def _eventually(what: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not what():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.5)
    return True


def test_a_real_keystone_decides(keystone: peer.Keystone, tmp_path: Path) -> None:
    keystone.add_user("reader", "reader-password", "auditor")
    keystone.add_user("nobody", "nobody-password", "member")
    # Its own login is in the settings file, as for every command.
    arguments = ["--auth", "keystone", "--read-role", "auditor", "--state", str(tmp_path / "state")]
    arguments += ["--settings", str(keystone.settings(tmp_path / "settings.yaml"))]
    with serving(*arguments, environ=without_login()) as (url, _):
        admin = {"X-Auth-Token": keystone.token(), "X-Configdb-Author": "someone%20else"}
        fill(url, admin)
        assert requests.put(f"{url}{NODE}/values", json={"a": 1}, headers=admin, timeout=60).status_code == 204
        history = requests.get(f"{url}{NODE}/values/history", headers=admin, timeout=60).json()
        assert [item["author"] for item in history] == ["admin"]

        def status(method: str, headers: dict[str, str]) -> int:
            answer = requests.request(method, f"{url}{NODE}/values", json={"a": 1}, headers=headers, timeout=60)
            if answer.status_code >= 400:
                assert set(answer.json()) == {"msg", "message", "status"}
                assert answer.headers["Server-Product"].startswith("configdb-sync/")
            return answer.status_code

        forged = {"X-Identity-Status": "Confirmed", "X-Roles": "admin", "X-User-Name": "admin"}
        for headers in ({}, {"X-Auth-Token": "gAAAA"}, forged, {"X-Auth-Token": "gAAAA", **forged}):
            assert status("GET", headers) == 401
        reader = {"X-Auth-Token": keystone.token("reader", "reader-password")}
        assert (status("GET", reader), status("PUT", reader)) == (200, 403)
        nobody = {"X-Auth-Token": keystone.token("nobody", "nobody-password"), **forged}
        assert (status("GET", nobody), status("PUT", nobody)) == (403, 403)
        # A token that is revoked in the middle is refused once what each worker remembers of it has run out.
        keystone.revoke(reader["X-Auth-Token"])
        assert _eventually(lambda: [status("GET", reader) for _ in range(6)] == [401] * 6, 60)
        assert status("GET", admin) == 200


def test_keystone_away_is_503_in_our_shape(tmp_path: Path) -> None:
    environ = without_login() | peer.Keystone("http://127.0.0.1:1/v3", tmp_path).environ
    with serving("--auth", "keystone", "--state", str(tmp_path / "state"), environ=environ) as (url, _):
        answer = requests.get(url + "/components", headers={"X-Auth-Token": "x" * 32}, timeout=60)
        assert answer.status_code == 503
        assert answer.json()["status"] == 503
        assert answer.headers["Retry-After"] == "5"
        assert requests.get(url + "/components", timeout=60).status_code == 401
