"""Nodes at rest are told by digests alone, and by nothing less (U13)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configdb_sync.hiera.documents import Reader
from configdb_sync.sync.fingerprint import UnchangedNode, decode, encode
from tests.support.product import MEANT, Product
from tests.support.trees import make_node, make_trees

texts = st.lists(st.text(max_size=4), max_size=2).map(tuple)
levels = st.lists(st.tuples(st.text(), st.text()), max_size=2).map(tuple)


@given(st.builds(UnchangedNode, st.text(), levels, st.one_of(st.none(), st.text()), texts, texts, texts, texts))
def test_it_comes_back_as_it_was(quiet: Any) -> None:
    assert decode(encode(quiet)) == quiet


@pytest.fixture
def trees(tmp_path: Path) -> Path:
    return make_trees(tmp_path / "trees", "1", "2")


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts the documents that are read."""
    count: list[int] = []
    read = Reader.read

    def counted(self: Reader, raw: bytes) -> Any:
        count.append(len(raw))
        return read(self, raw)

    monkeypatch.setattr(Reader, "read", counted)
    return count


def sync(product: Product, trees: Path, *more: object) -> Any:
    result = product("sync", "--env", 5, "--from", trees, "--format", "json", *more)
    assert result.code == 0, result.err
    return result.json


def test_a_second_run_parses_nothing_and_says_the_same(product: Product, trees: Path, parsed: list[int]) -> None:
    make_node(trees, "3", extra="a: 1\n", globals="a: 1\na: 2\n")
    sync(product, trees)
    parsed.clear()
    second = sync(product, trees)
    assert parsed == []
    assert [node["undeclared"] for node in second["nodes"]] == [[], [], ["extra.yaml"]]
    assert "stands twice" in str(second["nodes"][2]["notes"])
    assert [node["fqdn"] for node in second["nodes"]] == [f"node-{node}.example.com" for node in "123"]
    plan = product("plan", "--env", 5, "--from", trees, "--format", "json")
    assert parsed == []
    assert plan.json["uploads"] == plan.json["writes"] == 0


@pytest.mark.parametrize("change", ["file", "new file", "gone", "override", "values", "root", "setting", "order"])
def test_any_change_wakes_a_node(product: Product, trees: Path, parsed: list[int], change: str) -> None:
    sync(product, trees)
    where = ("--env", 5, "-r", "globals", "--key", "use_syslog", "--type", "bool", "--value", "false")
    hiera = trees / "node-2/etc/hiera"
    more: tuple[object, ...] = ()
    if change == "file":
        (hiera / "globals.yaml").write_text("use_syslog: 7\n")
    elif change == "new file":
        (hiera / "nodes.yaml").write_text("nodes: []\n")
    elif change == "gone":
        (hiera / "globals.yaml").unlink()
    elif change == "override":
        product("override", *MEANT, *where, "--level", "nodes=2")
    elif change == "values":
        product("set", *where, "--level", "nodes=2")
    elif change == "root":
        product("override", *MEANT, *where[:4], "--key", "fresh", "--type", "int", "--value", "1")
    elif change == "setting":
        more = ("--data-sources", "-nodes")
    else:
        product("override", *MEANT, *where, "--all-nodes")
    parsed.clear()
    found = sync(product, trees, *more)
    assert parsed != []
    woken = {node["node"] for node in found["nodes"] if node["documents"]}
    expected = {"root": {"1", "2"}, "order": {"1", "2"}, "setting": set()}.get(change, {"2"})
    assert woken == expected
    sync(product, trees, *more)
    parsed.clear()
    assert sync(product, trees, *more)["uploads"] == 0
    assert parsed == []


def test_the_reason_of_an_override_wakes_no_node(product: Product, trees: Path, parsed: list[int]) -> None:
    sync(product, trees)
    override = (
        "override",
        *MEANT,
        "--env",
        5,
        "-r",
        "globals",
        "--level",
        "nodes=2",
        "--key",
        "use_syslog",
        "-t",
        "int",
    )
    for reason in ("first", "second"):
        assert product(*override, "--value", 7, "--reason", reason).code == 0
        sync(product, trees)
        sync(product, trees)
    parsed.clear()
    assert product(*override, "--value", 7, "--reason", "third").code == 0
    sync(product, trees)
    assert parsed == []


def test_a_nodes_hiera_yaml_is_part_of_what_it_is(product: Product, trees: Path, parsed: list[int]) -> None:
    text = ":hierarchy: [astute, globals]\n"
    for node in (1, 2):
        (trees / f"node-{node}/etc/hiera.yaml").write_text(text)
    sync(product, trees)
    parsed.clear()
    sync(product, trees)
    assert parsed == []
    (trees / "node-2/etc/hiera.yaml").write_text(":hierarchy: [globals, astute]\n")
    sync(product, trees)
    assert parsed != []
    sync(product, trees)
    parsed.clear()
    sync(product, trees)
    assert parsed == []


def test_problems_are_never_put_to_rest(product: Product, trees: Path, parsed: list[int]) -> None:
    sync(product, trees)
    (trees / "node-2/etc/hiera/globals.yaml").write_text("a: [\n")
    for _ in range(2):
        parsed.clear()
        assert product("sync", "--env", 5, "--from", trees).code == 3
        assert parsed != []


def test_a_node_at_rest_can_be_asked_for_by_name(product: Product, trees: Path) -> None:
    sync(product, trees)
    found = sync(product, trees, "--node", "node-2.example.com")
    assert [node["node"] for node in found["nodes"]] == ["2"]
