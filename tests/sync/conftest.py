"""The product's own database, on SQLite and on PostgreSQL; a clock that stands still."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from configdb_sync.database import Database
from configdb_sync.sync.records import open_records
from tests.configdb.legacy import legacy_url
from tests.nailgun.conftest import make_small
from tests.peers import postgresql
from tests.support.nailgun import Nailgun, at_work

__all__ = ["legacy_url"]


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
    with closing(open_records(own_url)) as database:
        yield database


@dataclass
class StillClock:
    """A clock that goes on by itself only when something sleeps."""

    seconds: float = 0.0

    def now(self) -> datetime:
        return datetime.fromtimestamp(1_700_000_000 + self.seconds, UTC)

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
def nailgun() -> Iterator[Nailgun]:
    """Give a Nailgun with a small environment, serving, and a login to it."""
    found = make_small()
    with at_work(found):
        yield found
