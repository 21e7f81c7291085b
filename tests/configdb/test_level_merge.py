"""The merge rule against a three-line model (U20; the rule that the embedded server and ``plan`` share)."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from configdb_sync.configdb import level_merge
from configdb_sync.names import place_of

KEYS = st.sampled_from(["a", "b", "c", "d"])
DOCUMENTS = st.dictionaries(KEYS, st.none() | st.integers(0, 3) | st.dictionaries(KEYS, st.integers(0, 2)), max_size=4)
LEVELS = st.lists(st.tuples(DOCUMENTS, DOCUMENTS), max_size=4)


def model(levels: list[tuple[dict[str, Any], dict[str, Any]]]) -> dict[str, Any]:
    flat = [document for pair in levels for document in pair]
    order = dict.fromkeys(key for document in flat for key in document)
    return {key: [document[key] for document in flat if key in document][-1] for key in order}


@given(LEVELS)
def test_the_last_document_that_has_a_key_gives_it(levels: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    found = level_merge.effective(levels)
    assert found == model(levels)
    assert list(found) == list(model(levels))


@given(LEVELS)
def test_lookup_says_the_level_that_gave_the_value(levels: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    found = level_merge.lookup((str(depth), values, overrides) for depth, (values, overrides) in enumerate(levels))
    assert {key: value for key, (value, _) in found.items()} == level_merge.effective(levels)
    for key, (_, depth) in found.items():
        assert any(key in document for document in levels[int(depth)])
        assert not any(key in document for pair in levels[int(depth) + 1 :] for document in pair)


def test_nothing_is_merged_below_the_top_and_null_is_a_value() -> None:
    root: dict[str, Any] = {"deep": {"x": 1, "y": 2}, "list": [1, 2], "gone": 1}
    assert level_merge.effective([(root, {}), ({"deep": {"x": 9}, "list": [3]}, {"gone": None})]) == {
        "deep": {"x": 9},
        "list": [3],
        "gone": None,
    }


def test_a_value_below_beats_an_override_above() -> None:
    assert level_merge.effective([({"a": 1}, {"a": "override"}), ({"a": 2}, {})]) == {"a": 2}


def test_places_are_written_as_show_lookup_has_them() -> None:
    assert place_of([]) == "/"
    assert place_of([("cluster", "c1"), ("nodes", "n1")]) == "/cluster/c1/nodes/n1/"
