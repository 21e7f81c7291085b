"""A real Keystone in front of both endpoints (T12): roles, projects, forged headers, revoked tokens, Keystone away."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import requests
import yaml

from tests.peers import keystone as peer
from tests.tenants.support import Api, public_port, serving

FORGED = ("X-Identity-Status: Confirmed", "X-Roles: admin", "X-Project-Id: mine", "OpenStack-System-Scope: all")


def eventually(what: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not what():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.5)
    return True


def project(keystone: peer.Keystone) -> str:
    headers = {"X-Auth-Token": keystone.token()}
    answer = requests.get(f"{keystone.url}/projects", params={"name": "admin"}, headers=headers, timeout=30)
    return str(answer.json()["projects"][0]["id"])


def unscoped(keystone: peer.Keystone) -> str:
    """A token without a project."""
    user = {"name": "member", "password": "member-password", "domain": {"id": "default"}}
    body = {"auth": {"identity": {"methods": ["password"], "password": {"user": user}}, "scope": "unscoped"}}
    answer = requests.post(f"{keystone.url}/auth/tokens", json=body, timeout=30)
    answer.raise_for_status()
    return answer.headers["X-Subject-Token"]


def test_a_real_keystone_decides(keystone: peer.Keystone, tmp_path: Path) -> None:
    keystone.add_user("member", "member-password", "member")
    state = tmp_path / "state"
    # Its own login is in the settings file, as for every command; the public endpoint's in a clouds.yaml.
    settings = keystone.settings(tmp_path / "settings.yaml")
    login = yaml.safe_load(settings.read_text())["login"]
    (tmp_path / "clouds.yaml").write_text(yaml.safe_dump({"clouds": {"public": {"auth": login}}}))
    arguments = ("--auth", "keystone", "--public", "127.0.0.1:0", "--drivers", "none", "--public-cloud", "public")
    more = {"CONFIGDB_SYNC_SETTINGS": str(settings), "OS_CLIENT_CONFIG_FILE": str(tmp_path / "clouds.yaml")}
    with serving(state, *arguments, **more) as (found, process):
        admin = Api(found.port, keystone.token())
        public = Api(public_port(process), keystone.token("member", "member-password"))
        own = project(keystone)
        assert admin.put(f"/v1.0/{own}").status == 201
        assert admin.put("/v1.0/mine", json={"metadata": {"project_id": own}}).status == 201
        assert admin.put("/v1.0/other").status == 201
        assert admin.put("/v1.0/None").status == 201
        assert admin.get(f"/v1.0/{own}/audit").json["entries"][0]["actor"] == "admin"
        # Roles on the admin endpoint, projects on the public one.
        assert Api(found.port, public.token).get("/v1.0").status == 403
        assert [public.get(f"/v1.0/{name}").status for name in (own, "mine")] == [200, 200]
        assert [public.get(f"/v1.0/{name}").status for name in ("other", "None", "never")] == [403] * 3
        assert public.put(f"/v1.0/{own}", json={}).status == 405
        # A token without a project is nobody's, not that of the tenant called None.
        nobody = Api(public.port, unscoped(keystone))
        assert [nobody.get(f"/v1.0/{name}").status for name in ("None", own)] == [403, 403]
        for token in ("", "gAAAA", "x" * 4000):
            for api in (admin, public):
                answer = api.get("/v1.0/mine", f"X-Auth-Token: {token}", *FORGED)
                assert answer.status == 401
                assert answer.headers["www-authenticate"].startswith("Keystone uri=")
                assert set(answer.json["error"]) == {"code", "title", "message", "request_id"}
        assert Api(found.port, public.token).get("/v1.0", *FORGED).status == 403
        keystone.revoke(public.token)
        assert eventually(lambda: [public.get("/v1.0/mine").status for _ in range(6)] == [401] * 6, 60)
        assert admin.get("/v1.0/mine").status == 200


def test_keystone_away_is_503_in_our_shape(tmp_path: Path) -> None:
    environ = peer.Keystone("http://127.0.0.1:1/v3", tmp_path).environ
    with serving(tmp_path / "state", "--auth", "keystone", **environ) as (api, _):
        answer = api.get("/v1.0", "X-Auth-Token: " + "x" * 32)
        assert (answer.status, answer.headers["retry-after"]) == (503, "5")
        assert api.get("/v1.0", "X-Auth-Token: ").status == 401
        assert api.get("/healthz", "X-Auth-Token: ").status == 200
