"""Which redirects of Nailgun's are followed (U12): pure."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configdb_sync.nailgun.client import base_url, led_to

BASE = "http://master:8000"


@pytest.mark.parametrize(
    ("location", "base"),
    [
        ("https://master:8443/api/version", "https://master:8443"),
        ("https://MASTER:8443/api/version", "https://MASTER:8443"),
        ("https://master/api/version", "https://master"),
        ("http://master:8443/api/version", None),
        ("https://other:8443/api/version", None),
        ("https://master.example:8443/api/version", None),
        ("https://user@master:8443/api/version", None),
        ("https://master:8443@evil/api/version", None),
        ("https://evil\\@master/api/version", None),
        ("https://master:8443/api/version?x=1", None),
        ("https://master:8443/api/version#x", None),
        ("https://master:8443/login", None),
        ("https://master:x/api/version", None),
        ("//master:8443/api/version", None),
        ("/api/version", None),
        ("", None),
        ("https://[", None),
    ],
)
def test_only_the_step_to_tls_on_the_same_host_is_followed(location: str, base: str | None) -> None:
    assert led_to(BASE, "/api/version", location) == base


def test_https_leads_nowhere() -> None:
    assert led_to("https://master:8443", "/api/version", "https://master:9443/api/version") is None


@given(st.text())
def test_a_base_is_never_another_hosts(location: str) -> None:
    found = led_to(BASE, "/api/version", location)
    assert found is None or (found.lower().startswith("https://master"))


@pytest.mark.parametrize("end", ["", "/", "/api", "/api/", "/api/v1", "/api/v1/"])
def test_the_address_may_end_in_the_api(end: str) -> None:
    assert base_url(f"https://master:8443{end}") == "https://master:8443"
