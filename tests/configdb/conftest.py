"""The servers that the client's tests run against."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.connect import connect
from configdb_sync.configdb.model import ChangeAuthor
from tests.configdb.legacy import legacy_url
from tests.peers import tuning_box

__all__ = ["legacy_url"]

WRITER = ChangeAuthor("req-00000000-0000-4000-8000-000000000001", "Zoë", "why: ∑ %41")


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[ConfigDBClient]:
    """A client of an embedded ConfigDB in this process, on SQLite."""
    with connect("embedded", database_url=f"sqlite:///{tmp_path}/configdb.sqlite", author=WRITER) as client:
        yield client


SERVERS = ["embedded-sqlite", "embedded-postgresql", "legacy-sqlite", "legacy-postgresql"]
GIVEN = os.environ.get("CONFIGDB_SYNC_CONTRACT_URL")
"""A server to hold to the contract beside these, such as a tuning-box of one's own; it fills with environments."""


@pytest.fixture(scope="session", params=[*SERVERS, *(["given"] if GIVEN else [])])
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConfigDBClient]:
    """A client of each server. Its database is shared by all tests: each makes an environment of its own."""
    if request.param == "given" and GIVEN:
        with connect(GIVEN, author=WRITER) as found:
            yield found
        return
    if request.param == "legacy-sqlite":
        with connect(request.getfixturevalue("legacy_url"), author=WRITER) as found:
            yield found
        return
    if request.param == "legacy-postgresql":
        reason = tuning_box.unavailable()
        if reason:
            pytest.skip(reason)
        database_url = request.getfixturevalue("cluster").create("legacy")
        with tuning_box.running(database_url) as url, connect(url, author=WRITER) as found:
            yield found
        return
    if request.param == "embedded-sqlite":
        database_url = f"sqlite:///{tmp_path_factory.mktemp('embedded')}/configdb.sqlite"
    else:
        database_url = request.getfixturevalue("cluster").create("client")
    with connect("embedded", database_url=database_url, author=WRITER) as found:
        yield found
