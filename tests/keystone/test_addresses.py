"""Where a version of Keystone is asked for (U5, U12): pure."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configdb_sync.keystone.login import version_url, versions_url

BEHIND = "https://master:8443/keystone/"


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("http://m:5000", "http://m:5000/"),
        ("https://m:8443/keystone", "https://m:8443/keystone/"),
        ("https://m:8443/keystone/", "https://m:8443/keystone/"),
        ("http://m:5000/v3", "http://m:5000/v3"),
        ("http://m:5000/v2.0/", "http://m:5000/v2.0/"),
        ("http://m/v3/identity", "http://m/v3/identity/"),
    ],
)
def test_an_address_without_a_version_ends_in_a_slash(url: str, wanted: str) -> None:
    assert versions_url(url) == wanted


@pytest.mark.parametrize(
    ("given_address", "told", "version", "wanted"),
    [
        (BEHIND, "http://10.20.0.2:5000/v3/", (3, 6), "https://master:8443/keystone/v3"),
        (BEHIND, "http://10.20.0.2:5000/v2.0/", (2, 0), "https://master:8443/keystone/v2.0"),
        ("https://master:8443/keystone/v3", "http://master:5000/v3/", (3, 6), "https://master:8443/keystone/v3"),
        ("https://master:8443/keystone/v2.0/", "http://x/v2.0/", (2, 0), "https://master:8443/keystone/v2.0"),
        (BEHIND, "https://master:8443/v3", (3, 6), "https://master:8443/keystone/v3"),
        (BEHIND, "https://elsewhere:8443/keystone/v3", (3, 6), "https://master:8443/keystone/v3"),
        (BEHIND, "https://[", (3, 6), "https://master:8443/keystone/v3"),
        (BEHIND, "/v3", (3, 6), "https://master:8443/keystone/v3"),
        ("http://m:5000/", "http://m:5000/v3/", (3, 6), "http://m:5000/v3/"),
        ("http://m:5000/", "http://M:5000/identity/v3/", (3, 6), "http://M:5000/identity/v3/"),
        ("http://m:5000/", "http://127.0.0.1:5000/v3/", (3, 6), "http://m:5000/v3"),
        ("http://m:5000/", "https://m:5443/v3/", (3, 6), "https://m:5443/v3/"),
        ("http://m:5000/", "https://other:5443/v3/", (3, 6), "http://m:5000/v3"),
    ],
)
def test_it_is_believed_on_its_own_server_or_towards_tls(
    given_address: str, told: str, version: tuple[int, ...], wanted: str
) -> None:
    assert version_url(given_address, told, version) == wanted


@given(st.text())
def test_what_is_told_never_leads_off_tls_or_to_another_host(told: str) -> None:
    assert version_url(BEHIND, told, (3, 6)).startswith("https://master:8443/keystone/")
