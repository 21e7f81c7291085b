"""Paths with Hiera's placeholders (U7)."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configdb_sync.hiera.path_template import expand, parse

FACTS = {
    "fqdn": "node-1.example.com",
    "uid": "46",
    "deployment_id": 16,
    "debug": True,
    "network": {"vips": ["10.0.0.1", {"name": "public"}], "ipv6": None},
    "a.b": "dotted key",
    "ratio": 1.5,
    "empty": "",
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("globals", "globals"),
        ("override/node/%{fqdn}", "override/node/node-1.example.com"),
        ("override/node/%{::fqdn}", "override/node/node-1.example.com"),
        ("override/%{ ::uid }/x", "override/46/x"),
        ("%{deployment_id}-%{uid}", "16-46"),
        ("%{debug}", "true"),
        ("%{network.vips.0}", "10.0.0.1"),
        ("%{network.vips.1.name}", "public"),
        ("%{a.b}", "dotted key"),
        ("100%/x}", "100%/x}"),
    ],
)
def test_a_path_is_expanded_as_hiera_does(path: str, expected: str) -> None:
    assert expand(parse(path), FACTS) == expected


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("%{nothing}", "the node has no fact nothing"),
        ("%{network.ipv6}", "the node has no fact network.ipv6"),
        ("%{network.vips.9}", "the node has no fact network.vips.9"),
        ("%{network.vips.00000000000000000000000001}", "the node has no fact"),
        ("%{uid.x}", "the node has no fact uid.x"),
        ("%{network}", "the fact network is no text or integer"),
        ("%{ratio}", "the fact ratio is no text or integer"),
        ("%{empty}", "the fact empty can't be part of a file's name"),
    ],
)
def test_an_unknown_or_unfit_fact_gives_no_path(path: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        expand(parse(path), FACTS)


@pytest.mark.parametrize("value", ["..", ".", "a/b", "../x", "a\nb", "a\0b", "\x7f", "a\\b", "\ud800", "a\u2028b", ""])
def test_a_hostile_fact_never_becomes_a_path_nor_part_of_a_message(value: str) -> None:
    with pytest.raises(ValueError, match="fact secret can't be part") as caught:
        expand(parse("override/%{secret}"), {"secret": value})
    assert len(value) < 2 or value not in str(caught.value)


def test_a_path_that_would_leave_its_folder_is_none() -> None:
    for path in ("../%{uid}", "%{uid}/../x", "%{uid}//x", "/%{uid}", "%{uid}/."):
        with pytest.raises(ValueError, match="would leave its folder"):
            expand(parse(path), FACTS)


@pytest.mark.parametrize(
    "path", ["%{", "a/%{fqdn", "%{}", "%{hiera('x')}", "%{scope('y')}", "%{a b}", "%{a..b}", "%{%{uid}}"]
)
def test_what_is_no_variable_is_refused_when_declared(path: str) -> None:
    with pytest.raises(ValueError, match=r"placeholder|variable"):
        parse(path)


@given(st.text(), st.dictionaries(st.sampled_from(["fqdn", "uid", "a"]), st.text() | st.integers() | st.none()))
def test_any_text_is_a_template_or_a_value_error(text: str, facts: dict[str, object]) -> None:
    try:
        template = parse(text)
    except ValueError:
        return
    assert parse(str(template)) == template
    try:
        path = expand(template, facts)
    except ValueError:
        return
    assert all(step not in {"", ".", ".."} for step in path.split("/"))
