"""U24: lookup, compare and override go by each node's own hiera.yaml, from ConfigDB alone and from files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from configdb_sync.exits import Exit
from configdb_sync.hiera.hierarchy import Hierarchy, from_json, to_json
from tests.configdb.legacy import legacy_url
from tests.hiera_backend.backend import HERE, require, run_ruby
from tests.support.product import Product

__all__ = ["legacy_url"]

ASTUTE = {"debug": True, "list": [1], "only": "a", "fqdn": "", "deployment_id": 5}
GLOBALS = {"debug": False, "list": [2], "more": "g"}
REVERSED = {":backends": ["yaml"], ":hierarchy": ["astute", "globals"], ":yaml": {":datadir": "/etc/hiera"}}


@pytest.fixture
def trees(tmp_path: Path) -> Path:
    """Two nodes of environment 5; Hiera on the second asks astute first."""
    top = tmp_path / "trees"
    for node in ("1", "2"):
        hiera = top / f"node-{node}/etc/hiera"
        hiera.mkdir(parents=True)
        own = {**ASTUTE, "uid": node, "fqdn": f"node-{node}.example.com"}
        (hiera / "astute.yaml").write_text(yaml.safe_dump(own))
        (hiera / "globals.yaml").write_text(yaml.safe_dump(GLOBALS))
    order(top, REVERSED)
    return top


def order(trees: Path, whole: object, node: str = "2") -> Path:
    """Write a node's hiera.yaml; return its place."""
    place = trees / f"node-{node}/etc/hiera.yaml"
    place.write_text(yaml.safe_dump(whole))
    return place


def sync(product: Product, trees: Path, *more: object) -> Any:
    done = product("sync", "--env", 5, "--from", trees, "--format", "json", *more)
    assert done.code == Exit.OK, done.err
    return done.json


def debug(product: Product, node: int, *more: object) -> str:
    done = product("lookup", "debug", "--env", 5, "--node", node, *more)
    assert done.code == Exit.OK, done.err
    return done.out.strip()


def notes(report: Any, node: str) -> str:
    (found,) = [one["notes"] for one in report["nodes"] if one["node"] == node]
    return " ".join(found)


def test_each_node_is_answered_for_by_its_own(product: Product, trees: Path, tmp_path: Path) -> None:
    sync(product, trees)
    assert (debug(product, 1), debug(product, 2)) == ("false", "true")
    assert (debug(product, 1, "--from", trees), debug(product, 2, "--from", trees)) == ("false", "true")
    path = tmp_path / "given.yaml"
    path.write_text(yaml.safe_dump({**REVERSED, ":hierarchy": ["globals", "astute"]}))
    for more in ((), ("--from", trees)):
        assert debug(product, 2, "--hiera-yaml", path, *more) == "false"
    found = product("lookup", "debug", "--env", 5, "--node", 2, "--explain", "--format", "json").json
    assert [(one["data_source"], one["outcome"]) for one in found["layers"]] == [
        ("astute", "wins"),
        ("globals", "hidden"),
    ]


def test_what_hiera_does_not_read_is_found_all_the_same(product: Product, trees: Path) -> None:
    order(trees, {**REVERSED, ":hierarchy": ["astute"]})
    sync(product, trees)
    assert product("lookup", "more", "--env", 5, "--node", 2).code == Exit.USAGE
    assert product("lookup", "more", "--env", 5, "--node", 1).out == "g\n"
    (found,) = product("find", "more", "--env", 5, "--format", "json").json["keys"]
    assert (found["data_source"], found["nodes"]) == ("globals", ["1", "2"])
    assert product("compare", "--env", 5, "--key", "more", "--exit-code").code == Exit.OK
    differences = product("compare", "--env", 5, "--node", "1,2", "--format", "json").json["differences"]
    keys = {tuple(one["key"]) for one in differences}
    assert keys == {("uid",), ("fqdn",)}


def test_ruby_answers_the_same(product: Product, trees: Path) -> None:
    require("ruby", "hiera")
    sync(product, trees)
    node = trees / "node-2/etc"
    config = trees / "for-ruby.yaml"
    config.write_text((node / "hiera.yaml").read_text().replace("/etc/hiera", str(node / "hiera")))
    keys = ["debug", "list", "only", "more"]
    (answers,) = run_ruby(HERE / "lookups3.rb", {"answers": [{"one": str(config), "scope": {}, "keys": keys}]})
    merges = {"priority": "first", "array": "unique"}
    assert len(answers) > len(keys)
    for key, kind, answer in answers:
        for more in ((), ("--from", trees)):
            where = ("--env", 5, "--node", 2, "--merge", merges[kind], "--format", "json")
            assert product("lookup", key, *where, *more).json == answer, (key, kind)


def test_an_override_takes_the_data_source_that_the_node_reads(product: Product, trees: Path) -> None:
    sync(product, trees)
    for node, data_source in ((1, "globals"), (2, "astute")):
        place = ("--env", 5, "--level", f"nodes={node}", "--key", "debug", "--type", "bool", "--value", "false")
        done = product("override", *place)
        assert done.code == Exit.OK, done.err
        kept = product("get", "--env", 5, "--level", f"nodes={node}", "-r", data_source, "--overrides", "-f", "json")
        assert kept.json == {"debug": False}, kept.err


@pytest.mark.parametrize("plain", [False, True])
def test_a_run_without_changes_stores_nothing_and_a_changed_order_is_stored_once(
    product: Product, trees: Path, *, plain: bool
) -> None:
    product.plain = plain
    sync(product, trees)
    assert [one for one in product.changing() if one.method == "PUT"]
    for _ in range(2):
        assert sync(product, trees)["uploads"] == 0
        assert product.changing() == []
    order(trees, {**REVERSED, ":hierarchy": ["globals", "astute"]})
    assert product("plan", "--env", 5, "--from", trees).code == Exit.OK
    assert product.changing() == []
    sync(product, trees)
    assert [one.method for one in product.changing()] == ["PUT"]
    assert debug(product, 2) == "false"
    for _ in range(2):
        product.requests.clear()
        sync(product, trees)
        assert product.changing() == []


def test_a_node_that_was_uploaded_before_gets_its_order_with_the_next_run(product: Product, trees: Path) -> None:
    place = trees / "node-2/etc/hiera.yaml"
    text = place.read_text()
    place.unlink()
    sync(product, trees)
    assert debug(product, 2) == "false"
    place.write_text(text)
    sync(product, trees)
    assert debug(product, 2) == "true"
    place.unlink()
    sync(product, trees)
    assert debug(product, 2) == "true"


def test_records_and_order_do_not_disturb_each_other(product: Product, trees: Path) -> None:
    sync(product, trees)
    file = trees / "node-2/etc/hiera/astute.yaml"
    own = yaml.safe_load(file.read_bytes())
    place = ("--env", 5, "--level", "nodes=2", "-r", "astute", "--key", "debug")
    assert product("override", *place, "--type", "bool", "--value", "false").code == Exit.OK
    sync(product, trees)
    assert debug(product, 2) == "false"
    assert yaml.safe_load(file.read_bytes())["debug"] is False
    order(trees, {**REVERSED, ":hierarchy": ["globals", "astute"]})
    sync(product, trees)
    order(trees, REVERSED)
    # Another master knows only what ConfigDB keeps.
    (product.state / "configdb-sync.sqlite").unlink()
    sync(product, trees)
    assert product("rm-override", *place).code == Exit.OK
    sync(product, trees)
    assert yaml.safe_load(file.read_bytes()) == own
    assert debug(product, 2) == "true"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[]", "mapping"),
        ("a: [", "line"),
        (":hierarchy: [a]\n:yaml:\n  :datadir: /srv/data", "/srv/data"),
        ("version: 5", "no files of /etc/hiera"),
        ("[" * 60_000, ""),
        ("&a " * 10_000, ""),
        ("\0\ufffe", ""),
    ],
)
def test_one_that_is_no_use_is_noted_and_harms_nothing(product: Product, trees: Path, content: str, said: str) -> None:
    (trees / "node-2/etc/hiera.yaml").write_text(content)
    report = sync(product, trees)
    assert "lookups don't follow its hiera.yaml" in notes(report, "2")
    assert said in notes(report, "2")
    assert notes(report, "1") == ""
    assert (debug(product, 1), debug(product, 2)) == ("false", "false")
    done = product("lookup", "debug", "--env", 5, "--node", 2, "--from", trees)
    assert (done.code, done.out) == (Exit.OK, "false\n")
    assert "hiera.yaml of node 2" in done.err
    product.requests.clear()
    assert "lookups" in notes(sync(product, trees), "2")
    assert product.changing() == []


@pytest.mark.parametrize("kind", ["huge", "fifo", "link"])
def test_one_that_is_hostile_is_as_none(product: Product, trees: Path, kind: str) -> None:
    place = trees / "node-2/etc/hiera.yaml"
    if kind == "huge":
        place.write_text(place.read_text() + "#" * 65_536)
    else:
        outside = trees.parent / "outside.yaml"
        place.rename(outside)
        os.mkfifo(place) if kind == "fifo" else place.symlink_to(outside)
    assert notes(sync(product, trees), "2") == ""
    assert debug(product, 2) == debug(product, 2, "--from", trees) == "false"


def test_what_is_not_followed_of_it_is_said(product: Product, trees: Path) -> None:
    order(trees, {**REVERSED, ":backends": ["eyaml", "yaml"]})
    sync(product, trees)
    for more in ((), ("--from", trees)):
        done = product("lookup", "debug", "--env", 5, "--node", 2, *more)
        assert done.out == "true\n"
        assert "hiera.yaml of node 2: the backend eyaml is not followed" in done.err


@pytest.mark.parametrize(
    "value", [None, [], "a", {}, {"levels": []}, {"levels": [1]}, {"levels": ["a"], "notes": [1]}, {"levels": "a"}]
)
def test_what_is_no_stored_hierarchy_counts_as_none(value: Any) -> None:
    assert from_json(value) is None


def test_a_stored_hierarchy_is_as_it_was() -> None:
    for one in (Hierarchy(("a", "b/%{fqdn}")), Hierarchy(("a",), ("a note",))):
        assert from_json(to_json(one)) == one


def test_a_server_that_keeps_no_records_does_without(product: Product, trees: Path, legacy_url: str) -> None:
    trees = trees.rename(trees.with_name("legacy"))
    for node in ("1", "2"):
        file = trees / f"node-{node}/etc/hiera/astute.yaml"
        file.write_text(file.read_text().replace("deployment_id: 5", "deployment_id: 7501"))
    where = ("--env", 7501, "--configdb", legacy_url)
    for _ in range(2):
        done = product("sync", *where, "--from", trees)
        assert done.code == Exit.OK, done.err
    assert notes(product("sync", *where, "--from", trees, "--format", "json").json, "2") == ""
    assert product("lookup", "debug", "--env", 7501, "--node", 2, "--from", trees).out == "true\n"
