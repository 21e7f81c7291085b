"""Addresses of the API (``docs/configdb-api.md``, Documents' URLs)."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configdb_sync.configdb import api_paths
from configdb_sync.configdb.connect import CONFIGDB
from configdb_sync.configdb.model import ChangeAuthor
from configdb_sync.errors import SettingsError
from configdb_sync.http import urls


@pytest.mark.parametrize(
    ("text", "base"),
    [
        ("http://h:8082", "http://h:8082"),
        (" https://h/api/v1/config/ ", "https://h/api/v1/config"),
        ("http://[::1]:80//", "http://[::1]:80"),
    ],
)
def test_base(text: str, base: str) -> None:
    assert CONFIGDB.base_url(text) == base


@pytest.mark.parametrize(
    "text",
    [
        "",
        "h:8082",
        "ftp://h",
        "http://",
        "http://h/?a=CANARY",
        "u:CANARY@h",
        "http://h/#x",
        "http://h:99999",
        "http://[::1",
        "/x",
        "http:///x",
    ],
)
def test_what_is_no_base(text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        CONFIGDB.base_url(text)
    assert "CANARY" not in str(caught.value)


def test_credentials_in_an_address_are_refused_and_not_shown() -> None:
    """U3: they would show in every log."""
    with pytest.raises(SettingsError, match="h holds credentials") as caught:
        CONFIGDB.base_url("http://user:CANARY@h/")
    assert "CANARY" not in str(caught.value)


@given(st.text(max_size=200))
def test_nothing_makes_it_fail_otherwise(text: str) -> None:
    try:
        base = CONFIGDB.base_url(text)
    except SettingsError:
        return
    assert urlsplit(base).scheme in {"http", "https"}


def test_what_is_shown() -> None:
    assert urls.shown("http://u:p@h/a?effective&key=CANARY") == "http://h/a?effective&key"
    assert "CANARY" not in urls.shown("u:CANARY@h/a")
    assert "CANARY" not in urls.shown("http:/u:CANARY@h/a")


def test_loopback() -> None:
    assert all(map(urls.is_loopback, ["http://127.0.0.1:1", "https://localhost", "http://[::1]:8"]))
    assert not any(map(urls.is_loopback, ["http://127.0.0.1.example", "http://10.0.0.1", "http://localhost.example"]))


@given(st.text(max_size=130))
def test_a_segment_is_read_back_or_refused(text: str) -> None:
    try:
        found = api_paths.segment(text, "x")
    except SettingsError:
        return
    assert unquote(found, errors="strict") == text
    assert set(found).isdisjoint("/?#%[]@:;\\ ") or "%" in found
    assert found not in {".", ".."}
    assert found.isascii()


def test_paths() -> None:
    assert api_paths.document_path(5, (), 3, "values") == "/environments/5/resources/3/values"
    levels = (("cluster", "c 1"), ("nodes", "n/1".replace("/", "-")))
    assert api_paths.document_path(5, levels, 3, "overrides") == (
        "/environments/5/cluster/c%201/nodes/n-1/resources/3/overrides"
    )
    with pytest.raises(SettingsError):
        api_paths.environment_path(-1)


HERE = "/environments/5/nodes/a%20b/resources/astute/values?effective"


@pytest.mark.parametrize(
    "location",
    [
        "http://other:1/api/v1/config/environments/5/nodes/a%20b/resources/30/values",
        "/environments/5/nodes/a b/resources/30/values",
        "https://h/environments/5/nodes/a%20b/resources/30/values?effective",
    ],
)
def test_the_redirect_of_a_name_to_its_id(location: str) -> None:
    found = api_paths.redirected(HERE, location)
    assert found is not None
    assert found.endswith("/resources/30/values?effective")
    assert found.startswith("/environments/5/nodes/a")


@pytest.mark.parametrize(
    "location",
    [
        "",
        "http://[",
        "http://h/",
        "/environments/6/nodes/a%20b/resources/30/values",
        "/environments/5/nodes/other/resources/30/values",
        "/environments/5/resources/30/values",
        "/environments/5/nodes/a%20b/resources/30/overrides",
        "/environments/5/nodes/a%20b/resources/30/values/keys/get",
        "/environments/5/nodes/a%20b/resources/x/values",
    ],
)
def test_other_redirects_lead_nowhere(location: str) -> None:
    assert api_paths.redirected(HERE, location) is None


@given(st.text(max_size=60), st.text(max_size=60))
def test_who_writes_stands_in_headers_that_carry_anything(author: str, comment: str) -> None:
    for name, value in api_paths.author_headers(ChangeAuthor("req-1", author, comment)).items():
        assert value.isascii()
        assert value.isprintable()
        if name == "X-Configdb-Comment":
            assert unquote(value) == comment.encode("utf-8", "replace").decode()
