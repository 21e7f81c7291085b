"""U20: overrides that change nothing are found."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from configdb_sync.configdb.level_merge import effective
from configdb_sync.sync.ineffective_overrides import IneffectiveOverride, IneffectiveReason, ineffective_overrides

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
