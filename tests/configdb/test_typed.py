"""Values as text (U16): types in, formats out."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from configdb_sync.configdb import typed
from configdb_sync.errors import SettingsError
from configdb_sync.jsonvalues import same

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.dictionaries(st.text(max_size=4), inner, max_size=3) | st.lists(inner, max_size=3),
    max_leaves=10,
)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("null", "", None),
        ("int", " -12 ", -12),
        ("int", "123456789012345678901234567890", 123456789012345678901234567890),
        ("float", "1e3", 1000.0),
        ("float", "1", 1.0),
        ("bool", "True", True),
        ("bool", "0", False),
        ("str", " 12 ", " 12 "),
        ("str", "", ""),
        ("json", '{"a": [1.0, null]}', {"a": [1.0, None]}),
        ("yaml", "a: [yes, 012, '1']", {"a": [True, 10, "1"]}),
    ],
)
def test_types(kind: str, text: str, value: Any) -> None:
    found = typed.parse(text, kind)
    assert same(found, value)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("null", "CANARY"),
        ("int", "CANARY"),
        ("int", "1_0"),
        ("int", "٣"),
        ("int", "9" * 5000),
        ("float", "nan"),
        ("float", "1e999"),
        ("bool", "CANARY"),
        ("json", "{CANARY"),
        ("json", "NaN"),
        ("json", '{"a": 1, "b": [{"CANARY": 1, "CANARY": 2}]}'),
        ("yaml", "a: 1\nb: [{CANARY: 1, CANARY: 2}]"),
        ("json", "[" * 3000),
        ("yaml", "a: 2026-01-01"),
        ("yaml", "a: !!binary Q0FOQVJZ"),
        ("yaml", "1: CANARY"),
        ("yaml", "a: .nan"),
        ("yaml", "a: [CANARY"),
        ("yaml", "!!python/object/apply:os.system [CANARY]"),
        ("yaml", "a: &x [*x]"),
        ("yaml", "--- 1\n--- CANARY"),
    ],
)
def test_what_is_not_of_the_type_is_refused_and_not_shown(kind: str, text: str) -> None:
    with pytest.raises(SettingsError, match=f"can't be read as {kind}") as caught:
        typed.parse(text, kind)
    assert "CANARY" not in str(caught.value)


@given(JSON)
def test_json_and_yaml_are_read_back(value: Any) -> None:
    assert same(json.loads(typed.text(value, "json")), value)
    assert typed.text(value, "yaml").encode("utf-8", "strict") is not None
    if not isinstance(value, float):
        assert same(typed.parse(typed.text(value, "json"), "json"), value)


def test_yaml_is_read_back() -> None:
    value = {"a": [1, 2.5, None, True, "yes", "1", "é\u2028"], "b": {"x": {}}, "c": []}
    shared = [value["a"], value["a"]]
    assert yaml.safe_load(typed.text(value, "yaml")) == value
    assert "&" not in typed.text(shared, "yaml")


@pytest.mark.parametrize(
    ("value", "plain"),
    [("text", "text"), (1, "1"), (None, "null"), (True, "true"), ({}, "{}"), ("\ud800", '"\\ud800"')],
)
def test_plain_is_the_text_itself_and_json_of_all_else(value: Any, plain: str) -> None:
    assert typed.text(value, "plain") == plain


def test_a_lookup_is_a_line_a_key() -> None:
    found = {"a": ({"x": 1}, "/nodes/46/"), "b": ("é", "/")}
    assert typed.lookup_text(found, "plain") == '/nodes/46/\ta\t{"x": 1}\n/\tb\t"é"'
    assert json.loads(typed.lookup_text(found, "json")) == {"a": [{"x": 1}, "/nodes/46/"], "b": ["é", "/"]}
