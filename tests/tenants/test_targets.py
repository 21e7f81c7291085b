"""Request targets and IDs (T1): what is taken goes round unchanged, what isn't is refused, never another tenant."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configdb_sync.tenants.paths import ResourcePath, RouteKind, route
from configdb_sync.web.refusals import RefusalError
from configdb_sync.web.requests import parameters, read_target

TEXT = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=255)
GOOD = [
    "12345",
    "Bob's Tenant",
    "\u2211\u221e\u2206\u220f",
    "resel:sub:acct",
    "resel\\sub\\acct",
    ".",
    "..",
    "a%b",
    "?",
    "#",
    ";x=1",
    " ",
    "\U0001f600" * 255,
    "caf\u00e9",
    "cafe\u0301",
    "A",
    "a",
    "a ",
    "\x01",
    "action",
]


@pytest.mark.parametrize("tenant", GOOD, ids=ascii)
def test_ids_that_must_work(tenant: str) -> None:
    place = ResourcePath(tenant, 16, "plugins/x")
    assert route(read_target(place.url).segments).place == place


@given(TEXT, TEXT, st.lists(TEXT, min_size=1, max_size=3).map("/".join).filter(lambda text: len(text) <= 128))
def test_places_go_round(tenant: str, destination: str, source: str) -> None:
    place = ResourcePath(tenant, 3, source)
    if source.endswith("action/move"):
        return
    assert route(read_target(place.url).segments).place == place
    target = read_target(place.move_url(destination))
    found = route(target.segments)
    assert (found.kind, found.place) == (RouteKind.MOVE, place)
    assert parameters(target.query, frozenset({"dest"})) == {"dest": destination}


@given(st.text(st.characters(min_codepoint=1, max_codepoint=255)))
def test_any_text_is_taken_or_refused(raw: str) -> None:
    with contextlib.suppress(RefusalError):
        assert not any("/" in segment or "\0" in segment for segment in read_target(raw).segments)


@pytest.mark.parametrize(
    "raw",
    [
        "/v1.0/a%2Fb",
        "/v1.0/a%2faction%2fmove",
        "/v1.0/%2F",
        "/v1.0/",
        "/v1.0//x",
        "/v1.0/%00",
        "/v1.0/%zz",
        "/v1.0/%",
        "/v1.0/%ff",
        "/v1.0/%ed%a0%80",
        "/v1.0/%c0%af",
        "/v1.0/" + "a" * 256,
        "/v1.0/a#b",
        "/v1.0/a b",
        "/v1.0/\u00e9",
        "*",
        "v1.0/a",
        "/v1.0/t/environments/1/resources/action/move/action/move",
    ],
)
def test_what_is_refused(raw: str) -> None:
    with pytest.raises(RefusalError) as refusal:
        route(read_target(raw).segments)
    assert refusal.value.status == 400


def test_absolute_form_is_the_same_place() -> None:
    assert read_target("http://other:1/v1.0/a%20b?x") == read_target("/v1.0/a%20b?x")
    assert read_target("http://other").segments == ("",)


@pytest.mark.parametrize("raw", ["//v1.0/x", "/", "/v1.1/x", "/v1.0/x/", "/v1.0/x/environments/016", "/V1.0/x"])
def test_what_there_is_not(raw: str) -> None:
    with pytest.raises(RefusalError) as refusal:
        route(read_target(raw).segments)
    assert refusal.value.status == 404
