"""A server in this process on a database of its own, SQLite's and PostgreSQL's."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from configdb_sync.configdb_server import schema
from configdb_sync.configdb_server.app import create_app
from configdb_sync.configdb_server.messages import ServerLimits
from configdb_sync.store import keyring
from configdb_sync.store.database import Database
from configdb_sync.store.engine import with_key_file
from configdb_sync.web.access import OpenAccess
from tests.peers import postgresql
from tests.support.configdb_server import Api, Clock

BACKENDS = ("sqlite", "postgresql")
MakeServer = Callable[..., Api]


@pytest.fixture(scope="session")
def postgresql_url(cluster: postgresql.Cluster) -> str:
    """One database for all tests, emptied before each: a new one would cost more than most tests."""
    url = cluster.create("configdb_tests")
    create_app(url).close()
    return url


def _empty(url: str) -> None:
    database = Database(url, what="the database")
    try:
        with database.transaction() as connection:
            names = ", ".join(schema.metadata.tables)
            connection.exec_driver_sql(f"TRUNCATE {names} RESTART IDENTITY CASCADE")
    finally:
        database.close()


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "configdb.sqlite"
    create_app(f"sqlite:///{path}").close()
    return path


@pytest.fixture
def database_url(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database with the tables and nothing in them; that of ``sealed`` is SQLite's, and encrypted."""
    if backend == "sealed":
        keyring.make(tmp_path / "keys")
        return with_key_file(f"sqlite:///{tmp_path / 'configdb.sqlite'}", tmp_path / "keys")
    if backend == "postgresql":
        url: str = request.getfixturevalue("postgresql_url")
        _empty(url)
        return url
    path = tmp_path / "configdb.sqlite"
    shutil.copy(request.getfixturevalue("sqlite_template"), path)
    return f"sqlite:///{path}"


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make(database_url: str) -> Iterator[MakeServer]:
    """Give ``make(access=..., limits=...)``: a server on the test's database; several share it."""
    made = []

    def server(**options: Any) -> Api:
        options = {"access": OpenAccess(), "limits": ServerLimits(), "clock": Clock(), **options}
        made.append(create_app(database_url, **options))
        return Api(made[-1])

    yield server
    for application in made:
        application.close()


@pytest.fixture
def api(make: MakeServer) -> Api:
    return make()


@pytest.fixture
def fuel(api: Api) -> Api:
    """A server with environment 5: levels cluster and nodes, component ``fuel`` with definitions 1 and 2."""
    definitions = [{"name": "globals"}, {"name": "override/plugins"}]
    api.good("POST", "/components", {"name": "fuel", "resource_definitions": definitions})
    api.good("POST", "/environments", {"id": 5, "components": ["fuel"], "hierarchy_levels": ["cluster", "nodes"]})
    return api
