"""The pages' URLs: raw, strict, and back to what they were read from (T1)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configdb_sync.status_page import page_urls
from configdb_sync.status_page.sign_in import next_page
from configdb_sync.tenants.paths import ResourcePath, Route, RouteKind
from configdb_sync.web.refusals import RefusalError
from configdb_sync.web.requests import read_target
from tests.tenants.test_targets import GOOD

RUN = "req-00000000-0000-0000-0000-000000000000"
texts = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=20)


def read(url: str) -> Route:
    return page_urls.page_route(read_target(url).segments)


@pytest.mark.parametrize("tenant", [None, *GOOD], ids=ascii)
@pytest.mark.parametrize("kind", [RouteKind.MATRIX, RouteKind.RUNS, RouteKind.RUN])
def test_a_page_of_an_environment_is_read_back(tenant: str | None, kind: RouteKind) -> None:
    page = page_urls.environment_page(tenant, 16, kind, RUN if kind is RouteKind.RUN else "")
    assert read(page_urls.page_url(page)) == page


@given(texts, st.lists(texts, min_size=1, max_size=3))
def test_a_page_of_a_data_source_is_read_back(tenant: str, parts: list[str]) -> None:
    name = "/".join(parts)
    if tuple(parts[-2:]) == ("action", "move") or len(name) > 128:
        return
    page = Route(RouteKind.PLACE, ResourcePath(tenant, 3, name))
    assert read(page_urls.page_url(page)) == page


@pytest.mark.parametrize("scope", [None, "a b"])
def test_the_first_page_is_read_back(scope: str | None) -> None:
    page = page_urls.environments_page(scope)
    assert read(page_urls.page_url(page)) == page


@pytest.mark.parametrize(
    "path",
    [
        *("/status/x", "/status/environments", "/status/environments/x", "/status/environments/01", "/status//"),
        *("/status/audit/1", "/status/tenants/a/environments", "/status/tenants/a/environments/1/resources"),
        *("/status/environments/1/resources/a", "/status/environments/1/action/move", "/status/tenants/a/audit"),
        *("/status/tenants/a/environments/1/action/move", "/status/sign-in/x", "/status/environments/1/runs/"),
    ],
)
def test_what_isnt_there(path: str) -> None:
    with pytest.raises(RefusalError) as refused:
        read(path)
    assert refused.value.status == 404


@pytest.mark.parametrize("path", ["/status/tenants/%2F", "/status/tenants/a%2Fb/environments/1", "/status/tenants/"])
def test_what_can_be_no_tenant(path: str) -> None:
    with pytest.raises(RefusalError) as refused:
        read(path)
    assert refused.value.status == 400


@pytest.mark.parametrize(
    "text",
    [
        *("", "//evil.example/status", "https://evil.example/status", "/\\evil.example", "/v1.0", "status", " /status"),
        *(
            "/status/sign-in",
            "/status/sign-out",
            "/status/../evil",
            "/status\r\nSet-Cookie: x=1",
            "/%73tatus",
            "//status",
        ),
        *("javascript:alert(1)", "/status/x", "/status#x", "/statusx"),
    ],
)
def test_signing_in_leads_to_no_other_place(text: str) -> None:
    assert next_page(text) is None


@given(st.text(max_size=40))
def test_whatever_is_asked_for_leads_to_our_own_pages_alone(text: str) -> None:
    found = next_page(text)
    assert found is None or (found.startswith("/status") and found.isascii() and found.isprintable())


def test_signing_in_leads_back_to_the_page_with_its_query() -> None:
    for page in ("/status", "/status/environments/1?status=ERROR", "/status/tenants/%3Cb%3E"):
        assert next_page(page) == page
