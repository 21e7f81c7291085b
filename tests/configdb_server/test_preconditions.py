"""If-Match and If-None-Match as RFC 9110 has them: strict, lists, ``*``, weak tags."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from werkzeug.datastructures import Headers

from configdb_sync.configdb_server.preconditions import read_conditions
from configdb_sync.web.refusals import RefusalError


def fails(name: str, value: str, digest: str = "T", *, written: bool = True) -> bool:
    return read_conditions(Headers([(name, value)])).fails(digest, written=written)


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
        read_conditions(Headers([(name, value)]))
    assert caught.value.status == 400


@given(st.text(st.characters(max_codepoint=255), max_size=20))
def test_any_header_is_read_or_refused(value: str) -> None:
    headers = Headers()
    with contextlib.suppress(RefusalError, ValueError):
        headers["If-Match"] = value
    with contextlib.suppress(RefusalError):
        read_conditions(headers)


def test_no_header_is_no_condition() -> None:
    conditions = read_conditions(Headers())
    assert not conditions.fails("x", written=False)
    assert not conditions.unchanged("x")
