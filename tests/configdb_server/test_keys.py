"""Keys operations (U16): tuning-box's rules, every fault a ``KeyPathError``."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configdb_sync.configdb_server.key_operations import KeyPathError, delete_keys, get_keys, is_paths, set_keys

DOCUMENT: dict[str, Any] = {"a": {"b": 1, "c": [10, {"d": 2}]}, "e": None}


def test_set_changes_and_adds_the_last_key_alone() -> None:
    before = copy.deepcopy(DOCUMENT)
    paths: list[list[Any]] = [
        ["a", "b", 5],
        ["a", "new", {"x": 1}],
        ["a", "c", "1", "d", 3],
        ["a", "c", -2, 11],
        ["f", None],
    ]
    assert set_keys(DOCUMENT, paths) == {"a": {"b": 5, "c": [11, {"d": 3}], "new": {"x": 1}}, "e": None, "f": None}
    assert before == DOCUMENT


def test_later_paths_see_what_earlier_ones_made_and_never_share_it() -> None:
    value: dict[str, Any] = {}
    assert set_keys({}, [["a", value], ["a", "b", 1], ["c", value]]) == {"a": {"b": 1}, "c": {}}


def test_delete_takes_mappings_keys_and_lists_places() -> None:
    assert delete_keys(DOCUMENT, [["a", "c", 0], ["e"], []]) == {"a": {"b": 1, "c": [{"d": 2}]}}


def test_get_answers_in_the_order_of_the_paths() -> None:
    assert get_keys(DOCUMENT, [["e"], ["a", "c", "1", "d"], []]) == [None, 2, DOCUMENT]


@pytest.mark.parametrize(
    ("operation", "path"),
    [
        (set_keys, ["a"]),
        (set_keys, []),
        (set_keys, ["x", "y", 1]),
        (set_keys, ["e", "y", 1]),
        (set_keys, ["a", "b", "y", 1]),
        (set_keys, ["a", "c", 2, 1]),
        (set_keys, ["a", "c", "x", 1]),
        (set_keys, ["a", "c", -3, 1]),
        (set_keys, ["a", 1, 1]),
        (set_keys, ["a", True, 1]),
        (set_keys, ["a", "c", True, 1]),
        (delete_keys, ["x"]),
        (delete_keys, ["a", "b", "c"]),
        (delete_keys, ["a", "c", 7]),
        (delete_keys, ["a", "c", None]),
        (get_keys, ["a", "x"]),
        (get_keys, ["e", "x"]),
        (get_keys, ["a", "c", 1.0]),
        (get_keys, ["a", "c", "9" * 5000]),
    ],
)
def test_a_path_that_leads_nowhere_is_named(operation: Any, path: list[Any]) -> None:
    with pytest.raises(KeyPathError):
        operation(DOCUMENT, [path])


def test_the_text_of_a_fault_holds_no_value() -> None:
    with pytest.raises(KeyPathError) as caught:
        set_keys({"a": "leaf-secret"}, [["a", "b", "new-secret"]])
    assert "secret" not in str(caught.value)


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


@given(ANY, st.sampled_from([set_keys, delete_keys, get_keys]), st.lists(st.lists(ANY, max_size=4), max_size=3))
def test_nothing_but_a_keys_error_ever_comes_out(value: Any, operation: Any, paths: list[list[Any]]) -> None:
    before = copy.deepcopy(value)
    with contextlib.suppress(KeyPathError):
        operation(value, paths)
    assert value == before


def test_a_body_of_paths_is_a_list_of_lists() -> None:
    assert is_paths([["a"], []])
    other: Any
    for other in (None, {}, "ab", ["ab"], [{}], [["a"], 1]):
        assert not is_paths(other)
