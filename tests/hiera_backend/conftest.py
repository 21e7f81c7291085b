"""What the tests of the Hiera backend share: one Ruby, and a ConfigDB that is served."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.configdb.legacy import legacy_url
from tests.hiera_backend.backend import Driver, driving
from tests.hiera_backend.servers import Server, serving_threads

__all__ = ["legacy_url"]


@pytest.fixture(scope="session")
def ruby() -> Iterator[Driver]:
    with driving() as driver:
        yield driver


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """The embedded ConfigDB on loopback with environment 5, in this process; its requests are listed."""
    with serving_threads(tmp_path / "configdb.sqlite") as found:
        found.fill()
        yield found
