"""What is left of nodes that are no more (issue: clean-up; U18): shown, and taken away when asked."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from configdb_sync.exits import Exit
from tests.support.nailgun import Nailgun
from tests.support.product import MEANT, Product
from tests.support.trees import make_node, make_trees


@pytest.fixture
def trees(tmp_path: Path) -> Path:
    return make_trees(tmp_path / "trees", "1", "2", "3")


def gc(product: Product, *more: object, code: Exit = Exit.OK) -> Any:
    result = product("gc", "--env", 5, *more, "--format", "json")
    assert result.code == code, result.out + result.err
    assert "CANARY" not in result.out
    return result.json


def sync(product: Product, trees: Path) -> None:
    result = product("sync", "--env", 5, "--from", trees)
    assert result.code == Exit.OK, result.out + result.err


def override(product: Product, node: str, data_source: str = "globals") -> None:
    where = ("--env", 5, "-r", data_source, "--level", f"nodes={node}", "--key", "use_syslog")
    assert product("override", *MEANT, *where, "--type", "bool", "--value", "false", "--comment", "because").code == 0


def stored(product: Product, node: str, data_source: str, kind: str = "--values") -> str:
    return product("get", "--env", 5, "-r", data_source, "--level", f"nodes={node}", kind, "-f", "json").out.strip()


def test_with_all_nodes_there_nothing_is_left(product: Product, trees: Path, nailgun: Nailgun) -> None:
    sync(product, trees)
    assert gc(product, "--from", trees)["nodes"] == []
    assert gc(product, "--nailgun", nailgun.url)["nodes"] == []
    assert "Nothing is left" in product("gc", "--env", 5, "--from", trees).out


def test_it_is_shown_and_nothing_changes(product: Product, trees: Path) -> None:
    sync(product, trees)
    override(product, "3")
    shutil.rmtree(trees / "node-3")
    product.changing()
    first = product("gc", "--env", 5, "--from", trees)
    assert first.code == Exit.OK
    assert "node 3 (node-3.example.com)" in first.out
    assert "node 3, globals: use_syslog (last set by" in first.out
    assert "'because'" in first.out
    assert "astute: values of 7 keys, our record" in first.out
    assert "--remove" in first.out
    assert "CANARY" not in first.out
    assert product("gc", "--env", 5, "--from", trees).out == first.out  # stable
    assert product.changing() == []


def test_what_is_removed_is_the_gone_nodes_alone(product: Product, trees: Path) -> None:
    sync(product, trees)
    shutil.rmtree(trees / "node-3")
    product.changing()
    assert gc(product, "--from", trees, "--remove")["removed"] == {"3": ["astute", "globals"]}
    assert all("/nodes/3/" in request.path and request.body == b"{}" for request in product.changing())
    assert stored(product, "3", "astute") == "{}"
    assert stored(product, "2", "astute") != "{}"
    assert gc(product, "--from", trees)["nodes"] == []
    product.changing()
    sync(product, trees)
    assert product.changing() == []


def test_what_is_under_an_override_stays_unless_asked_for(product: Product, trees: Path) -> None:
    sync(product, trees)
    override(product, "3")
    shutil.rmtree(trees / "node-3")
    result = product("gc", "--env", 5, "--from", trees, "--remove")
    assert result.code == Exit.OK
    assert "Kept, since an override is on them: node 3, globals" in result.out
    assert stored(product, "3", "globals") != "{}"
    assert stored(product, "3", "globals", "--overrides") != "{}"
    assert stored(product, "3", "astute") == "{}"
    left = gc(product, "--from", trees)["nodes"]
    assert [document["data_source"] for document in left[0]["documents"]] == ["globals"]
    assert left[0]["documents"][0]["overrides"] == ["use_syslog"]
    gc(product, "--from", trees, "--remove", "--remove-overrides")
    assert stored(product, "3", "globals") == stored(product, "3", "globals", "--overrides") == "{}"
    assert gc(product, "--from", trees)["nodes"] == []


def test_a_node_that_comes_back_after_all_has_its_own_values(product: Product, trees: Path, tmp_path: Path) -> None:
    """U18: an override was in its file when it went; it isn't taken for the node's own."""
    sync(product, trees)
    own = (trees / "node-3/etc/hiera/globals.yaml").read_bytes()
    override(product, "3")
    sync(product, trees)
    assert (trees / "node-3/etc/hiera/globals.yaml").read_bytes() != own
    (trees / "node-3").rename(tmp_path / "away")
    rm = ("rm-override", "--env", 5, "-r", "globals", "--level", "nodes=3", "--key", "use_syslog")
    assert product(*rm).code == 0
    assert "override in the node's file" in product("gc", "--env", 5, "--from", trees, "--remove").out
    (tmp_path / "away").rename(trees / "node-3")
    sync(product, trees)
    assert (trees / "node-3/etc/hiera/globals.yaml").read_bytes() == own


def test_nailgun_has_the_word_on_who_is_there(product: Product, trees: Path, nailgun: Nailgun) -> None:
    sync(product, trees)
    shutil.rmtree(trees / "node-3")
    nailgun.node("2")["online"] = False  # it can't be worked on, but it is there
    assert gc(product, "--from", trees, "--nailgun", nailgun.url)["nodes"] == []
    nailgun.nodes.remove(nailgun.node("3"))
    found = gc(product, "--nailgun", nailgun.url, "--remove")
    assert found["removed"] == {"3": ["astute", "globals"]}


def test_another_place_keeps_what_it_remembers(product: Product, trees: Path, tmp_path: Path) -> None:
    sync(product, trees)
    other = make_trees(tmp_path / "other", "1", "2")
    found = product("gc", "--env", 5, "--from", other, "--remove")
    assert found.code == Exit.OK
    assert f"also known from directory:{trees}" in found.out
    assert stored(product, "3", "astute") == "{}"
    sync(product, trees)  # the node is there after all, with its own record
    assert stored(product, "3", "astute") != "{}"


def test_an_environment_that_nailgun_no_longer_has(product: Product, trees: Path, nailgun: Nailgun) -> None:
    sync(product, trees)
    root = ("--env", 5, "-r", "globals", "--key", "x", "--type", "int", "--value", "1")
    assert product("override", *MEANT, *root).code == 0
    nailgun.cluster["id"] = 6
    result = product("gc", "--env", 5, "--nailgun", nailgun.url, "--remove", "--remove-overrides")
    assert result.code == Exit.OK
    assert "Nailgun has no environment 5" in result.out
    assert [stored(product, node, "astute") for node in "123"] == ["{}"] * 3
    assert product("get", "--env", 5, "-r", "globals", "--overrides", "-f", "json").json == {"x": 1}


def test_another_environment_is_not_touched(product: Product, trees: Path, tmp_path: Path) -> None:
    sync(product, trees)
    other = tmp_path / "other"
    make_node(other, "9", env=6)
    assert product("sync", "--env", 6, "--from", other).code == Exit.OK
    shutil.rmtree(trees / "node-3")
    gc(product, "--from", trees, "--remove")
    product.changing()
    assert product("sync", "--env", 6, "--from", other).code == Exit.OK
    assert product.changing() == []


def test_what_someone_changes_meanwhile_stays(product: Product, trees: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from configdb_sync.sync.gc import Collector

    sync(product, trees)
    shutil.rmtree(trees / "node-3")
    find = Collector.find

    def changed(self: Collector, *arguments: Any) -> Any:
        found = find(self, *arguments)
        where = ("--env", 5, "-r", "astute", "--level", "nodes=3", "--key", "debug")
        assert product("set", *where, "--type", "bool", "--value", "true").code == 0
        return found

    monkeypatch.setattr(Collector, "find", changed)
    result = product("gc", "--env", 5, "--from", trees, "--remove")
    assert result.code == Exit.PARTIAL
    assert "node 3, data source astute: someone changed its values" in result.out
    assert stored(product, "3", "astute") != "{}"
    assert stored(product, "3", "globals") == "{}"


def test_killed_in_the_middle_the_next_one_does_the_rest(product: Product, trees: Path) -> None:
    from configdb_sync.errors import AccessError

    sync(product, trees)
    shutil.rmtree(trees / "node-3")

    def cut(request: Any) -> None:
        if request.method == "PUT" and product.requests[-2].method == "PUT":
            raise AccessError("cut")

    product.fault = cut
    product("gc", "--env", 5, "--from", trees, "--remove")
    product.fault = None
    gc(product, "--from", trees, "--remove")
    assert gc(product, "--from", trees)["nodes"] == []


@pytest.mark.parametrize(
    "flags", [[], ["--from", ".", "--remove-overrides"], ["--from", ".", "--levels", "nodes=%{role}"]]
)
def test_what_it_cannot_do_it_refuses(product: Product, trees: Path, flags: list[str]) -> None:
    result = product("gc", "--env", 5, *[str(trees) if flag == "." else flag for flag in flags])
    assert result.code == Exit.USAGE
    assert product.changing() == []


def test_an_environment_nobody_knows(product: Product, trees: Path) -> None:
    assert gc(product, "--from", trees)["nodes"] == []


def test_a_server_without_digests_and_history(product: Product, trees: Path) -> None:
    """The reference server lists the nodes that it has met, and tells nobody's name."""
    product.plain = True
    sync(product, trees)
    override(product, "3")
    shutil.rmtree(trees / "node-3")
    result = product("gc", "--env", 5, "--from", trees)
    assert "node 3, globals: use_syslog\n" in result.out
    gc(product, "--from", trees, "--remove", "--remove-overrides")
    assert gc(product, "--from", trees)["nodes"] == []
    assert stored(product, "2", "astute") != "{}"


def test_levels_over_the_nodes(product: Product, trees: Path) -> None:
    levels = ("--levels", "cluster=%{deployment_id},nodes=%{uid}")
    assert product("sync", "--env", 5, "--from", trees, *levels).code == Exit.OK
    shutil.rmtree(trees / "node-3")
    assert gc(product, "--from", trees, "--remove", *levels)["removed"] == {"3": ["astute", "globals"]}
    assert gc(product, "--from", trees, *levels)["nodes"] == []
