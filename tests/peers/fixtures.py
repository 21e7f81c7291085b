"""Peers that all tests of a run share, each started by the first that wants it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.peers import keystone as peer


@pytest.fixture(scope="session")
def keystone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[peer.Keystone]:
    """A real Keystone. What a test adds stays: it takes names and a region of its own."""
    with peer.running(tmp_path_factory.mktemp("keystone")) as found:
        yield found
