"""U30: the server with encrypted contents is the server of all the other tests, its ETags included."""

# ruff: noqa: F403  # the same tests on another database

from __future__ import annotations

import pytest

from configdb_sync.configdb_server import schema
from configdb_sync.configdb_server.app import create_app
from tests.configdb_server.conftest import MakeServer
from tests.configdb_server.test_documents import *
from tests.configdb_server.test_history import *
from tests.configdb_server.test_overview import *
from tests.support.configdb_server import NODE, Api, Clock


@pytest.fixture(params=["sealed"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def plain(tmp_path_factory: pytest.TempPathFactory) -> Api:
    url = f"sqlite:///{tmp_path_factory.mktemp('plain') / 'configdb.sqlite'}"
    api = Api(create_app(url, clock=Clock()))
    api.good("POST", "/components", {"name": "fuel", "resource_definitions": [{"name": "globals"}]})
    api.good("POST", "/environments", {"id": 5, "components": ["fuel"], "hierarchy_levels": ["cluster", "nodes"]})
    return api


def test_clients_see_no_difference(fuel: Api, plain: Api) -> None:
    document = {"password": "x", "b": [1, {"c": None}]}
    for api in (fuel, plain):
        api.put(f"{NODE}/values", document)
        api.put(f"{NODE}/overrides", {"b": 2})
    for path in ("/values", "/overrides", "/values?effective"):
        encrypted, clear = fuel.get(NODE + path), plain.get(NODE + path)
        assert (encrypted.data, encrypted.headers["ETag"]) == (clear.data, clear.headers["ETag"])
    plain.application.close()


def test_without_the_key_the_answer_says_which_one_is_missing(make: MakeServer, fuel: Api, database_url: str) -> None:
    fuel.put(f"{NODE}/values", {"a": 1})
    late = make()
    # As a process that was started before anything was encrypted.
    late.application.database.sealing.keyring = None
    late.application.database.sealing.on = False
    read, written = late.get(f"{NODE}/values"), late.put(f"{NODE}/values", {"a": 2})
    key = fuel.application.database.sealing.keyring
    assert key is not None
    for answer in (read, written):
        assert answer.status_code == 503
        assert f"is encrypted with key {key.primary.id}" in answer.text
    assert fuel.get(f"{NODE}/values").json == {"a": 1}


def test_what_is_sealed_cannot_be_compared_in_sql() -> None:
    with pytest.raises(TypeError, match="compared"):
        _ = schema.documents.c.values_digest == "a"
