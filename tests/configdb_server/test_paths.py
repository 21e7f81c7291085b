"""URLs below an environment (U9): tuning-box's rules for levels, names and ids."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configdb_sync.configdb_server.document_paths import (
    DocumentPath,
    EtagsPath,
    OverridesPath,
    id_or_name,
    is_id,
    read_path,
)
from configdb_sync.web.refusals import RefusalError


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("resources/astute/values", DocumentPath((), "astute", "values")),
        ("nodes/1/resources/2/overrides", DocumentPath((("nodes", "1"),), 2, "overrides")),
        ("resources/override/plugins/values", DocumentPath((), "override/plugins", "values")),
        ("resources/p3/values/values", DocumentPath((), "p3/values", "values")),
        ("resources/p3/x/values/y/values", DocumentPath((), "p3/x/values/y", "values")),
        ("a/b/c/d/resources/x/values/keys/set", DocumentPath((("a", "b"), ("c", "d")), "x", "values", "keys", "set")),
        ("resources/x/overrides/history", DocumentPath((), "x", "overrides", "history")),
        ("resources/x/values/history/3/revert", DocumentPath((), "x", "values", "revert", "3")),
        ("nodes/resources/resources/x/values", DocumentPath((("nodes", "resources"),), "x", "values")),
        ("etags", EtagsPath(())),
        ("nodes/etags/etags", EtagsPath((("nodes", "etags"),))),
        ("overrides", OverridesPath()),
        ("resources/values", None),
        ("resources/x", None),
        ("resources/x/values/keys/erase", None),
        ("nodes/1", None),
        ("nodes/1/resources", None),
        ("nodes/1/resources//values", None),
        ("nodes//resources/x/values", None),
        ("resources/x/values/", None),
        ("nodes/1/overrides", None),
        ("x/history", None),
    ],
)
def test_paths(path: str, expected: object) -> None:
    assert read_path(path) == expected


def test_a_level_value_beyond_128_characters_is_refused() -> None:
    assert read_path("nodes/" + "\u2603" * 128 + "/etags")
    with pytest.raises(RefusalError) as caught:
        read_path(f"nodes/{'x' * 129}/resources/x/values")
    assert caught.value.status == 400


def test_digits_are_an_id() -> None:
    assert [id_or_name(text) for text in ("2", "-1", "+3", "1_0", "007")] == [2, -1, 3, 10, 7]


@pytest.mark.parametrize("text", ["9" * 5000, "2x", "\u00b2", "\u0663", "\uff11", "\u2167", "\U0001d7d9", ""])
def test_digits_of_other_scripts_are_a_name(text: str) -> None:
    assert id_or_name(text) == text


def test_ids_that_a_database_holds() -> None:
    assert [is_id(number) for number in (0, 2**63 - 1, 2**63, -1)] == [True, True, False, False]


@given(
    st.lists(st.sampled_from(["a", "resources", "values", "etags", "keys", "set", "history", "revert", ""])).map(
        "/".join
    )
)
def test_any_path_is_something_or_nothing(path: str) -> None:
    read_path(path)
