"""Standing orders and overrides of replaced nodes (architecture, What the ConfigDB server really does)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given as generated
from hypothesis import strategies as st

from configdb_sync.exits import Exit
from configdb_sync.sync.standing_overrides import StandingOverride, from_records, standing_values, to_records
from tests.support.product import Product, contents
from tests.support.trees import make_node, make_trees

leaf = st.one_of(st.none(), st.booleans(), st.text(max_size=3), st.lists(st.integers(), max_size=2))
orders = st.lists(
    st.builds(StandingOverride, st.text(max_size=3), st.lists(st.text(), min_size=1, max_size=2).map(tuple), leaf),
    max_size=3,
)


@generated(st.dictionaries(st.sampled_from(["tenant", "x"]), leaf), orders)
def test_orders_are_kept_beside_the_rest(document: dict[str, Any], listed: list[StandingOverride]) -> None:
    kept = to_records(document, listed)
    assert from_records(kept) == tuple(listed)
    assert {key: value for key, value in kept.items() if key != "orders"} == document
    assert to_records(kept, []) == document


@generated(st.one_of(leaf, st.lists(st.one_of(leaf, st.dictionaries(st.sampled_from(["path", "value"]), leaf)))))
def test_what_is_no_order_is_left_out(value: Any) -> None:
    assert from_records({"orders": value}) == ()


def test_a_node_with_an_override_of_that_key_keeps_it() -> None:
    listed = [StandingOverride("astute", ("nova", "debug"), value=True), StandingOverride("globals", ("x",), 1)]
    beneath = {"nova": {"debug": False, "workers": 4}}
    assert standing_values(listed, "astute", {}, beneath) == {"nova": {"debug": True, "workers": 4}}
    assert standing_values(listed, "astute", {"nova": 1}, beneath) == {}


@pytest.fixture
def trees(tmp_path: Path) -> Path:
    return make_trees(tmp_path / "trees", "1", "2")


def test_an_order_reaches_nodes_that_come_later_and_ends_without_a_trace(product: Product, trees: Path) -> None:
    sync = ("sync", "--env", 5, "--from", trees)
    key = ("--env", 5, "-r", "astute", "--key", "nova.debug")
    assert product(*sync).code == 0
    before = contents(trees)
    own = ("override", *key, "--level", "nodes=2", "--type", "str", "--value", "own", "--change-type")
    assert product(*own).code == 0
    made = product("override", *key, "--all-nodes", "--type", "bool", "--value", "true")
    assert made.code == 0
    assert "for node 1." in made.out
    assert "their own override: node 2." in made.out
    assert product(*sync).code == 0
    make_node(trees, "3")
    plan = product("plan", "--env", 5, "--from", trees)
    assert "astute: standing override for all nodes" in plan.out
    done = product(*sync)
    assert done.code == 0
    assert "astute: standing override for all nodes" in done.out
    text = {node: (trees / f"node-{node}/etc/astute.yaml").read_text() for node in "123"}
    assert "  debug: true" in text["1"]
    assert '  debug: "own"' in text["2"]
    assert "  debug: true" in text["3"]
    product.changing()
    assert product(*sync).code == 0
    assert product.changing() == []
    ended = product("rm-override", *key, "--all-nodes")
    assert "from nodes 1, 3." in ended.out
    assert product("rm-override", *key, "--level", "nodes=2").code == 0
    assert product(*sync).code == 0
    shutil.rmtree(trees / "node-3")
    assert contents(trees) == before
    again = product("rm-override", *key, "--all-nodes")
    assert again.code == Exit.USAGE
    assert "no standing override" in again.err


def test_a_replaced_nodes_overrides_are_taken_over(product: Product, trees: Path) -> None:
    sync = ("sync", "--env", 5, "--from", trees)
    assert product(*sync).code == 0
    where = ("--env", 5, "-r", "globals")
    override = ("override", *where, "--level", "nodes=2", "--key", "use_syslog", "--type", "bool", "--value", "false")
    assert product(*override).code == 0
    shutil.rmtree(trees / "node-2")
    make_node(trees, "7")
    assert product(*sync).code == 0
    plan = product("plan", "--env", 5, "--from", trees)
    assert "node 2, which isn't here: globals" in plan.out
    assert "--copy-from 2" in plan.out
    assert product("override", *where, "--level", "nodes=7", "--copy-from", "2").code == 0
    assert product(*sync).code == 0
    assert "use_syslog: false" in (trees / "node-7/etc/hiera/globals.yaml").read_text()
    none = product("override", *where, "--level", "nodes=7", "--copy-from", "99")
    assert none.code == Exit.USAGE
    assert "/nodes/99/" in none.err


def test_an_order_without_a_key_or_with_a_level_is_refused(product: Product, trees: Path) -> None:
    assert product("sync", "--env", 5, "--from", trees).code == 0
    order = ("override", "--env", 5, "-r", "astute", "--all-nodes", "--type", "int", "--value", "1")
    assert product(*order).code == Exit.USAGE
    assert product(*order, "--key", "x", "--level", "nodes=1").code == Exit.USAGE
