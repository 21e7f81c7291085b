"""Versions (U17): who, when, which run, why; reading one, going back, pruning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
import sqlalchemy

from configdb_sync.configdb_server.messages import ServerLimits
from configdb_sync.jsonvalues import document_digest
from configdb_sync.store.engine import key_file_of
from tests.support.configdb_server import CLUSTER, NODE, Api

WRITER = {
    "X-Configdb-Author": quote("Zo\u00eb \u2603"),
    "X-Configdb-Run": "req-1",
    "X-Configdb-Comment": quote("100 % sure,\nreally"),
}


def test_every_change_has_its_writer(fuel: Api) -> None:
    fuel.good("PUT", NODE + "/values", {"a": 1}, headers=WRITER)
    fuel.good("PUT", NODE + "/values/keys/set", [["a", 2]])
    assert fuel.good("GET", NODE + "/values/history") == [
        {
            "version": 2,
            "author": "anonymous",
            "run": None,
            "comment": None,
            "time": "2026-11-29T12:00:02.123456+00:00",
            "digest": document_digest({"a": 2}),
        },
        {
            "version": 1,
            "author": "Zo\u00eb \u2603",
            "run": "req-1",
            "comment": "100 % sure,\nreally",
            "time": "2026-11-29T12:00:01.123456+00:00",
            "digest": document_digest({"a": 1}),
        },
    ]
    assert fuel.good("GET", NODE + "/overrides/history") == []
    assert fuel.get("/environments/5/resources/nope/values/history").status_code == 404


def test_a_version_reads_as_it_was(fuel: Api) -> None:
    for number in range(3):
        fuel.good("PUT", NODE + "/overrides", {"a": number})
    answer = fuel.get(NODE + "/overrides?version=2")
    assert (answer.json, answer.headers["X-Configdb-Version"]) == ({"a": 1}, "2")
    assert answer.headers["ETag"] == f'"{document_digest({"a": 1})}"'
    assert fuel.good("GET", NODE + "/overrides?version=1&key=a") == 0
    for text, status in (("0", 404), ("4", 404), ("9" * 30, 404), ("x", 400), ("-1", 400), ("", 400), ("\u0663", 400)):
        assert fuel.get(f"{NODE}/overrides?version={quote(text)}").status_code == status
    assert fuel.get(NODE + "/values?version=1").status_code == 404


def test_going_back_is_a_version_of_its_own(fuel: Api) -> None:
    fuel.put(NODE + "/values", data='{"b":1,"a":2}', content_type="application/json")
    fuel.good("PUT", NODE + "/values", {"c": 3})
    present = fuel.get(NODE + "/values").headers["ETag"]
    assert fuel.post(NODE + "/values/history/1/revert", headers={"If-Match": '"x"'}).status_code == 412
    answer = fuel.post(NODE + "/values/history/1/revert", headers={"If-Match": present})
    assert (answer.status_code, answer.headers["X-Configdb-Version"]) == (204, "3")
    assert fuel.get(NODE + "/values").text == '{"b":1,"a":2}\n'
    assert fuel.good("GET", NODE + "/values/history")[0]["comment"] == "revert to version 1"
    fuel.good("POST", NODE + "/values/history/2/revert", headers=WRITER)
    assert fuel.good("GET", NODE + "/values/history")[0]["comment"] == "100 % sure,\nreally"
    assert fuel.post(NODE + "/values/history/9/revert").status_code == 404
    assert fuel.post(NODE + "/values/history/x/revert").status_code == 400
    assert fuel.get(NODE + "/values/history/1/revert").status_code == 405
    # Going back to what is there changes nothing.
    assert fuel.post(NODE + "/values/history/4/revert").headers["X-Configdb-Version"] == "4"
    # The effective digest follows.
    assert fuel.get(NODE + "/values?effective").headers["ETag"] == f'"{document_digest({"c": 3})}"'


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Configdb-Author": "%"},
        {"X-Configdb-Author": "%zz"},
        {"X-Configdb-Author": "%ff"},
        {"X-Configdb-Author": "\u00e9"},
        {"X-Configdb-Run": "a%00"},
        {"X-Configdb-Run": "x" * 256},
        {"X-Configdb-Comment": "x" * 4097},
    ],
)
def test_writers_that_cannot_be_read_are_refused(fuel: Api, headers: dict[str, str]) -> None:
    assert fuel.put(NODE + "/values", {"a": 1}, headers=headers).status_code == 400
    assert fuel.good("GET", NODE + "/values") == {}


def count(url: str) -> Any:
    bare, _ = key_file_of(sqlalchemy.make_url(url.replace("postgresql:", "postgresql+psycopg:")))
    engine = sqlalchemy.create_engine(bare)
    try:
        with engine.connect() as connection:
            return connection.exec_driver_sql("SELECT count(*) FROM contents").scalar()
    finally:
        engine.dispose()


def test_versions_are_pruned_and_contents_shared_and_swept(make: Callable[..., Api], database_url: str) -> None:
    api = make(limits=ServerLimits(versions=3))
    api.good("POST", "/components", {"name": "c", "resource_definitions": [{"name": "globals"}]})
    api.good("POST", "/environments", {"id": 5, "components": ["c"], "hierarchy_levels": ["cluster", "nodes"]})
    api.good("PUT", CLUSTER + "/values", {"a": 0})
    for number in range(10):
        api.good("PUT", NODE + "/values", {"a": number})
    assert [item["version"] for item in api.good("GET", NODE + "/values/history")] == [10, 9, 8]
    assert api.get(NODE + "/values?version=7").status_code == 404
    assert api.good("GET", NODE + "/values?version=8") == {"a": 7}
    assert api.post(NODE + "/values/history/7/revert").status_code == 404
    for number in range(6):
        api.good("PUT", NODE + "/values", {"a": number % 2 + 20})
    # With version 16 the rest went; two contents are shared by three versions.
    assert [item["version"] for item in api.good("GET", NODE + "/values/history")] == [16, 15, 14]
    assert count(database_url) == 3
    # {"a": 0} is the cluster's, too: it stays.
    assert api.good("GET", CLUSTER + "/values") == {"a": 0}
    api.good("PUT", NODE + "/overrides", {"a": 8})
    api.good("DELETE", "/environments/5")
    assert count(database_url) == 0
