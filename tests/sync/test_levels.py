"""Hierarchies whose level values aren't the nodes' ids (U6, U16): one node, one place, whatever command names it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from configdb_sync.exits import Exit
from tests.support.nailgun import Nailgun
from tests.support.product import Product, Result, contents
from tests.support.trees import make_node, make_trees

KEY = ("--env", 5, "-r", "globals", "--key", "use_syslog")
FALSE = ("--type", "bool", "--value", "false")
HIERARCHIES = (
    "nodes=%{uid}",
    "nodes=%{fqdn}",
    "nodes=%{::fqdn}",
    "nodes=n-%{uid}",
    "cluster=%{deployment_id},nodes=%{fqdn}",
    "region=one,cluster=%{deployment_id},hosts=%{uid}",
)


def fqdn(node: str) -> str:
    return f"node-{node}.example.com"


class Story:
    """The product and the trees of three nodes, under one hierarchy."""

    def __init__(self, product: Product, trees: Path, levels: str) -> None:
        self.product, self.trees, self.levels = product, trees, levels

    def __call__(self, *words: object, code: Exit = Exit.OK) -> Result:
        found = self.product(*words)
        assert found.code == code, found.out + found.err
        return found

    def sync(self, *more: object, code: Exit = Exit.OK) -> Result:
        return self("sync", "--env", 5, "--from", self.trees, "--levels", self.levels, *more, code=code)

    def plan(self, *more: object) -> Any:
        return self("plan", "--env", 5, "--from", self.trees, "--levels", self.levels, "--format", "json", *more).json

    def gc(self, *more: object) -> Any:
        return self("gc", "--env", 5, "--levels", self.levels, "--format", "json", *more).json

    @property
    def innermost(self) -> str:
        """The name of the nodes' level."""
        return self.levels.split(",")[-1].partition("=")[0]

    def level(self, node: str) -> tuple[str, str]:
        return ("--level", f"{self.innermost}={node}")

    def place(self, node: str) -> str:
        """Where a node is, as ConfigDB shows it."""
        steps = [part.partition("=")[::2] for part in self.levels.replace("%{::", "%{").split(",")]
        facts = {"%{uid}": node, "%{fqdn}": fqdn(node), "%{deployment_id}": "5"}
        found = ""
        for name, template in steps:
            value = template
            for placeholder, fact in facts.items():
                value = value.replace(placeholder, fact)
            found += f"/{name}/{value}"
        return f"{found}/"

    def value(self, node: str) -> str:
        return self.place(node).rstrip("/").rpartition("/")[2]

    def globals(self, node: str) -> str:
        return (self.trees / f"node-{node}/etc/hiera/globals.yaml").read_text()


@pytest.fixture
def trees(tmp_path: Path) -> Path:
    return make_trees(tmp_path / "trees", "1", "2", "3")


@pytest.fixture(params=HIERARCHIES)
def story(request: pytest.FixtureRequest, product: Product, trees: Path) -> Story:
    found = Story(product, trees, request.param)
    found.sync()
    return found


@pytest.fixture
def by_name(product: Product, trees: Path) -> Story:
    found = Story(product, trees, "nodes=%{fqdn}")
    found.sync()
    return found


@pytest.mark.parametrize("named", [str, fqdn], ids=["id", "fqdn"])
def test_an_override_reaches_the_node_it_names_and_goes_without_a_trace(
    story: Story, named: Callable[[str], str]
) -> None:
    before = contents(story.trees)
    level = story.level(named("2"))
    assert f"globals at {story.place('2')}, environment 5" in story("override", *KEY, *level, *FALSE).out
    assert story("get", *KEY, *level, "--show-lookup").out == f"{story.place('2')}\tuse_syslog\tfalse\n"
    assert story.plan("--node", named("2"))["writes"] == 1
    assert story.plan("--node", named("3"))["writes"] == 0
    story.sync("--node", named("2"))
    assert "use_syslog: false" in story.globals("2")
    assert "use_syslog: true" in story.globals("3")
    where = KEY[:4]
    assert len(story("history", *where, *level, "-f", "json").json["versions"]) == 1
    story("revert", *where, *level)
    assert story("get", *KEY, *level).out == "true\n"
    story("revert", *where, *level, "--to", 1)
    assert story("get", *KEY, *level).out == "false\n"
    story("rm-override", *KEY, *level)
    story.sync()
    assert contents(story.trees) == before


def test_the_level_value_itself_is_taken_too(story: Story) -> None:
    level = story.level(story.value("2"))
    assert story.place("2") in story("override", *KEY, *level, *FALSE).out


def test_a_place_that_no_node_reads_is_refused(story: Story) -> None:
    """U16: an override there would have no effect and no one would be told."""
    name = "node-99.example.com" if "uid" in story.levels else "99"
    assert "give its id" in story("override", *KEY, *story.level(name), *FALSE, code=Exit.USAGE).err


def test_all_nodes_means_all_and_those_to_come(story: Story) -> None:
    before = contents(story.trees)
    own = ("override", *KEY, *story.level("2"), "--type", "str", "--value", "own", "--change-type")
    story(*own)
    made = story("override", *KEY, "--all-nodes", *FALSE)
    assert f"for nodes {story.value('1')}, {story.value('3')}." in made.out
    assert f"their own override: node {story.value('2')}." in made.out
    make_node(story.trees, "4")
    story.sync()
    assert ["use_syslog: false" in story.globals(node) for node in "1234"] == [True, False, True, True]
    story("rm-override", *KEY, "--all-nodes")
    story("rm-override", *KEY, *story.level("2"))
    story.sync()
    shutil.rmtree(story.trees / "node-4")
    assert contents(story.trees) == before


def test_orphans_are_the_overrides_of_nodes_that_are_gone(story: Story) -> None:
    for node in "12":
        story("override", *KEY, *story.level(node), *FALSE)
    assert story.plan()["orphans"] == []
    assert story.plan("--node", "3")["orphans"] == []
    shutil.rmtree(story.trees / "node-2")
    make_node(story.trees, "7")
    assert story.plan()["orphans"] == [{"node": story.value("2"), "data_sources": ["globals"]}]
    shown = story("plan", "--env", 5, "--from", story.trees, "--levels", story.levels).out
    assert f"--level {story.innermost}=ID --copy-from {story.value('2')}" in shown
    story.sync()
    story("override", "--env", 5, "-r", "globals", *story.level("7"), "--copy-from", story.value("2"))
    story.sync()
    assert "use_syslog: false" in story.globals("7")


def test_overrides_at_the_places_of_other_levels_are_taken_over_as_the_plan_says(product: Product, trees: Path) -> None:
    by_id = Story(product, trees, "nodes=%{uid}")
    by_id.sync()
    by_id("override", *KEY, *by_id.level("2"), *FALSE)
    by_id("del", "--env", 5, "-r", "records", "--key", "levels")
    story = Story(product, trees, "nodes=%{fqdn}")
    assert "--copy-from 2)" in story("plan", "--env", 5, "--from", trees, "--levels", story.levels).out
    story.sync()
    story("override", "--env", 5, "-r", "globals", *story.level("2"), "--copy-from", "2")
    story.sync()
    assert "use_syslog: false" in story.globals("2")


def test_an_override_without_effect_is_told_with_its_place(story: Story) -> None:
    story("override", *KEY, *story.level("2"), "--type", "bool", "--value", "true")
    found = [one for node in story.plan()["nodes"] for one in node["without_effect"]]
    assert {(one["level"], one["why"]) for one in found} == {(story.place("2"), "equal")}


def test_what_is_left_is_the_gone_nodes_alone(story: Story) -> None:
    story("override", *KEY, *story.level("1"), *FALSE)
    assert story.gc("--from", story.trees)["nodes"] == []
    shutil.rmtree(story.trees / "node-3")
    (gone,) = story.gc("--from", story.trees)["nodes"]
    assert gone["node"] == "3"
    assert [one["data_source"] for one in gone["documents"]] == ["astute", "globals"]
    assert story.gc("--from", story.trees, "--remove")["removed"] == {"3": ["astute", "globals"]}
    assert story.gc("--from", story.trees)["nodes"] == []
    assert story("get", *KEY, *story.level("1")).out == "false\n"
    story.product.changing()
    story.sync()
    assert "use_syslog: false" in story.globals("1")


def test_gc_by_nailgun_knows_names(product: Product, trees: Path, nailgun: Nailgun) -> None:
    story = Story(product, trees, "nodes=%{fqdn}")
    story.sync()
    assert story.gc("--nailgun", nailgun.url)["nodes"] == []


def test_a_node_that_no_run_has_seen_keeps_what_may_be_its(by_name: Story) -> None:
    """Its FQDN isn't known here, so nothing tells that a place isn't its own."""
    shutil.rmtree(by_name.trees / "node-3")
    make_node(by_name.trees, "9")
    told = by_name("gc", "--env", 5, "--from", by_name.trees, "--levels", by_name.levels, "--remove", code=Exit.USAGE)
    assert "node 9" in told.err
    assert by_name("get", *KEY, *by_name.level(fqdn("3"))).out == "true\n"


def test_a_node_under_the_name_of_another_keeps_its_place(by_name: Story) -> None:
    """Node 3 was replaced by node 8 of the same FQDN: the place belongs to node 8."""
    base = (by_name.trees / "node-3/etc/fuel/cluster/5/astute.yaml").read_text()
    shutil.rmtree(by_name.trees / "node-3")
    make_node(by_name.trees, "8")
    (by_name.trees / "node-8/etc/fuel/cluster/5/astute.yaml").write_text(base.replace("uid: '3'", "uid: '8'"))
    by_name.sync()
    by_name.gc("--from", by_name.trees, "--remove", "--remove-overrides")
    assert by_name("get", *KEY, *by_name.level("8")).out == "true\n"
    assert by_name.plan()["uploads"] == 0


@pytest.mark.parametrize("command", ["sync", "plan", "gc"])
def test_another_template_than_the_nodes_are_kept_by_is_refused(by_name: Story, command: str) -> None:
    """Level names alone don't tell: nodes kept by FQDN would all be gone for who looks for ids."""
    by_name("override", *KEY, *by_name.level("2"), *FALSE)
    by_name.product.changing()
    told = by_name(command, "--env", 5, "--from", by_name.trees, code=Exit.ENVIRONMENT)
    assert "nodes=%{fqdn}" in told.out + told.err
    assert by_name.product.changing() == []


def test_nodes_are_moved_to_other_places_when_that_is_asked_for(by_name: Story) -> None:
    """The note is taken away first; what stays behind is then told as orphaned."""
    by_name("override", *KEY, *by_name.level("2"), *FALSE)
    by_name("del", "--env", 5, "-r", "records", "--key", "levels")
    by_name.levels = "nodes=%{uid}"
    by_name.sync()
    assert by_name.plan()["orphans"] == [{"node": fqdn("2"), "data_sources": ["globals"]}]
    assert "at /nodes/2/" in by_name("override", *KEY, *by_name.level(fqdn("2")), *FALSE).out


def test_a_place_over_nodes_that_facts_alone_tell(product: Product, trees: Path) -> None:
    """What can't be told outside a run is asked for, never guessed; an order is carried out by the next run."""
    story = Story(product, trees, "role=%{role},nodes=%{fqdn}")
    base = trees / "node-2/etc/fuel/cluster/5/astute.yaml"
    base.write_text(base.read_text().replace("role: compute", "role: controller"))
    story.sync()
    told = story("override", *KEY, *story.level("2"), *FALSE, code=Exit.USAGE)
    assert "role" in told.err
    story("override", *KEY, *FALSE, "--level", "role=controller", *story.level("2"))
    deep = ("--env", 5, "-r", "astute", "--key", "nova.workers")
    made = story("override", *deep, "--all-nodes", "--type", "int", "--value", "9")
    assert "next `configdb-sync sync`" in made.out
    story.sync()
    text = {node: (trees / f"node-{node}/etc/astute.yaml").read_text() for node in "123"}
    assert ["workers: 9" in text[node] for node in "123"] == [True] * 3
    assert "use_syslog: false" in story.globals("2")
    shutil.rmtree(trees / "node-3")
    assert [one["node"] for one in story.gc("--from", trees)["nodes"]] == ["3"]
