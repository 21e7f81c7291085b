"""Names from file systems."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configdb_sync.names import natural_key
from configdb_sync.nodes.node_files import is_plain, shown


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ldap.yaml", "ldap.yaml"),
        ("∑ é 名.yaml", "∑ é 名.yaml"),
        (os.fsdecode(b"a\xffb"), "a\\xffb"),
        ("a\nb\x1b[1m\u2028", "a\\x0ab\\x1b[1m\\u2028"),
        ("a\\xffb", "a\\\\xffb"),
        ("\ud800", "\\ud800"),
    ],
)
def test_odd_names_are_shown_escaped(name: str, text: str) -> None:
    assert shown(name) == text
    assert is_plain(name) == (name == text)


@given(st.binary(max_size=12), st.binary(max_size=12))
def test_no_two_names_are_shown_alike(one: bytes, other: bytes) -> None:
    assert (shown(os.fsdecode(one)) == shown(os.fsdecode(other))) == (one == other)


def test_identities_sort_as_people_count() -> None:
    names = ["10", "2", "x", "07", "7", "1a", "", "x10", "x9"]
    assert sorted(names, key=natural_key) == ["", "1a", "2", "07", "7", "10", "x", "x9", "x10"]


def test_thousands_of_digits_are_a_name_too() -> None:
    names = ["1" + "0" * 5000, "9" * 5000, "9" * 4999, "10"]
    assert sorted(names, key=natural_key) == names[::-1]


@given(st.lists(st.text()))
def test_any_identities_can_be_sorted(names: list[str]) -> None:
    backwards = names[::-1]
    assert sorted(names, key=natural_key) == sorted(backwards, key=natural_key)
