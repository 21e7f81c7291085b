"""U28: the file of overrides is read strictly and written so that it reads back."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from configdb_sync.configdb import typed
from configdb_sync.errors import SettingsError
from configdb_sync.overrides.file import OverridesFile, Reference, Wanted, read, resolved, write

SCHEMA = json.loads(resources.files("configdb_sync.overrides").joinpath("overrides.schema.json").read_text("utf-8"))
VALID = Draft202012Validator(SCHEMA)

TEXT = """
version: 1
name: compute tuning
environment: 5
overrides:
  - {level: nodes=node-2, data_source: globals, key: debug, value: true, reason: "bug 12", until: "2026-12-31"}
  - {data_source: astute, key: [a.b, c], value: {file: secret.txt}}
  - {level: /, data_source: astute, key: nova.x, value: {literal: {env: HOME}}}
  - {level: /, data_source: astute, key: nova.y, value: {env: WORKERS, type: int}}
"""


def test_a_file() -> None:
    found = read(TEXT, "other")
    assert (found.name, found.environment) == ("compute tuning", 5)
    assert found.overrides == (
        Wanted("nodes=node-2", "globals", ("debug",), True, "bug 12", "2026-12-31"),
        Wanted("", "astute", ("a.b", "c"), Reference("file", "secret.txt")),
        Wanted("", "astute", ("nova", "x"), {"env": "HOME"}),
        Wanted("", "astute", ("nova", "y"), Reference("env", "WORKERS", "int")),
    )
    given_texts = resolved(found.overrides, {"secret.txt": "s3\n"}.__getitem__, {"WORKERS": "4"}.get)
    assert [one.value for one in given_texts] == [True, "s3", {"env": "HOME"}, 4]
    VALID.validate(typed.load_yaml(TEXT))
    assert "s3" not in repr(given_texts)


names = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufeff\x85\u2028\u2029"), min_size=1, max_size=6
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**70) | st.floats(allow_nan=False, allow_infinity=False) | names,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(names | st.sampled_from(["env", "file", "literal"]), inner, max_size=2)
    ),
    max_leaves=6,
)
wanted = st.builds(
    Wanted,
    st.just("") | names.map(lambda name: f"nodes={name}"),
    names,
    st.lists(names, min_size=1, max_size=3).map(tuple),
    values | st.builds(Reference, st.sampled_from(["env", "file"]), names, st.sampled_from(typed.TYPES)),
    st.none() | names,
    st.none() | st.sampled_from(["2026-12-31", "2026-12-31T18:00:00+00:00"]),
)


@given(
    st.lists(wanted, max_size=4, unique_by=lambda one: (one.level, one.data_source)), st.none() | st.integers(1, 10**6)
)
def test_what_is_written_reads_back(found: list[Wanted], environment: int | None) -> None:
    content = OverridesFile("name", environment, tuple(found))
    text = write(content)
    back = read(text, "other")
    VALID.validate(typed.load_yaml(text))
    assert sorted(map(repr, back.overrides)) == sorted(map(repr, found))
    assert sorted((one.level, str(one.value)) for one in back.overrides) == sorted(
        (one.level, str(one.value)) for one in found
    )
    assert back.environment == environment


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"version": 2}, "version 2"),
        ({"version": True}, "version True"),
        ({"environment": "5"}, "'5'"),
        ({"environment": 0}, "0"),
        ({"more": 1}, "unknown field more"),
        ({"overrides": {}}, "no list"),
        ({"overrides": [1]}, "entry 1"),
        ({"overrides": [{"data_source": "a", "key": "b"}]}, "no value"),
        ({"overrides": [{"data_source": "a", "value": 1}]}, "no key"),
        ({"overrides": [{"data_source": "a", "key": "b..c", "value": 1}]}, "b..c"),
        ({"overrides": [{"data_source": "a", "key": {"b": 1}, "value": 1}]}, "no dotted text"),
        ({"overrides": [{"data_source": 5, "key": "b", "value": 1}]}, "data_source is no text"),
        ({"overrides": [{"data_source": "a", "key": "b", "value": 1, "untill": "x"}]}, "untill"),
        ({"overrides": [{"data_source": "a", "key": "b", "value": 1}] * 2}, "twice"),
        (
            {"overrides": [{"data_source": "a", "key": k, "value": 1} for k in ("b", "b.c")]},
            "within another",
        ),
        ({"name": ""}, "no name"),
        ({"overrides": [{"data_source": "a", "key": "b", "value": {"env": 5}}]}, "no name"),
        ({"overrides": [{"data_source": "a", "key": "b", "value": {"file": "x", "type": "y"}}]}, "unknown type"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], part: str) -> None:
    whole = {"version": 1, "overrides": [], **change}
    with pytest.raises(SettingsError, match=part):
        read(json.dumps(whole), "x")


def test_the_example_is_valid() -> None:
    text = (Path(__file__).resolve().parents[2] / "examples/overrides.yaml").read_text("utf-8")
    VALID.validate(typed.load_yaml(text))
    assert read(text, "x").name == "compute"


def test_a_date_needs_no_quotes() -> None:
    text = "{version: 1, overrides: [{data_source: a, key: b, value: 1, until: 2026-12-31}]}"
    assert read(text, "x").overrides == (Wanted("", "a", ("b",), 1, None, "2026-12-31"),)


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"environment": 0},
        {"more": 1},
        {"overrides": [{"data_source": "a", "key": "b"}]},
        {"overrides": [{"data_source": "a", "key": "b", "value": 1, "untill": "x"}]},
        {"overrides": [{"data_source": "a", "key": "b", "value": {"env": 5}}]},
        {"overrides": [{"data_source": "a", "key": "b", "value": {"env": "X", "type": "y"}}]},
    ],
)
def test_the_schema_refuses_what_the_reader_refuses(change: dict[str, Any]) -> None:
    whole = {"version": 1, "overrides": [], **change}
    assert not VALID.is_valid(whole)
    with pytest.raises(SettingsError):
        read(json.dumps(whole), "x")


@pytest.mark.parametrize(
    "text", ["", "[", "a: 1\na: 2", "{version: 1, overrides: [{data_source: a, key: b, value: 2026-01-01}]}", "- 1"]
)
def test_what_is_no_overrides_file_is_refused(text: str) -> None:
    with pytest.raises(SettingsError):
        read(text, "x")


def test_a_text_of_another_type_is_refused_and_not_shown() -> None:
    one = Wanted("", "a", ("b",), Reference("env", "N", "int"))
    with pytest.raises(SettingsError, match=r"b of a .* as int") as error:
        resolved([one], lambda name: name, {"N": "CANARY"}.get)
    assert "CANARY" not in str(error.value)


def test_a_variable_that_is_not_set_is_named() -> None:
    one = Wanted("", "a", ("b",), Reference("env", "NOPE"))
    with pytest.raises(SettingsError, match="NOPE"):
        resolved([one], lambda name: name, lambda _: None)
