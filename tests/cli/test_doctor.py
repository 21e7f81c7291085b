"""What ``doctor`` shows and tries (U3, U5, U12): every setting with its origin, each peer, no secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from configdb_sync.exits import Exit
from configdb_sync.settings import READERS
from tests.nailgun.conftest import make_small
from tests.support.nailgun import at_work
from tests.support.product import Product
from tests.support.trees import make_trees


def peers(product: Product, *more: object, code: Exit = Exit.OK) -> dict[str, tuple[str, str]]:
    result = product("doctor", *more, "--format", "json")
    assert result.code == code, result.out + result.err
    return {peer["name"]: (peer["result"], peer["found"] or peer["what"] or "") for peer in result.json["peers"]}


def test_with_nothing_set_what_is_used_works(product: Product) -> None:
    found = peers(product)
    assert {name: result for name, (result, _) in found.items()} == {
        "state folder": "ok",
        "database": "ok",
        "Keystone": "unused",
        "ConfigDB": "ok",
        "Nailgun": "unused",
        "broker": "unused",
        "nodes": "unused",
    }


def test_each_setting_is_shown_with_its_origin(
    product: Product, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "settings.yaml"
    file.touch(0o600)
    file.write_text("tenant: from-file\n")
    monkeypatch.setenv("CONFIGDB_SYNC_PARALLEL", "7")
    result = product("doctor", "--unsafe-share", "0.25", "--settings", file, "--format", "json")
    found = {row["name"]: (row["value"], row["origin"]) for row in result.json["settings"]}
    assert found.keys() == READERS.keys()
    assert found["tenant"] == ("from-file", str(file))
    assert found["parallel"] == ("7", "CONFIGDB_SYNC_PARALLEL")
    assert found["unsafe_share"] == ("0.25", "--unsafe-share")
    assert found["wait"] == ("240.0", "default")


def test_no_secret_is_shown(product: Product, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OS_AUTH_URL", "http://user:CANARY@127.0.0.1:9/v3")
    refused = product("doctor")
    assert refused.code == Exit.USAGE
    assert "OS_AUTH_URL" in refused.err
    assert "CANARY" not in refused.out + refused.err
    monkeypatch.setenv("OS_AUTH_URL", "http://127.0.0.1:9/v3")
    monkeypatch.setenv("OS_PASSWORD", "CANARY")
    monkeypatch.setenv("OS_USERNAME", "admin")
    monkeypatch.setenv("OS_PROJECT_NAME", "admin")
    result = product("doctor", "--database", "postgresql+psycopg://u:CANARY@127.0.0.1:9/x")
    assert result.code != Exit.OK
    assert "CANARY" not in result.out + result.err
    assert "OS_PASSWORD" in result.out
    assert "u:***@127.0.0.1" in result.out


def test_a_database_at_a_port_that_is_none_is_one_failure_of_many(product: Product) -> None:
    result = product("doctor", "--configdb-database", "postgresql://u:CANARY@one:5432,two:543x:1/x")
    assert result.code == Exit.USAGE
    assert "CANARY" not in result.out + result.err
    assert "ok    database" in result.out


def test_each_failure_is_said_with_the_way_out_and_the_others_are_tried(
    product: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OS_AUTH_URL", "http://127.0.0.1:9/v3")
    monkeypatch.setenv("OS_USERNAME", "admin")
    monkeypatch.setenv("OS_PASSWORD", "x")
    result = product("doctor", "--nailgun", "http://127.0.0.1:9")
    assert result.code == Exit.CONFIGDB  # Keystone's, the first
    assert "FAIL  Keystone" in result.out
    assert "is OS_AUTH_URL right?" in result.out
    assert "ok    ConfigDB" in result.out
    assert "FAIL  Nailgun" in result.out
    assert "--nailgun" in result.out
    assert "2 of 7 failed." in result.out


def test_keystone_that_nothing_asks_is_not_asked(product: Product, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plugin always names the master's Keystone, and an embedded ConfigDB needs no user."""
    monkeypatch.setenv("OS_AUTH_URL", "http://127.0.0.1:9/v3")
    assert peers(product)["Keystone"][0] == "unused"
    found = peers(product, "--configdb", "catalog", code=Exit.USAGE)
    assert found["Keystone"] == ("failed", "the login to Keystone lacks username and password")


def test_an_environment_is_looked_for_at_the_peers(product: Product, tmp_path: Path) -> None:
    nailgun = make_small()
    nailgun.node("2")["online"] = False
    with at_work(nailgun) as url:
        found = peers(product, "--env", 5, "--nailgun", url)
        assert "no environment 5 yet" in found["ConfigDB"][1]
        assert "Fuel 9.0" in found["Nailgun"][1]
        assert "2 of 3 nodes" in found["Nailgun"][1]
        trees = make_trees(tmp_path / "trees", "1")
        assert product("sync", "--env", 5, "--from", trees).code == Exit.OK
        assert "the levels nodes" in peers(product, "--env", 5)["ConfigDB"][1]
        assert peers(product, "--env", 6, "--nailgun", url, code=Exit.ENVIRONMENT)["Nailgun"][0] == "failed"


def test_a_state_folder_that_is_open_to_others(product: Product) -> None:
    product.state.mkdir(mode=0o755)
    result = product("doctor")
    assert result.code == Exit.USAGE
    assert "FAIL  state folder" in result.out
    assert "chmod 0700" in result.out
