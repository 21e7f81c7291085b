"""U31: how a document that holds a whole folder is told from a single file's; nothing is guessed."""

from __future__ import annotations

from typing import Any

import pytest

from configdb_sync.hiera.data_source_config import DEFAULT
from configdb_sync.hiera.data_sources import map_node
from configdb_sync.hiera.layouts import Layout
from configdb_sync.sync.folder_documents import FolderDocuments, as_read, folder_documents
from tests.support import lcm

FACTS = {"fqdn": "node-1.example.com", "hostname": "node-1"}
NODE = (("nodes", "1"),)


def of(*files: str, names: tuple[str, ...] = lcm.DATA_SOURCES) -> FolderDocuments | None:
    paths = ["astute.yaml", *files]
    sources = DEFAULT[Layout.FUEL9]
    return folder_documents(map_node(sources, FACTS, paths), sources, paths, names)


@pytest.mark.parametrize("layout", list(Layout))
def test_an_environment_of_ours_has_no_folders_documents(layout: Layout) -> None:
    sources = DEFAULT[layout]
    paths = [*layout.base_files, "plugins/ldap.yaml", "override/class/x.yaml", "custom/x.yaml"]
    mapped = map_node(sources, FACTS, paths)
    assert folder_documents(mapped, sources, paths, [*mapped.sources, "records"]) is None


def test_the_sign_is_a_folders_name_that_is_no_files() -> None:
    assert of(names=("astute", "override/node", "override/configuration")) is None
    found = of(names=("astute", "override/node", "override/configuration", "class"))
    assert found is not None
    assert found.names == {"override/node", "override/configuration", "class"}
    assert of("custom/x.yaml", names=("astute", "custom")) is not None
    assert of(names=("astute", "custom")) is None


VALUES: list[tuple[str, dict[str, Any], bool]] = [
    ("plugins", {}, False),
    ("plugins", {"anything": 1}, True),
    ("override/configuration", {"cluster": {"a": 1}}, True),
    ("override/configuration", {"nobodys": {"a": 1}, "empty": False, "other": None}, True),
    ("override/configuration", {"cluster": {"a": 1}, "b": 1}, False),
    ("override/node", {"node-1.example.com": {"a": 1}}, True),
    ("override/node", {"node-2.example.com": {"a": 1}}, True),
    ("override/node", {"nova": {"a": 1}}, False),
    ("override/node", {"node-1.example.com": {"a": 1}, "nova": {"a": 1}}, False),
]


@pytest.mark.parametrize(("folder", "values", "expected"), VALUES)
def test_values_without_a_record(folder: str, values: dict[str, Any], *, expected: bool) -> None:
    found = of()
    assert found is not None
    assert found.is_folders(folder, values) is expected


OVERRIDES: list[tuple[str, str, Any, str]] = [
    ("plugins", "ldap", {"a": 1}, "plugins/ldap"),
    ("plugins", "ldap", {}, "held"),
    ("plugins", "ldap", "text", "held"),
    ("plugins", "a/b", {"a": 1}, "held"),
    ("plugins", "", {"a": 1}, "held"),
    ("override", "plugins", {"a": 1}, "override/plugins"),
    ("override", "node-1", {"a": 1}, "override/hostname"),
    ("override", "node-2", {"a": 1}, "held"),
    ("override/configuration", "role", {"a": 1}, "override/configuration/role"),
    ("override/configuration", "node-1.example.com", {"a": 1}, "override/configuration/node"),
    ("override/configuration", "nobodys", {"a": 1}, "held"),
    ("override/configuration", "a", 1, "own"),
    ("override/configuration", "role", 1, "held"),
    ("override/node", "node-1.example.com", {"a": 1}, "override/node"),
    ("override/node", "node-2.example.com", {"a": 1}, "held"),
    ("override/node", "nova", {"a": 1}, "own"),
    ("override/node", "debug", True, "own"),
]


@pytest.mark.parametrize(("folder", "stem", "content", "expected"), OVERRIDES)
def test_overrides_at_the_nodes_level(folder: str, stem: str, content: Any, expected: str) -> None:
    found = of()
    assert found is not None
    moves, held = found.split(folder, NODE, {stem: content}, uploaded={}, node=NODE, hidden=())
    told = [move.data_source for move in moves] + ["held" for _ in held]
    assert told == ([] if expected == "own" else [expected])
    assert all(move.source == move.target == NODE for move in moves)


def test_where_the_node_has_the_single_file_its_overrides_are_its_own() -> None:
    found = of("override/configuration.yaml")
    assert found is not None
    overrides = {"nobodys": {"a": 1}, "cluster": {"a": 1}}
    moves, held = found.split("override/configuration", NODE, overrides, uploaded={}, node=NODE, hidden=())
    assert ([move.stem for move in moves], held) == (["cluster"], [])
    _, held = found.split(
        "override/configuration", NODE, overrides, uploaded={"nobodys": {"a": 0}}, node=NODE, hidden=()
    )
    assert [one.stem for one in held] == ["nobodys"]


def test_over_the_nodes_only_a_file_of_one_node_goes_down_to_it() -> None:
    found = of()
    assert found is not None
    fqdn = "node-1.example.com"
    for folder, stem, target in (("plugins", "ldap", ()), ("override/node", fqdn, NODE)):
        moves, held = found.split(folder, (), {stem: {"a": 1}}, uploaded={}, node=NODE, hidden=())
        assert ([move.target for move in moves], held) == ([target], [])
    moves, held = found.split("override/node", (), {fqdn: {"a": 1}}, uploaded={}, node=NODE, hidden={fqdn})
    assert (moves, [one.stem for one in held]) == ([], [fqdn])


def test_what_an_override_leaves_out_is_told() -> None:
    found = of()
    assert found is not None
    uploaded = {"ldap": {"a": 1, "b": 2}}
    [move], _ = found.split("plugins", NODE, {"ldap": {"a": 2}}, uploaded=uploaded, node=NODE, hidden=uploaded)
    assert move.left_out == ("b",)


def test_rubys_names_of_symbols_read_as_the_files_own() -> None:
    file = {"mode": ":deeper", ":top": {":x": 1}, "text": "deeper"}
    marks = {"mode": {"value": "symbol"}, ":top": {"key": "symbol", "value": {"keys": "symbol"}}}
    assert as_read({"mode": "deeper", "top": {"x": 1}, "text": "deeper"}, file, marks) == file
    assert as_read({"mode": "other", "top": {"x": 2}}, file, marks) == {"mode": "other", "top": {"x": 2}}
