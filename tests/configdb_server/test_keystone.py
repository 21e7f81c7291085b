"""Access by Keystone (``docs/configdb-api.md``, Access): a real one; roles, revoked tokens, and Keystone away."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests

from configdb_sync.clock import SystemClock
from configdb_sync.configdb_server.app import KeystoneRoles
from configdb_sync.keystone.clouds import Cloud
from configdb_sync.web import access
from configdb_sync.web.refusals import RefusalError
from tests.peers import keystone as peer
from tests.support.configdb_server import NODE
from tests.support.service import fill, serving


def without_login() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("OS_")}


def author(monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], roles: KeystoneRoles, method: str = "PUT") -> str:
    """Return under which name a change goes into the history, if keystonemiddleware hands this on."""

    def middleware(_login: object, _name: str) -> Any:
        def confirm(blank: dict[str, Any], start: Any) -> list[bytes]:
            blank["configdb.seen"].append({**blank, **environ})
            start("204 No Content", [])
            return []

        return confirm

    monkeypatch.setattr(access, "_middleware", middleware)
    made = access.KeystoneAccess(Cloud("password", {"auth_url": "http://keystone/v3"}), None, SystemClock(), name="x")
    caller = made.caller({"HTTP_X_AUTH_TOKEN": "t", "HTTP_X_USER_NAME": "forged"})
    roles.check(caller, writing=method == "PUT")
    return caller.name


def user(roles: str, name: str = "zo\xc3\xab") -> dict[str, str]:
    return {"HTTP_X_IDENTITY_STATUS": "Confirmed", "HTTP_X_USER_NAME": name, "HTTP_X_ROLES": roles}


ADMIN = KeystoneRoles("admin")


def test_the_user_is_the_author(monkeypatch: pytest.MonkeyPatch) -> None:
    assert author(monkeypatch, user("member, Admin"), ADMIN) == "zo\u00eb"
    assert author(monkeypatch, {**user("admin", ""), "HTTP_X_USER_ID": "abc"}, ADMIN) == "abc"


def test_without_a_token_it_is_401(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "_middleware", lambda _login, _name: None)
    made = access.KeystoneAccess(Cloud("password", {"auth_url": "http://keystone/v3"}), None, SystemClock(), name="x")
    with pytest.raises(RefusalError) as caught:
        made.caller(user("admin"))
    assert caught.value.status == 401
    assert caught.value.headers == (("WWW-Authenticate", 'Keystone uri="http://keystone/v3"'),)


def test_a_token_that_is_not_confirmed_lets_nobody_in(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RefusalError) as caught:
        author(monkeypatch, {**user("admin"), "HTTP_X_IDENTITY_STATUS": "Invalid"}, ADMIN)
    assert caught.value.status == 503


@pytest.mark.parametrize("roles", ["", "member", "administrator", "admin2,not-admin"])
def test_without_the_role_it_is_403_for_reading_too(roles: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for method in ("PUT", "GET"):
        with pytest.raises(RefusalError) as caught:
            author(monkeypatch, user(roles), ADMIN, method)
        assert caught.value.status == 403


def test_a_role_may_read_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    roles = KeystoneRoles("operator", "Auditor")
    assert author(monkeypatch, user("auditor"), roles, "GET")
    assert author(monkeypatch, user("operator"), roles, "GET")
    assert author(monkeypatch, user("operator"), roles)
    with pytest.raises(RefusalError):
        author(monkeypatch, user("auditor"), roles)


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
