"""U28: what is exported is what differs, and putting it back over the values gives the same overrides."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from configdb_sync.configdb import level_merge
from configdb_sync.jsonvalues import Json, same
from configdb_sync.masking import Masker
from configdb_sync.names import LevelPath, levels_of, place_of
from configdb_sync.overrides.application import put_all
from configdb_sync.overrides.export import level_text, overridden, without_secrets
from configdb_sync.overrides.file import Reference, Wanted

MASKER = Masker(b"k")


def leaves(beneath: dict[str, Json], overrides: dict[str, Json]) -> list[Wanted]:
    return [Wanted("", "a", path, value) for path, value in overridden(beneath, overrides)]


def test_only_what_differs_is_exported() -> None:
    values = {"nova": {"debug": False, "workers": 4, "api": {"x": 1}}, "same": 1}
    block = {"debug": True, "workers": 4, "api": {"x": 1, "y": 2}}
    found = leaves(values, {"nova": block, "same": 1, "new": {"a": {"b": 1}, "c": {}}})
    assert [(one.path, one.value) for one in found] == [
        (("nova", "debug"), True),
        (("nova", "api", "y"), 2),
        (("new", "a", "b"), 1),
        (("new", "c"), {}),
    ]


def test_a_block_that_takes_a_key_away_is_exported_whole() -> None:
    values = {"nova": {"debug": False, "api": {"x": 1, "y": 2}}}
    found = leaves(values, {"nova": {"debug": True, "api": {"x": 1}}})
    assert [(one.path, one.value) for one in found] == [(("nova", "debug"), True), (("nova", "api"), {"x": 1})]


keys = st.sampled_from(["a", "b", "c.d"])
leaf = st.none() | st.booleans() | st.integers(0, 2) | st.just("") | st.lists(st.integers(0, 1), max_size=2)
blocks = st.recursive(leaf, lambda inner: st.dictionaries(keys, inner, max_size=3), max_leaves=8)
documents = st.dictionaries(keys, blocks, max_size=3)


@given(documents, documents)
def test_an_export_over_the_same_values_has_the_same_effect(
    beneath: dict[str, Json], overrides: dict[str, Json]
) -> None:
    made = put_all({}, lambda: beneath, leaves(beneath, overrides))
    assert same(level_merge.effective([(beneath, made)]), level_merge.effective([(beneath, overrides)]))
    assert all(same(overrides[key], value) for key, value in made.items())


@given(documents, documents)
def test_applying_an_export_to_what_it_was_made_of_changes_nothing(
    beneath: dict[str, Json], overrides: dict[str, Json]
) -> None:
    assert same(put_all(overrides, lambda: beneath, leaves(beneath, overrides)), overrides)


def test_a_secret_becomes_a_variable_of_the_same_name_each_time() -> None:
    given_ = [
        Wanted("nodes=2", "globals", ("admin", "password"), "CANARY-1"),
        Wanted("nodes=2", "globals", ("admin-password",), "CANARY-2"),
        Wanted("nodes=2", "globals", ("admin", "tokens"), ["CANARY-3"]),
        Wanted("nodes=2", "globals", ("debug",), True),
    ]
    found, names = without_secrets(given_, MASKER)
    assert "CANARY" not in repr([one.value for one in found])
    assert names == [
        "OVERRIDE_NODES_2_GLOBALS_ADMIN_PASSWORD",
        "OVERRIDE_NODES_2_GLOBALS_ADMIN_TOKENS",
        "OVERRIDE_NODES_2_GLOBALS_ADMIN_PASSWORD_2",
    ]
    assert {one.path: one.value for one in found}["admin", "tokens"] == Reference("env", names[1], "json")
    assert without_secrets(reversed(given_), MASKER) == (found, names)


levels = st.lists(
    st.tuples(st.sampled_from(["cluster", "nodes"]), st.text("ab.-", min_size=1, max_size=5)), max_size=2
).map(tuple)


@given(levels)
def test_a_place_becomes_a_level_and_back(path: LevelPath) -> None:
    assert levels_of(place_of(path)) == path
    assert level_text(path).count("=") == len(path)
