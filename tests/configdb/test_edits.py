"""What a user's change makes of a document (U16)."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configdb_sync.configdb import edits, level_merge
from configdb_sync.configdb.edits import NoSuchKeyError, NotOverriddenError
from configdb_sync.errors import SettingsError
from configdb_sync.jsonvalues import same

KEYS = st.sampled_from(["a", "b", "c", "a.b", "0", ""])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.text(max_size=2),
    lambda inner: st.dictionaries(KEYS, inner, max_size=3) | st.lists(inner, max_size=2),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(KEYS, VALUES, max_size=3)
PATHS = st.lists(KEYS, min_size=1, max_size=3).map(tuple)


def seen(values: dict[str, Any], overrides: dict[str, Any]) -> dict[str, Any]:
    return level_merge.effective([(values, overrides)])


@given(PATHS)
def test_a_path_is_read_as_it_is_shown(path: tuple[str, ...]) -> None:
    assert edits.parse_key(edits.shown_key(path)) == path


@given(st.text(max_size=12))
def test_a_key_is_read_or_refused(text: str) -> None:
    try:
        path = edits.parse_key(text)
    except SettingsError:
        return
    assert path
    assert edits.parse_key(edits.shown_key(path)) == path


@pytest.mark.parametrize(
    ("text", "path"),
    [("a", ("a",)), ("a.b.0", ("a", "b", "0")), ('["DEFAULT/x", "a.b"]', ("DEFAULT/x", "a.b")), ('[""]', ("",))],
)
def test_keys(text: str, path: tuple[str, ...]) -> None:
    assert edits.parse_key(text) == path


@pytest.mark.parametrize("text", ["", ".", "a.", "a..b", "[", "[]", "[1]", '["a", null]', "[" * 5000])
def test_keys_that_are_none(text: str) -> None:
    with pytest.raises(SettingsError, match="key"):
        edits.parse_key(text)


@given(DOCUMENTS, DOCUMENTS, PATHS, VALUES)
def test_an_override_is_seen_and_only_it(
    values: dict[str, Any], overrides: dict[str, Any], path: tuple[str, ...], value: Any
) -> None:
    """After an override of a leaf, the node sees it there, and everything else as before."""
    before = seen(values, overrides)
    untouched = copy.deepcopy((values, overrides))
    try:
        after = seen(values, edits.put(overrides, before, path, value))
    except NoSuchKeyError:
        assert any(
            not isinstance(edits.get(before, path[:end]), dict)
            for end in range(1, len(path))
            if edits.has(before, path[:end])
        )
        return
    assert same(edits.get(after, path), value)
    assert all(leaf[: len(path)] == path or path[: len(leaf)] == leaf for leaf in edits.changed_leaves(before, after))
    assert same(list(untouched), [values, overrides])


@given(DOCUMENTS, PATHS, VALUES)
def test_an_override_that_is_freed_leaves_nothing(values: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    """rm-override after override: the overrides are empty again, whatever the leaf was."""
    try:
        overrides = edits.put({}, values, path, value)
    except NoSuchKeyError:
        return
    if same(seen(values, overrides), values):
        return
    assert edits.free(overrides, values, path) == {}


@given(DOCUMENTS, DOCUMENTS, PATHS)
def test_a_freed_leaf_is_as_the_values_have_it(
    values: dict[str, Any], overrides: dict[str, Any], path: tuple[str, ...]
) -> None:
    try:
        after = seen(values, edits.free(overrides, values, path))
    except NotOverriddenError:
        return
    if edits.has(values, path):
        assert same(edits.get(after, path), edits.get(values, path))
    else:
        assert not edits.has(after, path) or isinstance(edits.get(seen(values, overrides), path[:-1]), list)
    before = seen(values, overrides)
    for leaf in edits.changed_leaves(before, after):
        # Nothing is lost beside it: what changed is the leaf, on its way, or beneath it.
        assert leaf[: len(path)] == path[: len(leaf)]


def test_the_leaves_of_a_block_are_freed_one_by_one() -> None:
    values = {"block": {"x": 1, "y": 2}, "other": 0}
    overrides = edits.put({}, values, ("block", "x"), 9)
    overrides = edits.put(overrides, seen(values, overrides), ("block", "new", "deep"), True)
    assert overrides == {"block": {"x": 9, "y": 2, "new": {"deep": True}}}
    overrides = edits.free(overrides, values, ("block", "new", "deep"))
    assert overrides == {"block": {"x": 9, "y": 2}}
    with pytest.raises(NotOverriddenError, match=r"leaves block\.y as it is \(overridden there: block\.x\)"):
        edits.free(overrides, values, ("block", "y"))
    assert edits.free(overrides, values, ("block", "x")) == {}


def test_a_leaf_that_the_override_left_out_comes_back() -> None:
    values = {"block": {"x": 1, "y": 2}}
    assert edits.free({"block": {"x": 9}}, values, ("block", "y")) == {"block": {"y": 2, "x": 9}}


def test_what_is_overridden_is_named() -> None:
    with pytest.raises(NotOverriddenError, match=r"z isn't overridden \(overridden there: a, b\)"):
        edits.free({"b": 1, "a": 2}, {}, ("z",))
    with pytest.raises(NotOverriddenError, match="nothing is overridden there"):
        edits.free({}, {}, ("z", "y"))
    with pytest.raises(NotOverriddenError, match=r"overridden as a whole.*rm-override --key a"):
        edits.free({"a": None}, {"a": {"b": 1}}, ("a", "b"))


def test_items_of_lists_are_reached_by_index() -> None:
    document = {"nodes": [{"ip": "a"}, {"ip": "b"}]}
    assert edits.get(document, ("nodes", "1", "ip")) == "b"
    assert edits.put({}, document, ("nodes", "1", "ip"), "c") == {"nodes": [{"ip": "a"}, {"ip": "c"}]}
    assert edits.drop(document, ("nodes", "0")) == {"nodes": [{"ip": "b"}]}
    for index in ("2", "-1", "01x", "²", "9" * 30):
        with pytest.raises(NoSuchKeyError):
            edits.put({}, document, ("nodes", index, "ip"), "c")


def test_a_missing_key_offers_those_that_are_there() -> None:
    with pytest.raises(NoSuchKeyError, match=r"no key a\.z \(the keys there: x, y\)"):
        edits.get({"a": {"y": 1, "x": 2}}, ("a", "z", "deep"))
    with pytest.raises(NoSuchKeyError, match=r"no mapping"):
        edits.put({}, {"a": "text"}, ("a", "b"), 1)


@given(DOCUMENTS, PATHS)
def test_a_dropped_key_is_gone_and_only_it(document: dict[str, Any], path: tuple[str, ...]) -> None:
    if not edits.has(document, path):
        with pytest.raises(NoSuchKeyError):
            edits.drop(document, path)
        return
    parent = edits.get(document, path[:-1])
    after = edits.drop(document, path)
    assert len(edits.get(after, path[:-1])) == len(parent) - 1
