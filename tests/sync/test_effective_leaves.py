"""What is overridden, leaf by leaf: the sides agree with ConfigDB's own merge, and with each other."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
from hypothesis import given

from configdb_sync.configdb import level_merge
from configdb_sync.jsonvalues import ABSENT, Json
from configdb_sync.masking import Masker
from configdb_sync.sync.effective_leaves import Leaf, Level, Mark, leaf_json, leaves
from configdb_sync.sync.three_way_merge import equal

MASKER = Masker(b"k" * 32)
scalars = st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["", "a"])
values = st.recursive(scalars, lambda inner: st.dictionaries(st.sampled_from("xyz"), inner, max_size=3), max_leaves=6)
documents = st.dictionaries(st.sampled_from("abc"), values, max_size=3)


def made(*pairs: tuple[dict[str, Json], dict[str, Json]]) -> list[Leaf]:
    levels = [Level(place, *pair) for place, pair in zip(("/", "/nodes/1/"), pairs, strict=False)]
    return leaves(levels, level_merge.effective(pairs))


def marks(found: list[Leaf]) -> dict[tuple[str, ...], Mark]:
    return {leaf.path: leaf.mark for leaf in found}


def test_of_a_block_the_leaf_that_differs_is_overridden_the_others_are_pinned() -> None:
    found = made(
        ({}, {}), ({"nova": {"debug": False, "cpu": 4}, "x": 1}, {"nova": {"debug": True, "cpu": 4, "new": 1}})
    )
    assert marks(found) == {
        ("nova", "debug"): Mark.OVERRIDDEN,
        ("nova", "cpu"): Mark.PINNED,
        ("nova", "new"): Mark.OVERRIDDEN,
        ("x",): Mark.NONE,
    }
    leaf = found[0]
    assert (leaf.values, leaf.override, leaf.effective) == (False, True, True)
    assert (leaf.place, leaf.over) == ("/nodes/1/", "/nodes/1/")


def test_an_override_above_the_nodes_own_value_is_hidden() -> None:
    found = made(({}, {"a": 1, "b": 2}), ({"a": 3}, {}))
    assert marks(found) == {("a",): Mark.HIDDEN, ("b",): Mark.OVERRIDDEN}
    assert (found[0].effective, found[0].place, found[0].over) == (3, "/nodes/1/", "/")


def test_a_key_that_an_override_takes_out_of_a_block_is_overridden_by_nothing() -> None:
    found = made(({"a": {"x": 1, "y": 2}}, {"a": {"x": 1}}))
    gone = next(leaf for leaf in found if leaf.path == ("a", "y"))
    assert (gone.values, gone.override, gone.effective, gone.mark) == (2, ABSENT, ABSENT, Mark.OVERRIDDEN)


def test_secrets_are_masked_and_what_a_side_lacks_is_left_out() -> None:
    found = made(({"db": {"password": "CANARY"}, "url": "http://u:CANARY@h/"}, {}))
    shown = [leaf_json(leaf, MASKER) for leaf in found]
    assert "CANARY" not in str(shown)
    assert "override" not in shown[0]
    assert shown[0]["values"] == shown[0]["effective"]


@given(st.lists(st.tuples(documents, documents), min_size=1, max_size=2))
def test_every_leaf_is_what_the_documents_say(pairs: list[tuple[dict[str, Json], dict[str, Json]]]) -> None:
    found = made(*pairs)
    assert len({leaf.path for leaf in found}) == len(found)
    rebuilt: dict[str, Any] = {}
    for leaf in found:
        if leaf.effective is not ABSENT:
            here = rebuilt
            for step in leaf.path[:-1]:
                here = here.setdefault(step, {})
            here[leaf.path[-1]] = leaf.effective
        if leaf.mark is Mark.NONE:
            assert leaf.override is ABSENT
            assert equal(leaf.values, leaf.effective)
        if leaf.mark is Mark.PINNED:
            assert equal(leaf.values, leaf.effective)
    assert equal(rebuilt, level_merge.effective(pairs))
