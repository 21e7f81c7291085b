"""A tenant is told of its own nodes alone, in whatever is counted and summed up too (T12)."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import closing

import pytest
import sqlalchemy as sa

from configdb_sync.state import StateFolder
from configdb_sync.store.opening import open_store
from configdb_sync.store.schema import RECORDS, RUN_NODES, RUNS
from configdb_sync.tenants.registry import Registry, open_registry
from configdb_sync.tenants.rows import ChangeInfo
from tests.status_page.filled_environment import fill
from tests.support.product import Product
from tests.tenants.support import Api, public_port, serving

BASE = "/v1.0/b/environments/1"
OTHERS = "req-00000000-0000-4000-8000-00000000abcd"


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """``b`` owns a data source that nodes 1 and 2 of five have; node 3 failed; the newest run was with 3 alone."""
    state = tmp_path_factory.mktemp("own") / "state"
    fill(state, 1, 5, runs=4)
    url = StateFolder(state).database_url
    with closing(Registry(open_registry(url))) as registry:
        change = ChangeInfo("test", "here", "req-test", 1)
        registry.put(change, "b", None)
        registry.own(change, "b", 1, {"theirs": None})

    def work(connection: sa.Connection) -> None:
        here = {"place": "made", "environment": 1, "data_source": "theirs", "run": "r", "body": b"x"}
        connection.execute(sa.insert(RECORDS), [{**here, "node": node} for node in ("1", "2")])
        about = {"environment": 1, "place": "made", "author": "root", "host": "fuel", "pid": 1, "kind": "sync"}
        ended = {"started": 1.8e9, "finished": 1.8e9 + 5, "outcome": "PARTIAL", "exit": 3, "nodes": 1}
        connection.execute(sa.insert(RUNS).values(identity=OTHERS, **about, **ended))
        done = {"run": OTHERS, "node": "3", "outcome": "failed", "uploads": 0, "writes": 0, "problems": 1}
        connection.execute(sa.insert(RUN_NODES).values(**done))

    with closing(open_store(url)) as database:
        database.write(work)
    with serving(state, "--public", "127.0.0.1:0", "--public-page", "--drivers", "none") as (_, process):
        token = Product(state)("tenants", "token", "b").out.strip()
        yield Api(public_port(process), token)


def test_runs_tell_of_own_nodes_alone(user: Api) -> None:
    first = user.get(f"{BASE}/runs?limit=2").json
    runs = [*first["runs"], *user.get(first["runs_next"]).json["runs"]]
    assert len(runs) == 4, "the one that was with other nodes alone isn't told"
    for run in runs:
        assert (run["nodes"], run["nodes_failed"], run["outcome"]) == (2, 0, "OK")
        whole = user.get(run["links"]["self"]).json
        assert {key: value for key, value in whole.items() if key in run} == run
        assert [one["node"] for one in whole["done"]] == ["1", "2"]


def test_others_runs_are_not_there(user: Api) -> None:
    never = user.get(f"{BASE}/runs/req-00000000-0000-4000-8000-00000000dead")
    found = user.get(f"{BASE}/runs/{OTHERS}")
    assert (found.status, found.json["error"]["message"]) == (404, never.json["error"]["message"])


@pytest.mark.parametrize("target", [f"{BASE}/matrix", f"{BASE}/matrix?node=node&limit=1"])
def test_the_matrix_and_its_last_run(user: Api, target: str) -> None:
    found = user.get(target).json
    assert (found["node_count"], found["last_run"]["nodes"], found["last_run"]["outcome"]) == (2, 2, "OK")
    assert {one["node"] for one in found["nodes"]} <= {"1", "2"}


def test_nothing_of_other_nodes_shows_anywhere(user: Api) -> None:
    """Every answer of the public endpoint, and the texts of its pages."""
    targets = ["/v1.0/b", "/v1.0/b/environments", "/v1.0/b/resources", BASE, f"{BASE}/resources"]
    targets += [f"{BASE}/runs", f"{BASE}/matrix", f"{BASE}/resources/theirs"]
    for target in targets:
        answer = user.get(target)
        assert answer.status == 200, target
        told = json.dumps(answer.json)
        for other in ("node-3", "node-4", '"3"', "globals", OTHERS, "PARTIAL", "fuel", "the file changed"):
            assert other not in told, (target, other)
        numbers = itertools.chain.from_iterable(_numbers(answer.json, name) for name in ("nodes", "node_count"))
        assert set(numbers) <= {2}, target


def _numbers(value: object, name: str) -> Iterator[int]:
    if isinstance(value, dict):
        for key, child in value.items():
            if key == name and isinstance(child, int):
                yield child
            yield from _numbers(child, name)
    elif isinstance(value, list):
        for child in value:
            yield from _numbers(child, name)
