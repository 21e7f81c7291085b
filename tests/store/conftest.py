"""The product's own database, on SQLite and on PostgreSQL; a clock that stands still."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from configdb_sync.store.database import Database
from configdb_sync.store.opening import open_store
from tests.peers import postgresql
from tests.support.clocks import ManualClock


@pytest.fixture(params=["sqlite", "postgresql"])
def own_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty database."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/own.sqlite"
        return
    found: postgresql.Cluster = request.getfixturevalue("cluster")
    name = f"own_{abs(hash(request.node.nodeid)):x}"
    yield found.create(name)
    found.drop(name)


@pytest.fixture
def own_database(own_url: str) -> Iterator[Database]:
    """The product's own database, its tables made."""
    with closing(open_store(own_url)) as database:
        yield database


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()
