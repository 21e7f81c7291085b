"""The JSON form of what JSON lacks, and the way back (U19, decision "What JSON lacks")."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configdb_sync.hiera.marks import CollisionError, to_json, typed, typed_key
from configdb_sync.hiera.scalars import Special

SYMBOL = Special("symbol", ":s")
DATE = Special("date", "2016-01-31")
TIME = Special("time", "2016-01-31T10:00:00.5+02:00")


@pytest.mark.parametrize(
    ("value", "form", "marks"),
    [
        (1, 1, None),
        ("x", "x", None),
        (SYMBOL, ":s", "symbol"),
        (DATE, "2016-01-31", "date"),
        ([SYMBOL, SYMBOL], [":s", ":s"], {"each": "symbol"}),
        ([SYMBOL, 1], [":s", 1], {"items": {"0": "symbol"}}),
        ([], [], None),
        (
            {Special("integer", "1"): 1, Special("integer", "2"): TIME},
            {"1": 1, "2": TIME.text},
            {"keys": "integer", "values": {"2": "time"}},
        ),
        ({SYMBOL: 1, "b": 2}, {":s": 1, "b": 2}, {"keys": {":s": "symbol"}}),
        (
            {"a": {"b": [{"c": DATE}]}},
            {"a": {"b": [{"c": "2016-01-31"}]}},
            {"values": {"a": {"values": {"b": {"each": {"values": {"c": "date"}}}}}}},
        ),
    ],
)
def test_tells_form_and_marks(value: Any, form: Any, marks: Any) -> None:
    assert to_json(value) == (form, marks)
    assert typed(form, marks) == value
    assert json.loads(json.dumps(marks)) == marks


@pytest.mark.parametrize(
    ("kind", "text", "special"),
    [
        ("symbol", ":a b", True),
        ("symbol", ":", True),
        ("symbol", "a", False),
        ("symbol", "", False),
        ("integer", "7", True),
        ("integer", "-7", True),
        ("integer", "07", False),
        ("integer", "-0", False),
        ("integer", "1_0", False),
        ("date", "2016-01-31", True),
        ("date", "2016-1-31", False),
        ("date", "2016-02-31", False),
        ("date", "2016-01-31T10:00:00Z", False),
        ("time", "2016-01-31T10:00:00Z", True),
        ("time", "2016-01-31T10:00:00", True),
        ("time", "2016-01-31 10:00:00Z", False),
        ("time", "2016-01-31T10:00:00.50Z", False),
        ("time", "0x_", False),
        ("merge", "<<", False),
        ("unknown", "x", False),
    ],
)
def test_a_text_gets_its_type_if_it_is_that_type_s_own(kind: Any, text: str, special: bool) -> None:
    expected: object = Special(kind, text) if special else text
    assert typed_key(text, kind) == expected
    if kind != "integer":
        assert typed([text], {"each": kind}) == [expected]


def test_new_keys_and_items_take_the_type_that_all_siblings_share() -> None:
    _, marks = to_json([SYMBOL])
    assert typed([":a", ":b", "c", 1], marks) == [Special("symbol", ":a"), Special("symbol", ":b"), "c", 1]
    _, marks = to_json({Special("integer", "1"): "a"})
    assert typed({"2": "b", "x": "c"}, marks) == {Special("integer", "2"): "b", "x": "c"}
    _, marks = to_json({SYMBOL: 1, "b": 2})
    assert typed({":t": 1}, marks) == {":t": 1}


@pytest.mark.parametrize("keys", [("1", Special("integer", "1")), (":s", SYMBOL), (DATE, "2016-01-31")])
def test_two_keys_with_one_text_are_a_collision(keys: tuple[Any, Any]) -> None:
    with pytest.raises(CollisionError):
        to_json({"a": [dict.fromkeys(keys, 0)]})


@given(st.recursive(st.none() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_marks_that_do_not_fit_change_nothing(value: Any) -> None:
    for marks in (
        "symbol",
        {"each": "date"},
        {"keys": "integer", "values": {"": "time"}},
        {"items": 3},
        7,
        ["x"],
        {"keys": 1},
    ):
        back, _ = to_json(typed(value, marks))
        assert back == value


TREES = st.recursive(
    st.sampled_from([SYMBOL, DATE, TIME]) | st.integers() | st.text() | st.none(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(alphabet="ab", min_size=1) | st.sampled_from([SYMBOL, Special("integer", "7")]), inner, max_size=4
        )
    ),
)


@given(TREES)
def test_every_tree_comes_back(tree: Any) -> None:
    form, marks = to_json(tree)
    assert typed(json.loads(json.dumps(form)), json.loads(json.dumps(marks))) == tree
