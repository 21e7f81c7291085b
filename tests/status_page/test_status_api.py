"""What the pages are made of, asked of either database: the same of both; and kept as long as nothing changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import sqlalchemy as sa

from configdb_sync.clock import SystemClock
from configdb_sync.masking import Masker
from configdb_sync.status_page import queries
from configdb_sync.status_page.api import StatusApi
from configdb_sync.status_page.queries import History
from configdb_sync.store.database import Database
from configdb_sync.store.findings import Finding, FindingKind, Findings
from configdb_sync.store.opening import open_store
from configdb_sync.store.runs import PastRuns
from configdb_sync.store.schema import NODES, OPEN_PROBLEMS, RECORDS, RUNS
from configdb_sync.store.states import read_matrix
from configdb_sync.store.versions import VersionStore
from configdb_sync.tenants.registry import Registry
from configdb_sync.tenants.requests import Context
from tests.status_page.filled_environment import SOURCES, fill_database
from tests.support.clocks import ManualClock

ENV = 4242
LEVELS = (("nodes", "%{uid}"),)


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    with closing(open_store(database_url)) as found:

        def emptied(connection: sa.Connection) -> None:
            for table in (NODES, RECORDS, OPEN_PROBLEMS, RUNS):
                connection.execute(sa.delete(table).where(table.c.environment == ENV))
            connection.execute(sa.text("DELETE FROM run_nodes"))

        found.write(emptied)
        yield found


def history(database: Database, levels: tuple[tuple[str, str], ...] = LEVELS) -> History:
    clock = SystemClock()
    versions = VersionStore(lambda: database, 1, clock)
    return History(database, PastRuns(database, clock), versions, Masker(b"k" * 32), levels)


@pytest.fixture
def api(database: Database, database_url: str, registry: Registry) -> StatusApi:
    fill_database(database_url, ENV, 12)
    return StatusApi(Context(registry), history(database))


def test_environments_with_their_newest_runs(api: StatusApi) -> None:
    (one,) = api.environments({}).view["environments"]
    assert (one["environment"], one["status"], one["resource_count"]) == (ENV, "ERROR", len(SOURCES))
    assert (one["last_run"]["outcome"], one["last_run"]["nodes_failed"], one["last_run"]["seconds"]) == (
        "PARTIAL",
        1,
        19,
    )
    assert api.environments({}, "nobody").view["environments"] == []


def test_nodes_by_data_sources(api: StatusApi) -> None:
    view = api.matrix(None, ENV, {}).view
    assert [node["node"] for node in view["nodes"]] == ["3", *(str(number) for number in range(1, 13) if number != 3)]
    statuses = {node["node"]: dict(zip(SOURCES, node["statuses"], strict=True)) for node in view["nodes"]}
    assert (statuses["3"]["globals"], statuses["3"]["astute"], statuses["7"]["override/node"]) == (
        "ERROR",
        "ACTIVE",
        None,
    )
    assert [node["node"] for node in api.matrix(None, ENV, {"status": "ERROR"}).view["nodes"]] == ["3"]
    assert api.matrix("admin", ENV, {}).view["nodes"][0]["problems"] == [
        {"data_source": "globals", "what": "the file changed"}
    ]


def test_runs_page_by_page(api: StatusApi) -> None:
    seen: list[Any] = []
    query = {"limit": "3"}
    while True:
        view = api.runs(None, ENV, query).view
        seen += view["runs"]
        if view["runs_next"] is None:
            break
        query = {"limit": "3", "marker": parse_qs(urlsplit(view["runs_next"]).query)["marker"][0]}
    assert [run["bytes"] for run in seen] == [1000 * number for number in range(10, 0, -1)]


def test_what_is_kept_is_told_until_something_changes(
    api: StatusApi, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []

    def counted(*args: Any, **more: Any) -> Any:
        read.append(1)
        return read_matrix(*args, **more)

    monkeypatch.setattr(queries, "read_matrix", counted)
    first = api.matrix(None, ENV, {})
    again = api.matrix(None, ENV, {})
    assert (len(read), first.view["nodes"] is again.view["nodes"], first.stamp == again.stamp) == (1, True, True)

    def change(connection: sa.Connection) -> None:
        connection.execute(sa.delete(OPEN_PROBLEMS).where(OPEN_PROBLEMS.c.environment == ENV))

    database.write(change)
    after = api.matrix(None, ENV, {})
    assert (len(read), after.stamp == again.stamp) == (2, False)
    assert api.matrix(None, ENV, {"status": "ERROR"}).view["nodes"] == []


@pytest.mark.parametrize(
    ("levels", "found"),
    [
        (LEVELS, (("nodes", "7"),)),
        ((("cluster", "%{deployment_id}"), ("nodes", "%{uid}")), (("cluster", "5"), ("nodes", "7"))),
        ((("nodes", "%{fqdn}"),), (("nodes", "node-7.x"),)),
        ((("rack", "%{network_metadata.rack}"), ("nodes", "%{uid}")), None),
        ((("all", "x"),), (("all", "x"),)),
    ],
)
def test_the_level_of_a_node(levels: tuple[tuple[str, str], ...], found: object) -> None:
    told = History(None, None, None, Masker(b"k" * 32), levels)  # type: ignore[arg-type]
    assert told.addresses(5, None, None).of_node("7", "node-7.x") == found


def test_findings_settled_since_a_time(api: StatusApi, database: Database) -> None:
    clock = ManualClock()
    findings = Findings(database, clock)
    then = clock.now()
    findings.keep(ENV, [Finding(ENV, FindingKind.RUN_FAILED, "text")], lambda _: True)
    assert api.environments({}).view["environments"][0]["findings"] == 1
    assert "findings" not in api.environments({}, "admin").view["environments"][0]
    findings.settle(ENV, tuple(FindingKind))
    assert api.environments({}).view["environments"][0]["findings"] == 0
    assert api.findings(None, ENV, {}).view["settled"] == []
    (one,) = api.findings(None, ENV, {}, then - timedelta(days=1)).view["settled"]
    assert one["kind"] == "run-failed"
    findings.forget(ENV)
