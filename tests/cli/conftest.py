"""A ConfigDB with an environment in it, for the commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from configdb_sync.configdb.connect import connect
from tests.cli.support import ENV, NODE, Run
from tests.configdb.legacy import legacy_url

__all__ = ["legacy_url"]


@pytest.fixture
def database(tmp_path: Path) -> str:
    """A ConfigDB with environment 7, its node 46 uploaded."""
    url = f"sqlite:///{tmp_path}/configdb.sqlite"
    with connect("embedded", database_url=url) as client:
        component = client.create_component("admin/7", ["globals", "override/plugins"])
        environment = client.create_environment(ENV, [component.id], ["nodes"])
        number = client.definitions(environment)["globals"].id
        client.put_values(
            ENV, NODE, number, {"debug": False, "block": {"x": 1, "y": [1, 2]}, "admin": {"password": "p"}}
        )
        client.put_values(ENV, (), number, {"debug": True, "region": "é"})
    return url


@pytest.fixture
def run(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.delenv("CONFIGDB_SYNC_SETTINGS", raising=False)
    return Run(tmp_path / "state", ("--configdb", "embedded", "--configdb-database", database))
