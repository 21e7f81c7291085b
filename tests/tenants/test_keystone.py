"""A real Keystone in front of both endpoints (T12): roles, projects, forged headers, revoked tokens, Keystone away."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
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


def made(keystone: peer.Keystone, kind: str, name: str, **more: object) -> str:
    """Make a project or a user and return its id."""
    body = {kind: {"name": name, "domain_id": "default", **more}}
    headers = {"X-Auth-Token": keystone.token()}
    answer = requests.post(f"{keystone.url}/{kind}s", json=body, headers=headers, timeout=30)
    answer.raise_for_status()
    return str(answer.json()[kind]["id"])


def grant(keystone: peer.Keystone, user: str, project: str, role: str) -> None:
    headers = {"X-Auth-Token": keystone.token()}
    found = requests.get(f"{keystone.url}/roles", params={"name": role}, headers=headers, timeout=30).json()["roles"]
    link = f"{keystone.url}/projects/{project}/users/{user}/roles/{found[0]['id']}"
    requests.put(link, headers=headers, timeout=30).raise_for_status()


def token_of(keystone: peer.Keystone, user: str, project: str) -> str:
    identity = {"methods": ["password"], "password": {"user": {"id": user, "password": f"CANARY-{user}"}}}
    body = {"auth": {"identity": identity, "scope": {"project": {"id": project}}}}
    answer = requests.post(f"{keystone.url}/auth/tokens", json=body, timeout=30)
    answer.raise_for_status()
    return answer.headers["X-Subject-Token"]


def user_of(keystone: peer.Keystone, name: str, project: str, role: str) -> str:
    user = made(keystone, "user", name)
    headers = {"X-Auth-Token": keystone.token()}
    changed = {"user": {"password": f"CANARY-{user}"}}
    requests.patch(f"{keystone.url}/users/{user}", json=changed, headers=headers, timeout=30).raise_for_status()
    grant(keystone, user, project, role)
    return user


@pytest.mark.long
def test_other_projects_other_roles_and_tokens_that_end(keystone: peer.Keystone, tmp_path: Path) -> None:
    """T12: an operator of another project is one, too; a user of another project isn't; a token ends when it says."""
    blue, red = made(keystone, "project", "tenants-blue"), made(keystone, "project", "tenants-red")
    reader = user_of(keystone, "tenants-reader", blue, "reader")
    operator = user_of(keystone, "tenants-operator", red, "admin")
    arguments = ("--auth", "keystone", "--public", "127.0.0.1:0", "--drivers", "none")
    policy = tmp_path / "policy.yaml"
    policy.write_text('"admin:audit": "rule:operator or role:reader"\n"public:get_values": "!"\n')
    policy.chmod(0o600)
    with (
        keystone.forgetful(12) as short,
        serving(tmp_path / "state", *arguments, "--policy-file", str(policy), **keystone.environ) as (found, process),
    ):
        port = public_port(process)
        admin = Api(found.port, token_of(keystone, operator, red))
        assert admin.put(f"/v1.0/{blue}").status == 201
        assert admin.put("/v1.0/team", json={"metadata": {"project_id": blue}}).status == 201
        assert admin.put(f"/v1.0/{red}").status == 201
        assert admin.get(f"/v1.0/{red}/audit").json["entries"][0]["actor"] == "tenants-operator"
        # The reader's project decides on the public endpoint, the operator's role not at all.
        user = Api(port, token_of(keystone, reader, blue))
        assert [user.get(f"/v1.0/{name}").status for name in (blue, "team", red)] == [200, 200, 403]
        assert [Api(port, admin.token).get(f"/v1.0/{name}").status for name in (blue, red)] == [403, 200]
        # The policy file gives the role reader one call of the admin endpoint, and takes one away from the public one.
        inside = Api(found.port, user.token)
        assert [inside.get(target).status for target in ("/audit", "/v1.0", f"/v1.0/{blue}")] == [200, 403, 403]
        assert user.get(f"/v1.0/{blue}/environments/1/resources/astute?level=nodes=1").status == 403
        # A project that a tenant is taken from reads it no more, whatever was kept of the token.
        assert admin.put("/v1.0/team", json={"metadata": {"project_id": red}}).status == 202
        assert user.get("/v1.0/team").status == 403
        ending = Api(port, token_of(short, reader, blue))
        assert ending.get(f"/v1.0/{blue}").status == 200
        assert eventually(lambda: not short.valid(ending.token), 60)
        assert [ending.get(f"/v1.0/{blue}").status for _ in range(6)] == [401] * 6, "not believed beyond its end"
        assert user.get(f"/v1.0/{blue}").status == 200


def test_bad_tokens_are_asked_about_so_often_and_good_ones_always(keystone: peer.Keystone, tmp_path: Path) -> None:
    """Each costs Keystone a validation: an address that sends many is held back, but never a good one."""
    arguments = ("--auth", "keystone", "--drivers", "none", "--workers", "1", "--refused-rate", "0.5")
    with serving(tmp_path / "state", *arguments, **keystone.environ) as (found, _):
        admin = Api(found.port, keystone.token())
        assert admin.get("/v1.0").status == 200
        answers = [found.get("/v1.0", f"X-Auth-Token: gAAAA{number}") for number in range(10)]
        assert {one.status for one in answers} == {401, 429}
        held = next(one for one in answers if one.status == 429)
        assert (held.json["error"]["code"], int(held.headers["retry-after"]) >= 1) == (429, True)
        assert admin.get("/v1.0").status == 200


@pytest.mark.long
def test_each_endpoint_logs_in_as_its_own_user(keystone: peer.Keystone, tmp_path: Path) -> None:
    """T12: the public endpoint's login is taken away, and the admin endpoint goes on."""
    services = made(keystone, "project", "tenants-services")
    own = user_of(keystone, "tenants-public", services, "service")
    auth = {**yaml.safe_load(keystone.settings(tmp_path / "s.yaml").read_text())["login"]}
    auth |= {"username": "tenants-public", "password": f"CANARY-{own}", "project_name": "tenants-services"}
    (tmp_path / "clouds.yaml").write_text(yaml.safe_dump({"clouds": {"public": {"auth": auth}}}))
    arguments = ("--auth", "keystone", "--public", "127.0.0.1:0", "--drivers", "none", "--public-cloud", "public")
    more = {**keystone.environ, "OS_CLIENT_CONFIG_FILE": str(tmp_path / "clouds.yaml")}
    with serving(tmp_path / "state", *arguments, **more) as (found, process):
        admin, mine = Api(found.port, keystone.token()), project(keystone)
        port = public_port(process)
        assert admin.put(f"/v1.0/{mine}").status in (201, 202, 409)
        assert Api(port, keystone.token()).get(f"/v1.0/{mine}").status == 200
        headers, changed = {"X-Auth-Token": keystone.token()}, {"user": {"enabled": False}}
        requests.patch(f"{keystone.url}/users/{own}", json=changed, headers=headers, timeout=30).raise_for_status()
        assert eventually(lambda: Api(port, keystone.token()).get(f"/v1.0/{mine}").status == 503, 60)
        assert Api(found.port, keystone.token()).get(f"/v1.0/{mine}").status == 200
