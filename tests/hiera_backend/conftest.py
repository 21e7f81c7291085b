"""What the tests of the Hiera backend share: one Ruby, and a ConfigDB that is served."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.configdb.legacy import legacy_url
from tests.hiera_backend.backend import Driver, driving
from tests.hiera_backend.fuel_node import FuelNode, made
from tests.hiera_backend.servers import Server, serving_threads
from tests.peers.fixtures import keystone as real_keystone

__all__ = ["legacy_url", "real_keystone"]


@pytest.fixture(scope="session")
def ruby() -> Iterator[Driver]:
    with driving() as driver:
        yield driver


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The database of an embedded ConfigDB with environment 5."""
    path = tmp_path_factory.mktemp("filled") / "configdb.sqlite"
    with serving_threads(path) as found:
        found.fill()
    return path


@pytest.fixture
def server(filled: Path, tmp_path: Path) -> Iterator[Server]:
    """The embedded ConfigDB on loopback with environment 5, in this process; its requests are listed."""
    shutil.copy(filled, tmp_path / "configdb.sqlite")
    with serving_threads(tmp_path / "configdb.sqlite") as found:
        yield found


@pytest.fixture
def node(server: Server, tmp_path: Path) -> Iterator[FuelNode]:
    """Node 1 of environment 5, a tree of the folder ``trees``."""
    with made(server, tmp_path / "trees/node-1") as (found,):
        yield found
