"""U20: overrides that change nothing are found."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from configdb_sync.configdb.level_merge import effective
from configdb_sync.hiera.lookup import Layer
from configdb_sync.sync.ineffective_overrides import (
    IneffectiveOverride,
    IneffectiveReason,
    ineffective_overrides,
    unread_overrides,
)

document = st.dictionaries(st.sampled_from("abc"), st.integers(0, 1), max_size=3)
levels = st.lists(st.tuples(document, document), min_size=1, max_size=3)


def test_an_override_above_is_hidden_by_the_nodes_own_value() -> None:
    found = ineffective_overrides("astute", ["/", "/nodes/1/"], [({}, {"a": 9, "b": 9}), ({"a": 1}, {})])
    assert found == (IneffectiveOverride("astute", "/", "a", IneffectiveReason.HIDDEN),)


def test_an_override_that_equals_the_value_is_named_and_true_is_not_one() -> None:
    found = ineffective_overrides("astute", ["/nodes/1/"], [({"a": 1, "b": 1}, {"a": 1, "b": True, "c": None})])
    assert found == (IneffectiveOverride("astute", "/nodes/1/", "a", IneffectiveReason.EQUAL),)


@given(levels)
def test_exactly_those_are_found_whose_absence_changes_nothing(found: list[tuple[Any, Any]]) -> None:
    places = [str(depth) for depth in range(len(found))]
    idle = {(override.level, override.key) for override in ineffective_overrides("x", places, found)}
    whole = effective(found)
    for depth, (values, overrides) in enumerate(found):
        for key in overrides:
            rest = {name: value for name, value in overrides.items() if name != key}
            without = [*found[:depth], (values, rest), *found[depth + 1 :]]
            assert (effective(without) == whole) == ((places[depth], key) in idle)


def test_an_override_is_unread_if_another_data_source_has_all_of_its_leaves() -> None:
    beneath = {"debug": False, "nova": {"debug": False, "workers": 1}, "own": 1}
    overrides = {
        "debug": True,
        "nova": {"debug": True, "workers": 1},  # one leaf of the block differs
        "cinder": {"debug": True, "x": 1},
        "own": 2,
    }
    above = {"debug": False, "nova": {"debug": False}, "cinder": {"debug": False}}
    layers = [Layer("globals", above), Layer("astute", {**beneath, **overrides})]
    levels: list[tuple[Any, Any]] = [({}, {"debug": True}), (beneath, overrides)]
    places = ["/", "/nodes/1/"]

    def unread(place: str, key: str) -> IneffectiveOverride:
        return IneffectiveOverride("astute", place, key, IneffectiveReason.OTHER_DATA_SOURCE, "globals")

    found = unread_overrides("astute", places, levels, layers)
    assert found == (unread("/", "debug"), unread("/nodes/1/", "debug"), unread("/nodes/1/", "nova"))
    assert unread_overrides("globals", places, levels, layers) == ()
    # Hiera reads no file of a class unless that class asks.
    assert unread_overrides("class/x", places, levels, layers) == ()
