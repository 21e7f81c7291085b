"""If-Match and If-None-Match as RFC 9110 has them: strict, lists, ``*``, weak tags."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configdb_sync.web.refusals import RefusalError
from configdb_sync.web.requests import read_preconditions


def environ(name: str, value: str) -> dict[str, str]:
    return {f"HTTP_{name.upper().replace('-', '_')}": value}


def fails(name: str, value: str, digest: str = "T", *, written: bool = True) -> bool:
    return not read_preconditions(environ(name, value)).hold(digest, exists=written)


@pytest.mark.parametrize("value", ['"T"', ' "T" ', '"a","T"', '"a" ,, "T",', 'W/"a", "T"', '"a,b","T"'])
def test_a_listed_strong_tag_matches(value: str) -> None:
    assert not fails("If-Match", value)
    assert fails("If-None-Match", value)


@pytest.mark.parametrize("value", ['"a"', '"t"', '"a,T"', '""', '"W/T"'])
def test_another_tag_does_not(value: str) -> None:
    assert fails("If-Match", value)
    assert not fails("If-None-Match", value)


def test_weak_tags_match_for_reading_alone() -> None:
    assert fails("If-Match", 'W/"T"')
    assert fails("If-None-Match", 'W/"T"')


def test_the_star_asks_whether_it_was_ever_written() -> None:
    assert not fails("If-Match", "*")
    assert fails("If-Match", "*", written=False)
    assert fails("If-None-Match", "*")
    assert not fails("If-None-Match", "*", written=False)


@pytest.mark.parametrize(
    "value",
    [
        "",
        " ",
        ",",
        "T",
        "'T'",
        'w/"T"',
        '"a b"',
        '"abc" junk',
        'W/ "T"',
        '"T" "U"',
        '*,"T"',
        '"T",*',
        '"T',
        "**",
        '"x"' * 2000,
    ],
)
@pytest.mark.parametrize("name", ["If-Match", "If-None-Match"])
def test_a_malformed_header_is_400(name: str, value: str) -> None:
    with pytest.raises(RefusalError) as caught:
        read_preconditions(environ(name, value))
    assert caught.value.status == 400


@given(st.text(st.characters(max_codepoint=255), max_size=20))
def test_any_header_is_read_or_refused(value: str) -> None:
    with contextlib.suppress(RefusalError):
        read_preconditions(environ("If-Match", value))


def test_no_header_is_no_condition() -> None:
    conditions = read_preconditions({})
    assert conditions.hold("x", exists=False)
    assert conditions.none_matches("x")


def test_without_a_word_what_has_a_tag_exists() -> None:
    for value, holds in (("*", (True, False)), ('"T"', (True, False)), ('"a"', (False, False))):
        conditions = read_preconditions(environ("If-Match", value))
        assert (conditions.matches("T", "U"), conditions.matches()) == holds
    assert read_preconditions(environ("If-None-Match", "*")).none_matches()
