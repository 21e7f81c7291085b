"""U26: patterns for keys and values, and nodes grouped by what they have."""

from __future__ import annotations

import pytest

from configdb_sync.errors import SettingsError
from configdb_sync.jsonvalues import ABSENT
from configdb_sync.masking import Masker
from configdb_sync.queries.comparison import Settings, compare_environments, compare_key, compare_nodes
from configdb_sync.queries.search import Search, grouped, parse_pattern

MASKER = Masker(b"k" * 32)
DOCUMENT = {
    "debug": True,
    "nova": {"debug": False, "db_password": "s3cret", "cells": [{"debug": 1}]},
    "password_hint": "s3cret",
    "size": 10,
}


def keys(pattern: str, value: str | None = None) -> list[str]:
    search = Search(parse_pattern(pattern, value), MASKER)
    found = [list(search.matches("g", document)) for document in (DOCUMENT, dict(DOCUMENT))]
    assert found[0] == found[1]  # what is known of the same values
    return [".".join(path) for path, _ in found[0]]


def test_patterns_match_the_end_of_a_key() -> None:
    assert keys("debug") == ["debug", "nova.debug", "nova.cells.0.debug"]
    assert keys("nova.debug") == ["nova.debug"]
    assert keys("*.debug") == ["nova.debug", "nova.cells.0.debug"]
    assert keys("nova.*") == ["nova.debug", "nova.db_password", "nova.cells"]
    assert keys("*pass*") == ["nova.db_password", "password_hint"]
    assert keys("no") == []


def test_values_match_by_type_or_text_or_glob() -> None:
    assert keys("*", "true") == ["debug"]
    assert keys("*", "10") == ["size"]
    assert keys("*", "1*") == ["nova.cells.0.debug", "size"]
    assert keys("nova", '{"debug": false}') == []


def test_a_secret_is_found_by_equality_alone() -> None:
    assert "nova.db_password" in keys("*", "s3cret")
    assert "nova.db_password" not in keys("*", "s3*")


@pytest.mark.parametrize("text", ["", "a..b", ".a"])
def test_an_empty_part_is_refused(text: str) -> None:
    with pytest.raises(SettingsError):
        parse_pattern(text)


def test_hits_are_grouped_by_value_the_rarest_first() -> None:
    found = [("1", "g", ("a",), 1), ("2", "g", ("a",), 1), ("3", "g", ("a",), True), ("3", "g", ("b",), 1)]
    assert [(hit.path, hit.value, hit.nodes) for hit in grouped(found)] == [
        (("a",), True, ("3",)),
        (("a",), 1, ("1", "2")),
        (("b",), 1, ("3",)),
    ]


NODES: dict[str, Settings] = {
    "1": {"g": {"nova": {"debug": False}, "x": 1}},
    "2": {"g": {"nova": {"debug": False}, "x": 1}},
    "3": {"g": {"nova": {"debug": True}}, "h": {"y": 1}},
}


def test_the_odd_one_out_comes_first() -> None:
    (found,) = compare_key(NODES, ("nova", "debug"))
    assert [(group.value, group.nodes) for group in found.groups] == [(True, ("3",)), (False, ("1", "2"))]
    (found,) = compare_key(NODES, ("x",))
    assert [(group.value, group.nodes) for group in found.groups] == [(ABSENT, ("3",)), (1, ("1", "2"))]


def test_nodes_differ_leaf_by_leaf() -> None:
    found = compare_nodes(NODES)
    assert [(one.data_source, one.path) for one in found] == [("g", ("nova", "debug")), ("g", ("x",)), ("h", ())]
    assert compare_nodes({"1": NODES["1"], "2": NODES["2"]}) == []


def test_types_differ_too() -> None:
    assert len(compare_nodes({"1": {"g": {"a": 1}}, "2": {"g": {"a": True}}})) == 1


def test_environments_differ_by_what_their_nodes_have() -> None:
    one = {"1": {"g": {"a": 1, "b": 2}}, "2": {"g": {"a": 1, "b": 2}}}
    other = {"9": {"g": {"a": 1, "b": 3}}, "8": {"g": {"c": 1}}}
    found = compare_environments(one, other)
    assert [left.path for left, _ in found] == [("b",), ("c",)]
    assert [group.value for group in found[0][1].groups] == [3]
