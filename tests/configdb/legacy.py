"""PyPI's tuning-box 0.1.0 as a fixture; a folder's conftest that wants it imports it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.peers import tuning_box


@pytest.fixture(scope="session")
def legacy_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of PyPI's tuning-box 0.1.0, mounted as in Nailgun."""
    reason = tuning_box.unavailable()
    if reason:
        pytest.skip(reason)
    database = tmp_path_factory.mktemp("tuning-box") / "configdb.sqlite"
    with tuning_box.running(f"sqlite:///{database}", "/api/v1/config") as url:
        yield url
