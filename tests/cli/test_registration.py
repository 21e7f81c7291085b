"""``keystone register`` against a real Keystone (U5): what is made, what stays, what is refused before anything is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from configdb_sync.configdb.connect import connect
from configdb_sync.exits import Exit
from tests.peers import keystone as peer
from tests.support.product import Product, Result

URL = "https://configdb.example:8082"
USER = ("--user", "configdb", "--password-file", "-", "--project", "admin")


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[peer.Keystone]:
    """A Keystone that nobody else registers with."""
    with peer.running(tmp_path_factory.mktemp("own")) as found:
        yield found


@pytest.fixture
def keystone(own: peer.Keystone, product: Product, monkeypatch: pytest.MonkeyPatch) -> peer.Keystone:
    """The same, empty, with the command line logged in as its administrator."""
    for service in own.ask("GET", "/services?type=config")["services"]:
        own.ask("DELETE", f"/services/{service['id']}")
    for user in own.ask("GET", "/users?name=configdb")["users"]:
        own.ask("DELETE", f"/users/{user['id']}")
    for region in own.ask("GET", "/regions")["regions"]:
        if region["id"] != "RegionOne":
            own.ask("DELETE", f"/regions/{region['id']}")
    for name, value in own.environ.items():
        monkeypatch.setenv(name, value)
    return own


def register(product: Product, *more: object, url: str = URL, password: str = "CANARY-1\n") -> Result:
    result = product("keystone", "register", "--url", url, *more, stdin=password)
    assert "CANARY" not in result.out + result.err
    return result


def endpoints(keystone: peer.Keystone) -> dict[tuple[str, str], str]:
    (service,) = keystone.ask("GET", "/services?type=config")["services"]
    found = keystone.ask("GET", f"/endpoints?service_id={service['id']}")["endpoints"]
    return {(one["interface"], one["region_id"]): one["url"] for one in found}


def test_all_is_made_and_the_second_time_nothing_is_changed(product: Product, keystone: peer.Keystone) -> None:
    result = register(product, *USER)
    assert result.code == Exit.OK, result.err
    assert result.out.splitlines() == [
        "user configdb: made",
        "role admin of configdb on project admin: given",
        "service configdb of type config: made",
        *(f"{kind} endpoint {URL} in RegionOne: made" for kind in ("public", "internal", "admin")),
        "6 changed.",
    ]
    assert endpoints(keystone) == {(kind, "RegionOne"): URL for kind in ("public", "internal", "admin")}
    before = all_of(keystone)
    result = register(product, *USER)
    assert result.out.count("there already") == 6
    assert result.out.endswith("Nothing was changed.\n")
    assert all_of(keystone) == before
    # The user that was made can log in, and finds ConfigDB.
    login = keystone.environ | {"OS_USERNAME": "configdb", "OS_PASSWORD": "CANARY-1", "OS_INTERFACE": "internal"}
    with connect("catalog", environ=login) as client:
        assert client.base == URL


def all_of(keystone: peer.Keystone) -> list[Any]:
    return [keystone.ask("GET", f"/{kind}")[kind] for kind in ("users", "roles", "services", "endpoints", "regions")]


def test_another_address_changes_the_endpoints(product: Product, keystone: peer.Keystone) -> None:
    register(product)
    result = register(product, "--interface", "public", url="https://other.example:8082/")
    assert f"public endpoint https://other.example:8082 in RegionOne: changed, it was {URL}" in result.out
    assert result.out.endswith("1 changed.\n")
    found = endpoints(keystone)
    assert found["public", "RegionOne"] == "https://other.example:8082"
    assert found["internal", "RegionOne"] == URL


def test_regions_stand_beside_each_other_and_an_unknown_one_is_refused(
    product: Product, keystone: peer.Keystone
) -> None:
    keystone.ask("POST", "/regions", {"region": {"id": "Two"}})
    register(product, "--region", "RegionOne")
    register(product, "--region", "Two", url=f"{URL}/two")
    found = endpoints(keystone)
    assert (found["admin", "RegionOne"], found["admin", "Two"]) == (URL, f"{URL}/two")
    refused = register(product, "--region", "Mars")
    assert refused.code == Exit.CONFIGDB
    assert "no region 'Mars' (there are: RegionOne, Two" in refused.err
    assert register(product).code == Exit.USAGE


def test_what_was_switched_off_is_switched_on(product: Product, keystone: peer.Keystone) -> None:
    register(product, "--interface", "public")
    service = keystone.ask("GET", "/services?type=config")["services"][0]["id"]
    endpoint = keystone.ask("GET", f"/endpoints?service_id={service}")["endpoints"][0]["id"]
    keystone.ask("PATCH", f"/services/{service}", {"service": {"enabled": False}})
    keystone.ask("PATCH", f"/endpoints/{endpoint}", {"endpoint": {"enabled": False}})
    assert register(product, "--interface", "public").out.count(": enabled") == 2


def test_a_service_of_another_name_is_used(product: Product, keystone: peer.Keystone) -> None:
    """Clients go by the type: a second service would make two endpoints of one."""
    keystone.ask("POST", "/services", {"service": {"type": "config", "name": "tuning-box"}})
    assert "service tuning-box of type config: there already" in register(product).out
    for _ in range(2):
        keystone.ask("POST", "/services", {"service": {"type": "config", "name": "more"}})
    refused = register(product, "--service-name", "more")
    assert refused.code == Exit.CONFIGDB
    assert "several services of type config" in refused.err


def test_another_password_is_given_only_when_that_is_said(product: Product, keystone: peer.Keystone) -> None:
    register(product, *USER)
    before = all_of(keystone)
    refused = register(product, *USER, password="CANARY-2\n", url=f"{URL}/new")
    assert refused.code == Exit.ACCESS
    assert "--new-password" in refused.err
    assert all_of(keystone) == before
    changed = register(product, *USER, "--new-password", password="CANARY-2\n")
    assert "user configdb: given the new password" in changed.out
    assert register(product, *USER, "--new-password", password="CANARY-2").out.endswith("Nothing was changed.\n")
    assert keystone.token("configdb", "CANARY-2")
    with pytest.raises(requests.HTTPError):
        keystone.token("configdb", "CANARY-1")


def test_what_can_not_be_is_refused_before_anything_is_made(
    product: Product, keystone: peer.Keystone, tmp_path: Path
) -> None:
    before = all_of(keystone)
    open_file = tmp_path / "open"
    open_file.write_text("CANARY")
    open_file.chmod(0o644)
    refusals: dict[tuple[object, ...], tuple[Exit, str]] = {
        ("--user", "configdb", "--project", "admin"): (Exit.USAGE, "give --password-file"),
        ("--user", "configdb", "--password-file", "-", "--project", "none"): (Exit.CONFIGDB, "no project 'none'"),
        (*USER, "--domain", "none"): (Exit.CONFIGDB, "no domain 'none'"),
        ("--password-file", "-"): (Exit.USAGE, "--user"),
        ("--user", "configdb", "--password-file", open_file): (Exit.USAGE, "open to others"),
        ("--user", "configdb", "--password-file", tmp_path / "none"): (Exit.USAGE, "can't be read"),
        ("--url", "https://u:CANARY@h"): (Exit.USAGE, "holds credentials"),
    }
    for words, (code, said) in refusals.items():
        result = register(product, *words)
        assert (result.code, said in result.err) == (code, True), (words, result.err)
    assert register(product, *USER, password="a\nb").code == Exit.USAGE
    assert all_of(keystone) == before


def test_only_an_administrator_may(product: Product, keystone: peer.Keystone, monkeypatch: pytest.MonkeyPatch) -> None:
    keystone.add_user("member-only", "CANARY-m", "member")
    monkeypatch.setenv("OS_USERNAME", "member-only")
    monkeypatch.setenv("OS_PASSWORD", "CANARY-m")
    refused = register(product)
    assert refused.code == Exit.ACCESS
    assert "log in as an administrator" in refused.err
    monkeypatch.setenv("OS_PASSWORD", "CANARY-wrong")
    assert "refused the login" in register(product).err


@pytest.mark.parametrize("end", ["", "/v2.0"])
def test_another_version_in_the_address_leads_to_v3(
    product: Product, keystone: peer.Keystone, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setenv("OS_AUTH_URL", keystone.url.removesuffix("/v3") + end)
    result = register(product)
    assert (result.code == Exit.OK) is (end == ""), result.err
    if end:
        assert "is OS_AUTH_URL right?" in result.err
