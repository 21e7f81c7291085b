"""What an environment lacks in ConfigDB is made, what others put there stays, and what can't be made is told (U6)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.connect import connect
from configdb_sync.errors import ConfigDBError, EnvironmentMismatchError, UnsupportedError
from configdb_sync.names import RECORDS, component_name, records_component
from configdb_sync.sync.remote_environment import RemoteEnvironment
from configdb_sync.sync.run_options import RunOptions

ENV = 5
NAMES = ("astute", "globals")


@pytest.fixture
def client(tmp_path: Path) -> Iterator[ConfigDBClient]:
    with connect("embedded", database_url=f"sqlite:///{tmp_path}/configdb.sqlite") as found:
        yield found


def looked(client: ConfigDBClient, **options: Any) -> RemoteEnvironment:
    catalog = RemoteEnvironment(client, RunOptions(environment=ENV, **options))
    catalog.load()
    catalog.want(NAMES)
    return catalog


def components(client: ConfigDBClient) -> dict[str, set[str]]:
    environment = client.environment(ENV)
    assert environment is not None
    ids = set(environment.components)
    return {one.name: {each.name for each in one.definitions} for one in client.components() if one.id in ids}


def test_an_environment_is_made_whole_and_once(client: ConfigDBClient, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = looked(client, tenant="t", levels=(("cluster", "%{deployment_id}"), ("nodes", "%{fqdn}")))
    assert not catalog.exists
    assert (catalog.change.creates_environment, catalog.change.data_sources) == (True, NAMES)
    catalog.ensure(NAMES)
    assert components(client) == {component_name("t", ENV): set(NAMES), records_component(ENV): {RECORDS}}
    assert catalog.made == catalog.change
    assert catalog.records is not None
    told = {"tenant": "t", "levels": [["cluster", "%{deployment_id}"], ["nodes", "%{fqdn}"]]}
    assert client.values(ENV, (), catalog.records) == told
    for name in ("create_component", "create_environment", "put_values", "attach_component", "add_definition"):
        monkeypatch.setattr(ConfigDBClient, name, None)  # nothing is to be made any more
    catalog.ensure(NAMES)
    again = looked(client, tenant="t", levels=(("cluster", "%{deployment_id}"), ("nodes", "%{::fqdn}")))
    again.ensure(NAMES)
    assert not again.change.creates_environment
    assert again.change.data_sources == ()


def test_what_others_put_there_stays_and_is_used(client: ConfigDBClient) -> None:
    theirs = client.create_component("theirs", ["globals", "more"])
    client.create_environment(ENV, [theirs.id], ["nodes"])
    definition = {one.name: one.id for one in theirs.definitions}
    client.put_values(ENV, (), definition["globals"], {"kept": True})
    catalog = looked(client)
    catalog.ensure(NAMES)
    assert catalog.definition("globals") == definition["globals"]
    assert components(client) == {
        "theirs": {"globals", "more"},
        component_name("admin", ENV): {"astute"},
        records_component(ENV): {RECORDS},
    }
    assert client.values(ENV, (), definition["globals"]) == {"kept": True}


def test_a_server_that_cannot_add_fails_the_missing_ones_alone(
    client: ConfigDBClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = client.create_component("theirs", ["globals"])
    client.create_environment(ENV, [theirs.id], ["nodes"])

    def refused(*_: object) -> Any:
        raise UnsupportedError("this server can't add")

    monkeypatch.setattr(ConfigDBClient, "attach_component", refused)
    catalog = looked(client)
    catalog.ensure(NAMES)
    catalog.ensure(NAMES)  # what is refused isn't tried again
    assert isinstance(catalog.refusal("astute"), ConfigDBError)
    assert catalog.refusal("globals") is None
    assert catalog.records is None
    assert catalog.definition("astute") is None
    assert catalog.made.data_sources == ()


@pytest.mark.parametrize(
    "noted", [None, [], "nodes", [["nodes"]], [["nodes", 1]], [["nodes", "%{uid"]], {"nodes": "%{fqdn}"}]
)
def test_what_someone_else_wrote_in_the_place_of_the_levels_is_no_note(client: ConfigDBClient, noted: Any) -> None:
    catalog = looked(client)
    catalog.ensure(NAMES)
    assert catalog.records is not None
    client.put_values(ENV, (), catalog.records, {"levels": noted, "tenant": "admin"})
    looked(client, levels=(("nodes", "%{fqdn}"),)).ensure(NAMES)
    assert client.values(ENV, (), catalog.records) == {"levels": [["nodes", "%{fqdn}"]], "tenant": "admin"}
    with pytest.raises(EnvironmentMismatchError, match=r"keeps its nodes at nodes=%\{fqdn\}"):
        looked(client)


def test_levels_that_are_added_are_noted(client: ConfigDBClient) -> None:
    looked(client, levels=(("cluster", "%{deployment_id}"),)).ensure(NAMES)
    whole = (("cluster", "%{deployment_id}"), ("nodes", "%{uid}"))
    catalog = looked(client, levels=whole)
    catalog.ensure(NAMES)
    assert catalog.records is not None
    assert client.values(ENV, (), catalog.records)["levels"] == [list(level) for level in whole]
