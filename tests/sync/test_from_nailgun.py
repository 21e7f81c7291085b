"""Runs from Nailgun's deployment data (U21), and what a node run makes of them afterwards (U18)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from configdb_sync.exits import Exit
from tests.support.nailgun import Nailgun, at_work, load
from tests.support.product import Product, contents


@pytest.fixture
def old() -> Iterator[Nailgun]:
    """Environment 16 of Nailgun 9.0.1."""
    found = load("9.0.1").all_are("ready")
    with at_work(found):
        yield found


@pytest.fixture
def new() -> Iterator[Nailgun]:
    """Environment 7 of newton's Nailgun."""
    found = load("newton").all_are("ready")
    with at_work(found):
        yield found


def from_nailgun(product: Product, nailgun: Nailgun, *more: object, verb: str = "sync") -> Any:
    result = product(
        verb, "--env", nailgun.env, "--from", "nailgun", "--nailgun", nailgun.url, "--format", "json", *more
    )
    assert result.code == Exit.OK, result.out + result.err
    return result.json


def values(product: Product, env: int, node: str, data_source: str) -> dict[str, Any]:
    found = product("get", "--env", env, "-r", data_source, "--level", f"nodes={node}", "--values", "-f", "json")
    assert found.code == 0, found.err
    loaded: dict[str, Any] = found.json
    return loaded


def effective(product: Product, env: int, node: str, data_source: str) -> dict[str, Any]:
    found = product("get", "--env", env, "-r", data_source, "--level", f"nodes={node}", "-f", "json")
    loaded: dict[str, Any] = found.json
    return loaded


def override(product: Product, env: int, node: str, data_source: str, key: str, value: str, kind: str) -> None:
    where = ("--env", env, "-r", data_source, "--level", f"nodes={node}", "--key", key)
    assert product("override", *where, "--value", value, "--type", kind).code == 0


def notes(report: Any, node: str) -> list[str]:
    return next(list(one["notes"]) for one in report["nodes"] if one["node"] == node)


class TestFuel9:
    def test_a_plan_shows_it_and_changes_nothing(self, product: Product, old: Nailgun) -> None:
        plan = from_nailgun(product, old, verb="plan")
        assert {one["node"] for one in plan["nodes"]} == {"46", "47", "48"}  # the master is none
        assert (plan["uploads"], plan["writes"]) == (3, 0)
        assert {document["data_source"] for node in plan["nodes"] for document in node["documents"]} == {"astute"}
        assert product.changing() == []
        assert from_nailgun(product, old, verb="plan")["digest"] == plan["digest"]

    def test_all_of_it_goes_to_astute_and_a_second_run_sends_nothing(self, product: Product, old: Nailgun) -> None:
        from_nailgun(product, old)
        for node in ("46", "47", "48"):
            assert values(product, old.env, node, "astute") == old.data(node)
        product.changing()
        assert from_nailgun(product, old)["uploads"] == 0
        assert product.changing() == []

    def test_one_node_of_several(self, product: Product, old: Nailgun) -> None:
        report = from_nailgun(product, old, "--node", "node-47.example.com")
        assert [node["node"] for node in report["nodes"]] == ["47"]
        assert report["uploads"] == 1

    def test_a_node_without_data_and_one_whose_data_contradicts_fail_alone(
        self, product: Product, old: Nailgun
    ) -> None:
        """U4."""
        old.deployment = [item for item in old.deployment if item["uid"] != "46"]
        old.data("47")["fqdn"] = "another.example.com"
        result = product("sync", "--env", 16, "--from", "nailgun", "--nailgun", old.url)
        assert result.code == Exit.PARTIAL
        assert "no deployment data" in result.out
        assert "has no node another.example.com" in result.out
        assert values(product, 16, "48", "astute") == old.data("48")

    def test_a_node_run_afterwards_has_the_nodes_word(
        self, product: Product, old: Nailgun, environment: Callable[[int], Path]
    ) -> None:
        """U18: what the nodes' files say differently from Nailgun is theirs, nothing is ambiguous."""
        old.data("46")["debug"] = "nailgun's"
        old.data("46")["only_nailgun"] = {"a": 1}
        from_nailgun(product, old)
        override(product, 16, "46", "astute", "puppet_debug", "false", "bool")
        trees = environment(16)
        before = contents(trees)
        result = product("sync", "--env", 16, "--from", trees, "--format", "json")
        assert result.code == Exit.OK, result.out + result.err
        found = values(product, 16, "46", "astute")
        assert found["debug"] is False
        assert "only_nailgun" not in found
        assert found["puppet_debug"] is True
        changed = [path for path, facts in contents(trees).items() if facts != before[path]]
        assert changed == ["node-46/etc/fuel/cluster/16/astute.yaml"]

    def test_a_run_between_two_node_runs_changes_nothing_for_them(
        self, product: Product, old: Nailgun, environment: Callable[[int], Path]
    ) -> None:
        """U18: the override in the file is not taken for the node's, and goes again to the byte."""
        trees = environment(16)
        assert product("sync", "--env", 16, "--from", trees).code == Exit.OK
        before = contents(trees)
        override(product, 16, "46", "astute", "debug", "true", "bool")
        override(product, 16, "46", "astute", "libvirt_type", "kvm", "str")
        assert product("sync", "--env", 16, "--from", trees).code == Exit.OK
        old.data("46")["debug"] = "nailgun's"
        old.data("46")["syslog"] = {"nailgun": "other"}
        report = from_nailgun(product, old)
        assert any("debug" in note for note in notes(report, "46"))
        stored = values(product, 16, "46", "astute")
        assert stored["debug"] is False  # the node's own, under the override
        assert stored["syslog"] == {"nailgun": "other"}
        assert product("sync", "--env", 16, "--from", trees).code == Exit.OK
        assert values(product, 16, "46", "astute")["syslog"] != {"nailgun": "other"}
        for key in ("debug", "libvirt_type"):
            rm = ("rm-override", "--env", 16, "-r", "astute", "--level", "nodes=46", "--key", key)
            assert product(*rm).code == 0
        assert product("sync", "--env", 16, "--from", trees).code == Exit.OK
        assert contents(trees) == before

    def test_the_same_holds_on_a_new_master(
        self, product: Product, old: Nailgun, environment: Callable[[int], Path]
    ) -> None:
        """U18: with the records lost between any two of the runs."""
        from_nailgun(product, old)
        lose_records(product)
        trees = environment(16)
        astute = trees / "node-46/etc/fuel/cluster/16/astute.yaml"
        astute.write_text(astute.read_text().replace("debug: false", "debug: maybe", 1))
        own = astute.read_bytes()
        override(product, 16, "46", "astute", "debug", "true", "bool")
        assert product("sync", "--env", 16, "--from", trees).code == Exit.OK
        assert astute.read_bytes() != own
        old.data("46")["debug"] = "nailgun's"
        from_nailgun(product, old)
        lose_records(product)
        assert product("sync", "--env", 16, "--from", trees).code == Exit.OK
        assert values(product, 16, "46", "astute")["debug"] == "maybe"
        assert product("rm-override", "--env", 16, "-r", "astute", "--level", "nodes=46", "--key", "debug").code == 0
        assert product("sync", "--env", 16, "--from", trees).code == Exit.OK
        assert yaml.safe_load(astute.read_bytes()) == yaml.safe_load(own)

    def test_values_of_someone_else_are_not_overwritten_in_doubt(self, product: Product, old: Nailgun) -> None:
        from_nailgun(product, old, "--node", "47")  # makes the environment
        content = json.dumps({"debug": "someone's", "deployment_id": 16})
        where = ("--env", 16, "-r", "astute", "--level", "nodes=46")
        assert product("set", *where, "--type", "json", "--value-file", "-", stdin=content).code == 0
        run = ("sync", "--env", 16, "--from", "nailgun", "--nailgun", old.url, "--node", "46")
        result = product(*run)
        assert result.code == Exit.PARTIAL
        assert "'debug'" in result.out
        assert values(product, 16, "46", "astute")["debug"] == "someone's"
        assert product(*run, "--accept-node").code == Exit.OK
        assert values(product, 16, "46", "astute") == old.data("46")

    def test_losing_most_keys_is_withheld(self, product: Product, old: Nailgun) -> None:
        from_nailgun(product, old)
        kept = ("uid", "fqdn", "deployment_id", "openstack_version")
        whole = old.data("46")
        old.deployment[old.deployment.index(whole)] = {key: whole[key] for key in kept}
        result = product("sync", "--env", 16, "--from", "nailgun", "--nailgun", old.url)
        assert result.code == Exit.UNSAFE
        assert values(product, 16, "46", "astute") == whole

    def test_killed_before_the_upload_nothing_is_misled(
        self, product: Product, old: Nailgun, environment: Callable[[int], Path]
    ) -> None:
        from configdb_sync.errors import ConnectionLostError

        def cut(request: Any) -> None:
            if (
                request.method == "PUT"
                and "/nodes/46/" in request.path
                and b'"nailgun":true' not in (request.body or b"")
            ):
                raise ConnectionLostError("cut")

        product.fault = cut
        product("sync", "--env", 16, "--from", "nailgun", "--nailgun", old.url, "--node", "46")
        product.fault = None
        result = product("sync", "--env", 16, "--from", environment(16))
        assert result.code == Exit.OK, result.out


class TestFuel10:
    def test_what_is_equal_on_all_nodes_is_cluster_the_rest_is_node(self, product: Product, new: Nailgun) -> None:
        from_nailgun(product, new)
        cluster, node = values(product, 7, "19", "cluster"), values(product, 7, "19", "node")
        assert cluster | node == new.data("19")
        assert not cluster.keys() & node.keys()
        assert {"deployment_id", "mysql", "nodes"} <= cluster.keys()
        assert {"uid", "fqdn", "roles", "network_scheme", "glance"} <= node.keys()
        assert values(product, 7, "19", "astute") == {}
        assert from_nailgun(product, new)["uploads"] == 0

    def test_where_the_last_node_run_had_a_key_it_stays(
        self, product: Product, new: Nailgun, environment: Callable[[int], Path]
    ) -> None:
        trees = environment(7)
        assert product("sync", "--env", 7, "--from", trees).code == Exit.OK
        expected = {name: values(product, 7, "19", name) for name in ("node", "cluster")}
        plan = from_nailgun(product, new, verb="plan")
        astray = {
            (document["data_source"], change["key"][0])
            for node in plan["nodes"]
            for document in node["documents"]
            for change in document["upload"]
        }
        assert astray == set()
        assert "glance" in expected["node"]
        assert "glance" in expected["cluster"]
        new.data("19")["glance"]["db_password"] = "CANARY-new"
        new.data("19")["fresh"] = 1
        from_nailgun(product, new)
        assert values(product, 7, "19", "cluster")["glance"]["db_password"] == "CANARY-new"
        assert values(product, 7, "19", "node") == expected["node"] | {"fresh": 1}

    def test_a_node_run_after_a_first_upload_is_not_misled(
        self, product: Product, new: Nailgun, environment: Callable[[int], Path]
    ) -> None:
        from_nailgun(product, new)
        trees = environment(7)
        before = contents(trees)
        assert product("sync", "--env", 7, "--from", trees).code == Exit.OK
        assert contents(trees) == before
        assert "image_cache_max_size" in values(product, 7, "19", "node")["glance"]
        assert "image_cache_max_size" not in values(product, 7, "19", "cluster")["glance"]

    def test_one_node_alone_keeps_its_name(self, product: Product, new: Nailgun) -> None:
        new.nodes = [new.node("19")]
        from_nailgun(product, new)
        assert values(product, 7, "19", "node") == {"uid": "19", "fqdn": "node-1.example.com"}


def lose_records(product: Product) -> None:
    for path in product.state.glob("configdb-sync.sqlite*"):
        path.unlink()


def test_nailgun_must_be_set(product: Product) -> None:
    result = product("plan", "--env", 1, "--from", "nailgun")
    assert result.code == Exit.USAGE
    assert "--nailgun" in result.err


def test_nailgun_away_ends_the_run_before_anything(product: Product) -> None:
    result = product("sync", "--env", 1, "--from", "nailgun", "--nailgun", "http://127.0.0.1:9")
    assert result.code == Exit.NODES
    assert product.changing() == []
