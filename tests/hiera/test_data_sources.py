"""Data sources and files, one to one and back (U7)."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configdb_sync.errors import SettingsError
from configdb_sync.hiera.data_source_config import DEFAULT, parse_entries
from configdb_sync.hiera.data_sources import DataSource, NodeMap, map_node, problem_of_name
from configdb_sync.hiera.layouts import Layout
from configdb_sync.jsonvalues import Json

FACTS = {"uid": "46", "fqdn": "node-1.example.com", "hostname": "node-1", "deployment_id": 16}
NINE = DEFAULT[Layout.FUEL9]


def test_real_files_get_the_names_of_their_data_sources() -> None:
    found = map_node(
        NINE,
        FACTS,
        [
            "astute.yaml",
            "globals.yaml",
            "plugins/ldap.yaml",
            "override/node/node-1.example.com.yaml",
            "override/configuration/node-1.example.com.yaml",
            "override/configuration/cluster.yaml",
            "override/node-1.yaml",
            "override/class/apache.yaml",
        ],
    )
    assert found.source_of("override/node/node-1.example.com.yaml") == "override/node"
    assert found.source_of("override/configuration/node-1.example.com.yaml") == "override/configuration/node"
    assert found.source_of("override/node-1.yaml") == "override/hostname"
    assert found.source_of("plugins/ldap.yaml") == "plugins/ldap"
    assert found.path_of("override/class/apache") == "override/class/apache.yaml"
    assert (found.undeclared, found.faults, found.notes) == ((), {}, {})


def test_a_declared_file_that_the_node_lacks_has_its_path_all_the_same() -> None:
    found = map_node(NINE, FACTS, ["astute.yaml"])
    assert found.path_of("deleted_nodes") == "deleted_nodes.yaml"
    assert found.path_of("override/configuration") == "override/configuration.yaml"


def test_a_family_member_that_the_node_lacks_can_be_created() -> None:
    found = map_node(NINE, FACTS, [])
    assert found.path_of("plugins/ldap") == "plugins/ldap.yaml"
    assert found.source_of("plugins/ldap.yaml") == "plugins/ldap"
    assert "plugins/ldap" not in found.sources
    for name in (
        "plugins/a/b",
        "plugins/.hidden",
        "plugins/..",
        "plugins/",
        "plugins",
        "nowhere/x",
        "plugins/a\\b",
        "x",
    ):
        assert found.path_of(name) is None, name


def test_what_no_data_source_declares_is_reported() -> None:
    found = map_node(
        NINE,
        FACTS,
        [
            "extra.yaml",
            "override/node/node-2.example.com.yaml",
            "plugins/deep/x.yaml",
            "plugins/.ldap.yaml",
            "plugins/.yaml",
        ],
    )
    assert found.undeclared == (
        "extra.yaml",
        "override/node/node-2.example.com.yaml",
        "plugins/.ldap.yaml",
        "plugins/.yaml",
        "plugins/deep/x.yaml",
    )
    assert found.source_of("extra.yaml") is None


def test_an_unknown_placeholder_means_no_file_with_a_note() -> None:
    found = map_node(NINE, {"uid": "46"}, ["override/node/x.yaml"])
    assert found.path_of("override/node") is None
    assert found.notes["override/node"] == "the node has no fact fqdn"
    assert found.undeclared == ("override/node/x.yaml",)


@pytest.mark.parametrize("fqdn", ["../../../etc/shadow", "..", "a/b", "x\ny", "", "\0"])
def test_a_hostile_fact_gives_no_file(fqdn: str) -> None:
    found = map_node(NINE, {**FACTS, "fqdn": fqdn}, [])
    assert found.path_of("override/node") is None
    assert "override/node" in found.notes


def test_the_most_literal_of_two_has_the_file() -> None:
    sources = parse_entries(
        ["a=override/%{hostname}", "b=override/no%{rest}", "c=override/%{x}%{y}", "d=override/node-1"], []
    )
    facts = {**FACTS, "rest": "de-1", "x": "node", "y": "-1"}
    for winner in "dbac":
        found = map_node(sources, facts, ["override/node-1.yaml"])
        assert found.files == {"override/node-1.yaml": winner}
        assert set(found.notes) == {source.name for source in sources} - {winner}
        assert f"is that of {winner} on this node" in next(
            iter(found.notes.values()), f"is that of {winner} on this node"
        )
        sources = tuple(source for source in sources if source.name != winner)


def test_a_declared_data_source_goes_before_a_family() -> None:
    found = map_node(parse_entries(["ldap=plugins/ldap"], NINE), FACTS, ["plugins/ldap.yaml", "plugins/lma.yaml"])
    assert found.source_of("plugins/ldap.yaml") == "ldap"
    assert found.source_of("plugins/lma.yaml") == "plugins/lma"
    assert found.path_of("plugins/ldap") is None


def test_a_family_member_whose_name_is_taken_is_a_fault() -> None:
    found = map_node(parse_entries(["override/*"], NINE), FACTS, ["override/node.yaml", "override/more.yaml"])
    assert found.source_of("override/more.yaml") == "override/more"
    assert found.source_of("override/node.yaml") is None
    assert found.path_of("override/node") == "override/node/node-1.example.com.yaml"
    assert str(found.faults["override/node.yaml"]) == (
        "file override/node.yaml: can't be a data source: the name is that of a data source with another file"
    )
    assert found.undeclared == ()


@pytest.mark.parametrize(
    "path",
    [
        "plugins/" + "n" * 121 + ".yaml",
        "x/action/move.yaml",
        "plugins/a\x1bb.yaml",
        "7.yaml",
        "records.yaml",
    ],
)
def test_a_name_that_configdb_cant_take_is_a_fault(path: str) -> None:
    found = map_node(parse_entries(["*", "x/action/*"], NINE), FACTS, [path])
    assert path in found.faults
    assert path not in found.files
    assert found.source_of(path) is None


def test_a_name_of_128_characters_is_taken() -> None:
    path = "plugins/" + "é" * 120 + ".yaml"
    assert map_node(NINE, FACTS, [path]).source_of(path) == path.removesuffix(".yaml")


def test_the_order_is_hieras() -> None:
    found = map_node(NINE, FACTS, ["plugins/b.yaml", "plugins/a.yaml", "astute.yaml", "class/x.yaml"])
    assert list(found.sources)[:3] == ["plugins/a", "plugins/b", "override/node"]
    assert list(found.sources)[-1] == "astute"


WORDS = st.sampled_from(
    [
        "a",
        "b",
        "node-1",
        "plugins",
        "override",
        "node",
        ".h",
        "..",
        "2",
        "x.yaml",
        "action",
        "move",
        "é",
        "r\n",
    ]
)
PATHS = st.lists(WORDS, min_size=1, max_size=3).map("/".join)
ENTRIES = st.lists(
    st.one_of(
        PATHS,
        PATHS.map(lambda path: path + "/*"),
        st.tuples(PATHS, PATHS).map("=".join),
        st.tuples(PATHS, PATHS, st.sampled_from(["uid", "fqdn", "hostname", "bad", "none"])).map(
            lambda parts: f"{parts[0]}={parts[1]}/%{{{parts[2]}}}"
        ),
        st.just("*"),
    ),
    max_size=6,
)


def declared(entries: list[str]) -> tuple[DataSource, ...]:
    sources: tuple[DataSource, ...] = ()
    for entry in entries:
        try:
            sources = parse_entries([entry], sources)
        except SettingsError:
            continue
    return sources


def check_reversible(found: NodeMap) -> None:
    assert len(set(found.sources.values())) == len(found.sources)
    for name, path in found.sources.items():
        assert problem_of_name(name) is None
        assert found.path_of(name) == path
        assert found.source_of(path) == name
        assert not path.startswith("/")
        assert ".." not in path.split("/")


@given(
    ENTRIES,
    st.fixed_dictionaries(
        {
            "uid": WORDS,
            "fqdn": st.text(max_size=5),
            "hostname": WORDS,
            "bad": st.sampled_from([[], 1.5, {}, None]),
        }
    ),
    st.lists(PATHS.map(lambda path: path + ".yaml") | st.text(max_size=8), max_size=12),
)
def test_the_map_is_one_to_one_and_reversible_for_anything(
    entries: list[str], facts: Mapping[str, Json], files: list[str]
) -> None:
    sources = declared(entries)
    found = map_node(sources, facts, files)
    check_reversible(found)
    placed = [path for path in files if path in found.files]
    assert set(placed) | set(found.undeclared) | set(found.faults) == set(files)
    assert not set(placed) & set(found.undeclared)
    assert not set(found.faults) & (set(found.undeclared) | set(placed))
    singles = {source.name for source in sources if not source.is_family}
    assert singles == (found.sources.keys() & singles) | found.notes.keys()
    for path in found.undeclared + tuple(found.faults):
        assert found.source_of(path) is None
    for path in files:
        name = path.removesuffix(".yaml")
        where = found.path_of(name)
        assert where is None or found.source_of(where) == name
