"""The layout of a node, and who the node is, by its base files (U4, U7, F4)."""

import pytest

from configdb_sync.errors import NodeError
from configdb_sync.hiera.data_source_config import DEFAULT
from configdb_sync.hiera.data_sources import problem_of_name, problem_of_path
from configdb_sync.hiera.layouts import Layout, facts_of, is_foreign, layout_of
from configdb_sync.jsonvalues import Json


@pytest.mark.parametrize(
    ("paths", "layout"),
    [
        (["astute.yaml", "globals.yaml"], Layout.FUEL9),
        (["cluster.yaml", "node.yaml", "globals.yaml"], Layout.FUEL10),
        (["astute.yaml", "cluster.yaml", "node.yaml"], Layout.FUEL9),
        (["astute.yaml", "node.yaml"], Layout.FUEL9),
    ],
)
def test_the_base_files_decide(paths: list[str], layout: Layout) -> None:
    assert layout_of(paths) is layout


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        ([], "no base file"),
        (["globals.yaml", "override/astute.yaml"], "no base file"),
        (["cluster.yaml"], r"has cluster.yaml but no node\.yaml"),
        (["node.yaml"], r"has node.yaml but no cluster\.yaml"),
    ],
)
def test_a_node_without_its_base_files_is_an_error_for_that_node(paths: list[str], message: str) -> None:
    with pytest.raises(NodeError, match=message):
        layout_of(paths)


def test_a_file_that_would_turn_the_layout_is_foreign() -> None:
    assert is_foreign("astute.yaml", Layout.FUEL10)
    assert not is_foreign("globals.yaml", Layout.FUEL10)
    assert not any(is_foreign(path, Layout.FUEL9) for path in ("astute.yaml", "node.yaml", "cluster.yaml"))


@pytest.mark.parametrize("layout", Layout)
def test_the_default_data_sources_are_sound_and_cover_the_base_files(layout: Layout) -> None:
    sources = DEFAULT[layout]
    names = [source.name for source in sources]
    assert len(set(names)) == len(names)
    assert len({str(source.template) for source in sources}) == len(names)
    for source in sources:
        assert problem_of_path(source.path) is None
        assert source.is_family or problem_of_name(source.name) is None
        assert not source.is_family or source.name == source.path
    assert {path.removesuffix(".yaml") for path in layout.base_files} <= set(names)


def test_the_defaults_of_both_layouts_differ_in_the_base_files_alone() -> None:
    nine, ten = (set(DEFAULT[layout]) for layout in Layout)
    assert {source.name for source in nine - ten} == {"astute"}
    assert {source.name for source in ten - nine} == {"node", "cluster"}


GOOD: dict[str, Json] = {
    "deployment_id": 16,
    "uid": "46",
    "fqdn": "node-1.example.com",
    "admin": {"password": "x"},
}


def test_fuel_9_has_all_in_astute() -> None:
    facts = facts_of(Layout.FUEL9, {"astute.yaml": GOOD})
    assert (facts.uid, facts.environment, facts.fqdn, facts.hostname) == (
        "46",
        16,
        "node-1.example.com",
        "node-1",
    )
    assert facts.scope["hostname"] == "node-1"
    assert facts.scope["admin"] == {"password": "x"}
    assert "password" not in repr(facts)


def test_fuel_10_has_them_in_two_files_and_the_nodes_own_wins() -> None:
    facts = facts_of(
        Layout.FUEL10,
        {
            "cluster.yaml": {"deployment_id": 7, "uid": "wrong", "openstack_version": "newton-10.0"},
            "node.yaml": {"uid": "19", "fqdn": "node-1.example.com"},
        },
    )
    assert (facts.uid, facts.environment) == ("19", 7)
    assert facts.scope["openstack_version"] == "newton-10.0"


def test_numbers_may_be_written_as_text_and_the_other_way_round() -> None:
    facts = facts_of(Layout.FUEL9, {"astute.yaml": {"deployment_id": "16", "uid": 46}})
    assert (facts.uid, facts.environment, facts.fqdn, facts.hostname) == ("46", 16, None, None)
    assert facts.scope["uid"] == "46"


def test_a_hostname_of_its_own_goes_before_the_fqdns() -> None:
    assert facts_of(Layout.FUEL9, {"astute.yaml": {**GOOD, "hostname": "box"}}).hostname == "box"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"deployment_id": None}, "no fact deployment_id in astute.yaml"),
        ({"deployment_id": True}, "deployment_id in astute.yaml is no text"),
        ({"deployment_id": 0}, "no environment's number"),
        ({"deployment_id": -3}, "no environment's number"),
        ({"deployment_id": "16x"}, "no environment's number"),
        ({"deployment_id": "\uff11\uff16"}, "no environment's number"),
        ({"deployment_id": 16.0}, "is no text"),
        ({"deployment_id": 10**400}, "no environment's number"),
        ({"uid": None}, "no fact uid in astute.yaml"),
        ({"uid": ["46"]}, "uid in astute.yaml is no text"),
        ({"uid": ""}, "uid in astute.yaml is no text"),
        ({"uid": "4/6"}, "can't be a node's id"),
        ({"uid": "4\n6"}, "is no text"),
        ({"uid": "4" * 129}, "can't be a node's id"),
        ({"fqdn": 5.5}, "fqdn in astute.yaml is no text"),
        ({"fqdn": {"a": "SECRET"}}, "fqdn in astute.yaml is no text"),
        ({"hostname": []}, "hostname in astute.yaml is no text"),
    ],
)
def test_missing_or_mistyped_facts_are_errors_that_show_no_value(changes: dict[str, Json], message: str) -> None:
    with pytest.raises(NodeError, match=message) as caught:
        facts_of(Layout.FUEL9, {"astute.yaml": {**GOOD, **changes}})
    assert "SECRET" not in str(caught.value)


def test_a_base_document_that_is_missing_is_named() -> None:
    with pytest.raises(NodeError, match=r"base file cluster\.yaml can't be used"):
        facts_of(Layout.FUEL10, {"node.yaml": GOOD})
