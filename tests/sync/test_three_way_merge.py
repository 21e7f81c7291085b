"""U18: what the node meant is told apart from what we wrote."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from configdb_sync.jsonvalues import ABSENT
from configdb_sync.store.records import HiddenKey
from configdb_sync.sync.three_way_merge import key_value, node_values, settle

leaves = st.one_of(st.none(), st.booleans(), st.integers(0, 3), st.sampled_from(["a", "b"]))
values = st.recursive(
    leaves,
    lambda inner: st.one_of(st.dictionaries(st.sampled_from("xyz"), inner, max_size=3), st.lists(inner, max_size=2)),
    max_leaves=6,
)
slots = st.one_of(st.just(ABSENT), values)
documents = st.dictionaries(st.sampled_from("klm"), values, max_size=3)


def hidden(meant: Any, *ours: Any) -> HiddenKey:
    return HiddenKey(meant, ours)


@given(slots, slots)
def test_an_untouched_file_means_what_was_uploaded(meant: Any, written: Any) -> None:
    assert key_value(hidden(meant, written), written) is meant


@given(slots, slots, slots)
def test_either_content_of_an_unconfirmed_write_is_ours(meant: Any, before: Any, after: Any) -> None:
    assert key_value(hidden(meant, before, after), before) is meant
    assert key_value(hidden(meant, before, after), after) is meant


@given(slots, slots)
def test_a_key_gone_from_the_file_was_taken_out_by_the_node(meant: Any, written: Any) -> None:
    result = key_value(hidden(meant, written), ABSENT)
    assert result is (meant if written is ABSENT else ABSENT)


@given(documents)
def test_without_hidden_keys_the_file_is_the_truth(file: dict[str, Any]) -> None:
    assert node_values(file, {}) == file
    assert list(node_values(file, {})) == list(file)


def test_a_nodes_change_beside_an_override_is_taken_and_the_override_is_not() -> None:
    meant = {"debug": False, "workers": 4, "old": 1}
    written = {"debug": True, "workers": 4, "old": 1}
    found = {"debug": True, "workers": 8, "new": 2}
    assert key_value(hidden(meant, written), found) == {"debug": False, "workers": 8, "new": 2}


def test_what_an_override_left_out_stays_meant() -> None:
    meant, written = {"x": 1, "y": 2}, {"q": 0}
    assert key_value(hidden(meant, written), {"q": 0, "z": 5}) == {"x": 1, "y": 2, "z": 5}


def test_a_block_written_anew_is_taken_whole() -> None:
    meant, written = {"x": 1, "y": 2}, {"x": 1, "y": 9}
    assert key_value(hidden(meant, written), {"x": 1, "y": 2, "z": 3}) == {"x": 1, "y": 2, "z": 3}
    assert key_value(hidden(meant, {"x": 7}), {"y": 3}) == {"y": 3}


def test_what_only_the_override_had_tells_whether_a_block_was_written_anew() -> None:
    """U18: a leaf that the override shares with the node's value tells nothing, one that it changed or added does."""
    assert key_value(hidden({"a": 1, "b": 2}, {"b": 2, "q": 0}), {"b": 2}) == {"b": 2}
    assert key_value(hidden({"a": 1, "b": 2, "c": 3}, {"a": 9, "b": 2}), {"b": 2}) == {"b": 2}
    # An override that only leaves things out has nothing else to be told by.
    assert key_value(hidden({"a": 1, "b": 2}, {"b": 2}), {"b": 2, "c": 3}) == {"a": 1, "b": 2, "c": 3}


def test_what_is_left_of_a_block_that_an_override_made_is_not_the_nodes() -> None:
    assert key_value(hidden(5, {"x": 1, "y": 2}), {"x": 1}) == 5
    assert key_value(hidden(5, {"x": 1, "y": 2}), {"x": 1, "z": 3}) == {"z": 3}


def test_what_the_node_takes_out_while_a_write_is_unconfirmed_is_gone() -> None:
    meant = {"x": 0, "y": 0}
    assert key_value(hidden(meant, meant, {"x": 10}), {"x": 0}) == {"x": 0}
    assert key_value(hidden(meant, {"x": 5}, {"x": 10}), {"x": 10, "z": 1}) == {"x": 0, "y": 0, "z": 1}


def test_a_changed_list_is_the_nodes_whole() -> None:
    assert key_value(hidden({"l": [1]}, {"l": [1, 2], "o": 1}), {"l": [3], "o": 1}) == {"l": [3]}


def test_one_is_not_true_and_not_a_float() -> None:
    assert key_value(hidden(1, True), 1) == 1
    assert key_value(hidden(1, 1.0), 1.0) is not None
    assert type(key_value(hidden(1, 1.0), 1.0)) is int


def test_a_key_that_only_an_override_made_is_never_uploaded() -> None:
    assert node_values({"a": 1, "added": 2}, {"added": hidden(ABSENT, 2)}) == {"a": 1}
    assert node_values({"a": 1, "added": 3}, {"added": hidden(ABSENT, 2)}) == {"a": 1, "added": 3}


def test_a_pending_restore_is_not_taken_for_the_nodes_removal() -> None:
    assert node_values({}, {"k": hidden(5, 6, ABSENT)}) == {"k": 5}
    assert node_values({"k": 7}, {"k": hidden(5, 6, ABSENT)}) == {"k": 7}


@given(documents, documents)
def test_settling_takes_stored_and_effective_leaves_as_ours(stored: dict[str, Any], extra: dict[str, Any]) -> None:
    effective = {**stored, **extra}
    for file in (stored, effective):
        result = settle(file, stored, effective)
        ambiguous_additions = [key for key in extra if key not in stored]
        assert set(result.ambiguous) <= (set(ambiguous_additions) if file is stored else set())
        assert dict(result.values) == stored


def test_a_leaf_of_neither_side_is_ambiguous_and_its_stored_value_stays() -> None:
    stored = {"nova": {"debug": False, "workers": 4}, "same": 1, "gone": 2}
    effective = {"nova": {"debug": True, "workers": 4}, "same": 1, "gone": 2}
    file = {"nova": {"debug": True, "workers": 8}, "same": 1, "new": 3}
    result = settle(file, stored, effective)
    assert sorted(result.ambiguous) == ["gone", "new", "nova"]
    assert result.values == stored


def test_leaves_of_both_sides_mixed_in_one_block_are_settled() -> None:
    stored, effective = {"b": {"x": 1, "y": 1}}, {"b": {"x": 2, "y": 2}}
    assert settle({"b": {"x": 1, "y": 2}}, stored, effective).ambiguous == ()


def test_a_mapping_that_the_node_made_a_scalar_is_the_nodes() -> None:
    meant, written = {"x": {"p": 1}, "y": 1}, {"x": {"p": 2}, "y": 2}
    for new in (5, "text", ["p"], None):
        assert key_value(hidden(meant, written), {"x": new, "y": 2}) == {"x": new, "y": 1}


def test_a_block_where_configdb_has_none_is_ambiguous_unless_it_is_the_stored_one() -> None:
    assert settle({"k": {"a": 1}}, {"k": {"a": 2}}, {"k": 5}).ambiguous == ("k",)
    assert settle({"k": {"a": 2}}, {"k": {"a": 2}}, {"k": 5}).ambiguous == ()
    assert settle({"k": 1}, {"k": {"a": 2}}, {"k": {"a": 3}}).ambiguous == ("k",)
    assert settle({"k": {"a": 1}}, {"k": 5}, {"k": {"a": 1, "b": 2}}).ambiguous == ()


@given(slots, slots, slots, slots)
def test_any_content_has_a_meaning(meant: Any, before: Any, after: Any, found: Any) -> None:
    """Whatever the node makes of a key: nothing of ours alone is uploaded, and there is always an answer."""
    value = key_value(hidden(meant, before, after), found)
    if found is ABSENT and before is not ABSENT and after is not ABSENT:
        assert value is ABSENT
    settle(*({} if slot is ABSENT else {"k": slot} for slot in (found, meant, after)))
