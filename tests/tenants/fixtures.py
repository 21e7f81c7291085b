"""A registry on a database of its own, SQLite's and PostgreSQL's."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from configdb_sync.store import tenant_schema
from configdb_sync.store.database import Database
from configdb_sync.tenants.registry import Registry, open_registry
from tests.peers import postgresql

BACKENDS = ("sqlite", "postgresql")
MakeUrl = Callable[[str], str]


@pytest.fixture(scope="session")
def postgresql_url(cluster: postgresql.Cluster) -> str:
    url = cluster.create("tenants_tests")
    open_registry(url).close()
    return url


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "registry.sqlite"
    open_registry(f"sqlite:///{path}").close()
    return path


def emptied(database: Database) -> None:
    """Empty all tables of the registry."""
    with database.transaction() as connection:
        if database.postgresql:
            names = ", ".join(tenant_schema.TENANTS.metadata.tables)
            connection.exec_driver_sql(f"TRUNCATE {names} RESTART IDENTITY CASCADE")
            return
        for table in reversed(tenant_schema.TENANTS.metadata.sorted_tables):
            connection.execute(table.delete())


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def database_url(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database with the tables and nothing in them."""
    if backend == "postgresql":
        url: str = request.getfixturevalue("postgresql_url")
        database = Database(url, what="the database")
        emptied(database)
        database.close()
        return url
    path = tmp_path / "registry.sqlite"
    shutil.copy(request.getfixturevalue("sqlite_template"), path)
    return f"sqlite:///{path}"


@pytest.fixture
def registry(database_url: str) -> Iterator[Registry]:
    found = Registry(open_registry(database_url), listed=5)
    yield found
    found.close()
