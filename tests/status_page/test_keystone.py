"""Signing in to the pages at a real Keystone: the endpoint's own rules hold, and Keystone ends the session (T12)."""

from __future__ import annotations

from pathlib import Path

from tests.peers import keystone as peer
from tests.status_page.test_pages import bare, cookie_of, sign_in
from tests.tenants.support import Api, public_port, serving
from tests.tenants.test_keystone import eventually, project

MEMBER = {"username": "onlooker", "password": "member-password", "project": "admin", "domain": "Default"}
ADMIN = {"username": "admin", "password": peer.PASSWORD, "project": "admin", "domain": ""}


def test_keystones_users_sign_in(keystone: peer.Keystone, tmp_path: Path) -> None:
    arguments = ("--auth", "keystone", "--public", "127.0.0.1:0", "--public-page", "--drivers", "none")
    keystone.add_user("onlooker", "member-password", "member")
    with serving(tmp_path / "state", *arguments, **keystone.environ) as (admin, process):
        public, own = Api(public_port(process), ""), project(keystone)
        Api(admin.port, keystone.token()).put(f"/v1.0/{own}")
        there = sign_in(admin, **ADMIN)
        assert (there.status, there.headers["location"]) == (303, "/status")
        page = bare(admin).get("/status", cookie_of(there))
        assert (page.status, "Sign out (<bdi>admin</bdi>)" in page.body.decode()) == (200, True)
        # Whom the admin endpoint isn't for has signed in, and sees no more than through the API.
        member = sign_in(admin, **MEMBER)
        assert bare(admin).get("/status", cookie_of(member)).status == 403
        mine = sign_in(public, tenant=own, **MEMBER)
        assert (mine.status, mine.headers["location"]) == (303, f"/status/tenants/{own}")
        assert bare(public).get(f"/status/tenants/{own}", cookie_of(mine)).status == 200
        assert bare(public).get("/status/tenants/other", cookie_of(mine)).status == 403
        for wrong in ({"password": "no"}, {"username": "nobody"}, {"project": "none"}, {"domain": "none"}):
            refused = sign_in(admin, **{**ADMIN, **wrong})
            assert refused.status == 401
            assert "set-cookie" not in refused.headers
            assert peer.PASSWORD not in refused.body.decode()
        out = bare(public).post("/status/sign-out", cookie_of(mine))
        assert out.status == 303
        assert {bare(public).get(f"/status/tenants/{own}", cookie_of(mine)).status for _ in range(6)} == {303}
        assert not keystone.valid(cookie_of(mine).partition("=")[2]), "nor is it good anywhere else"
        token = cookie_of(there).partition("=")[2]
        keystone.revoke(token)
        assert eventually(lambda: {bare(admin).get("/status", cookie_of(there)).status for _ in range(6)} == {303}, 60)


def test_keystone_away(tmp_path: Path) -> None:
    environ = peer.Keystone("http://127.0.0.1:1/v3", tmp_path).environ
    arguments = ("--auth", "keystone", "--drivers", "none")
    with serving(tmp_path / "state", *arguments, **environ) as (api, _):
        reply = sign_in(api, **ADMIN)
        assert (reply.status, reply.headers["retry-after"]) == (503, "5")
        assert "can&#39;t be asked" in reply.body.decode()
