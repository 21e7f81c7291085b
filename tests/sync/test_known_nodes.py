"""Runs from trees with a Nailgun at hand (U4, U14): who is who, and who is left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from configdb_sync.exits import Exit
from tests.support.nailgun import Nailgun
from tests.support.product import Product
from tests.support.trees import make_node, make_trees


@pytest.fixture
def trees(tmp_path: Path) -> Path:
    return make_trees(tmp_path / "trees", "1", "2", "3")


def sync(product: Product, nailgun: Nailgun, trees: Path, *more: object) -> tuple[int, dict[str, Any]]:
    run = ("sync", "--env", 5, "--from", trees, "--nailgun", nailgun.url, "--format", "json")
    result = product(*run, *more)
    assert result.out, result.err
    return result.code, {node["node"]: node for node in result.json["nodes"]}


def problems(node: Any) -> str:
    return " ".join(problem["what"] for problem in node["problems"])


def test_with_all_nodes_known_it_is_a_run_like_any_other(product: Product, nailgun: Nailgun, trees: Path) -> None:
    code, nodes = sync(product, nailgun, trees)
    assert code == Exit.OK
    assert all(sorted(node["uploaded"]) == ["astute", "globals"] for node in nodes.values())
    assert sorted(nodes) == ["1", "2", "3"]


def test_a_node_that_nailgun_does_not_know_fails_alone(product: Product, nailgun: Nailgun, trees: Path) -> None:
    make_node(trees, "9")
    code, nodes = sync(product, nailgun, trees)
    assert code == Exit.PARTIAL
    assert "has no node node-9.example.com" in problems(nodes["9"])
    assert [node for node in nodes if nodes[node]["problems"]] == ["9"]
    assert not any("/nodes/9/" in request.path for request in product.changing())


def test_a_node_whose_id_is_another_one_in_nailgun_fails_alone(product: Product, nailgun: Nailgun, trees: Path) -> None:
    """A replaced node: the tree of the old one is still there, under its old id."""
    nailgun.node("2")["id"] = 12
    code, nodes = sync(product, nailgun, trees)
    assert code == Exit.PARTIAL
    assert "as 12, its facts say uid 2" in problems(nodes["2"])
    assert nodes["12"]["notes"] == [f"left out: Nailgun has it, but it isn't at directory:{trees}"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [({"online": False}, "offline"), ({"pending_deletion": True}, "deleted"), ({"status": "provisioning"}, "system")],
)
def test_who_cannot_be_worked_on_is_left_out_and_said(
    product: Product, nailgun: Nailgun, trees: Path, change: dict[str, Any], reason: str
) -> None:
    nailgun.node("2").update(change)
    code, nodes = sync(product, nailgun, trees)
    assert code == Exit.OK
    assert reason in nodes["2"]["notes"][0]
    assert nodes["2"]["uploaded"] == []
    assert not any("/nodes/2/" in request.path for request in product.changing())
    assert nodes["3"]["uploaded"]


def test_left_out_nodes_of_no_interest_are_not_mentioned(product: Product, nailgun: Nailgun, trees: Path) -> None:
    nailgun.node("2")["online"] = False
    code, nodes = sync(product, nailgun, trees, "--node", "3")
    assert code == Exit.OK
    assert sorted(nodes) == ["3"]
    code, nodes = sync(product, nailgun, trees, "--node", "node-2.example.com")
    assert code == Exit.OK
    assert sorted(nodes) == ["2"]


def test_an_environment_that_nailgun_does_not_have_is_no_run(product: Product, nailgun: Nailgun, trees: Path) -> None:
    result = product("sync", "--env", 6, "--from", trees, "--nailgun", nailgun.url)
    assert result.code == Exit.ENVIRONMENT
    assert "has no environment 6" in result.err
    assert product.changing() == []


@pytest.mark.parametrize(("status", "code"), [("ready", Exit.OK), ("deploying", Exit.PARTIAL)])
def test_nailguns_status_tells_whether_a_failure_stops_the_deployment(
    product: Product, nailgun: Nailgun, trees: Path, status: str, code: Exit
) -> None:
    """U14: nodes that are ready only warn."""
    nailgun.node("2")["status"] = status
    (trees / "node-2/etc/hiera/globals.yaml").write_text("a: [")
    result = product("sync", "--env", 5, "--from", trees, "--nailgun", nailgun.url, "--stage", "main")
    assert result.code == code, result.out
    assert ("warning:" in result.out.splitlines()[-1]) == (code is Exit.OK)
