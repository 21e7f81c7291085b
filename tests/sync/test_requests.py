"""How many requests a run makes, and what it doesn't miss by leaving some out (U9, U13, U18)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.connect import connect
from configdb_sync.exits import Exit
from configdb_sync.http.transport import HttpRequest
from tests.support.product import MEANT, Product, Result, contents
from tests.support.trees import make_node

NODES = ("1", "2", "3")
FILES = {f"plugins__{name}": f"{name}: 1\n" for name in "abc"}
DOCUMENTS = 2 + len(FILES) + 1
"""What ConfigDB holds of a node: a document for each file, and the one of its records."""
ABSENT = 13
"""Data sources that an override may make a file of, while no node has one."""
DEBUG = "debug: false"


@pytest.fixture
def trees(tmp_path: Path) -> Path:
    for node in NODES:
        make_node(tmp_path / "trees", node, 5, **FILES)
    return tmp_path / "trees"


@pytest.fixture
def other(product: Product) -> ConfigDBClient:
    """Another writer at the same ConfigDB."""
    product.state.mkdir(mode=0o700, exist_ok=True)
    return connect("embedded", database_url=f"sqlite:///{product.state / 'configdb.sqlite'}")


def sync(product: Product, trees: Path, *more: object) -> Result:
    product.requests.clear()
    return product("sync", "--env", 5, "--from", trees, *more)


def counted(product: Product) -> dict[str, int]:
    """The number of requests about documents of nodes by what they ask or change, and that of all others."""
    found: dict[str, int] = {}
    for request in product.requests:
        kind = request.path.rpartition("/")[2] if "/nodes/" in request.path else "other"
        name = kind if kind == "other" else f"{request.method} {kind}"
        found[name] = found.get(name, 0) + 1
    return found


def file(trees: Path, node: str) -> Path:
    return trees / f"node-{node}/etc/fuel/cluster/5/astute.yaml"


def astute(client: ConfigDBClient) -> int:
    return next(one.id for all_ in client.components() for one in all_.definitions if one.name == "astute")


def at_first(product: Product, when: Callable[[HttpRequest], bool], then: Callable[[], None]) -> None:
    """Let something happen before the first request of a kind is answered."""
    done: list[HttpRequest] = []

    def fault(request: HttpRequest) -> None:
        if not done and when(request):
            done.append(request)
            then()

    product.fault = fault


def test_a_first_run_asks_nothing_of_an_environment_that_it_has_made(product: Product, trees: Path) -> None:
    product.plain = True
    assert sync(product, trees, "--parallel", 1).code == Exit.OK
    files = (DOCUMENTS - 1) * len(NODES)
    assert counted(product) == {"PUT values": files + len(NODES), "GET values?effective": files, "other": 8}
    assert len(product.requests) <= 2 * DOCUMENTS * len(NODES) + 10


def test_a_run_with_nothing_to_do_asks_for_effective_data_alone(product: Product, trees: Path) -> None:
    product.plain = True
    sync(product, trees)
    before = contents(trees)
    assert sync(product, trees).code == Exit.OK
    assert counted(product) == {
        "GET values?effective": (DOCUMENTS - 1 + ABSENT) * len(NODES),
        "GET values": len(NODES),  # the records
        "other": 5,
    }
    assert contents(trees) == before


def test_with_digests_one_request_a_node_tells(product: Product, trees: Path) -> None:
    sync(product, trees)
    assert counted(product) == {"PUT values": DOCUMENTS * len(NODES), "GET etags": len(NODES), "other": 10}
    assert sync(product, trees).code == Exit.OK
    assert counted(product) == {"GET etags": len(NODES), "other": 7}


def test_values_and_overrides_are_asked_for_what_changed_alone(product: Product, trees: Path) -> None:
    product.plain = True
    sync(product, trees)
    file(trees, "2").write_text(file(trees, "2").read_text().replace(DEBUG, "debug: true"))
    assert sync(product, trees).code == Exit.OK
    found = counted(product)
    assert (found["GET values"], found["GET overrides"], found["PUT values"]) == (len(NODES) + 1, 1, 1)
    assert found["other"] == 5 + 2  # the level above


def test_an_override_reaches_its_file_and_leaves_it_again(product: Product, trees: Path) -> None:
    product.plain = True
    sync(product, trees)
    before = contents(trees)
    where = ("--env", 5, "--level", "nodes=3", "--resource", "astute")
    assert product("override", "--key", "debug", "--type", "bool", "--value", "true", *where, *MEANT).code == Exit.OK
    assert sync(product, trees).code == Exit.OK
    assert "debug: true" in file(trees, "3").read_text()
    assert sync(product, trees).code == Exit.OK
    assert (counted(product)["GET values"], counted(product)["GET overrides"]) == (len(NODES) + 1, 1)
    assert product("rm-override", "--key", "debug", *where).code == Exit.OK
    assert sync(product, trees).code == Exit.OK
    assert contents(trees) == before


def test_an_override_that_equals_the_value_holds_when_the_node_changes_it(
    product: Product, trees: Path, other: ConfigDBClient
) -> None:
    product.plain = True
    sync(product, trees)
    place = (5, (("nodes", "3"),), astute(other))
    other.put_overrides(*place, {"debug": False})
    assert sync(product, trees).code == Exit.OK
    file(trees, "3").write_text(file(trees, "3").read_text().replace(DEBUG, "debug: true"))
    assert sync(product, trees).code == Exit.OK
    assert other.values(*place)["debug"] is True
    assert DEBUG in file(trees, "3").read_text()


def test_values_that_another_writer_replaced_are_the_nodes_again(
    product: Product, trees: Path, other: ConfigDBClient
) -> None:
    product.plain = True
    sync(product, trees)
    place = (5, (("nodes", "3"),), astute(other))
    before = other.values(*place)
    other.put_values(*place, {**before, "debug": "theirs"})
    result = sync(product, trees)
    assert "someone else changed its values" in result.out
    assert other.values(*place) == before


def test_an_override_made_while_the_first_run_is_at_work_is_not_written_over(
    product: Product, trees: Path, other: ConfigDBClient
) -> None:
    product.plain = True

    def override() -> None:
        for node in ("2", "3"):
            other.put_overrides(5, (("nodes", node),), astute(other), {"debug": True})

    at_first(product, lambda request: request.method == "PUT" and "/nodes/1/" in request.path, override)
    result = sync(product, trees, "--parallel", 1, "--format", "json")
    assert result.code == Exit.CONFIGDB
    (problem,) = [one for node in json.loads(result.out)["nodes"] for one in node["problems"]]
    assert "('debug')" in problem["what"]
    assert "run again" in json.dumps(problem)
    assert DEBUG in file(trees, "2").read_text()
    assert "debug: true" in file(trees, "3").read_text()  # from then on the run asks
    assert sync(product, trees).code == Exit.OK
    assert "debug: true" in file(trees, "2").read_text()
    assert other.overrides(5, (("nodes", "2"),), astute(other)) == {"debug": True}


def test_an_environment_that_another_made_at_the_same_time_is_asked(
    product: Product, trees: Path, other: ConfigDBClient
) -> None:
    product.plain = True

    def make() -> None:
        other.create_environment(5, [one.id for one in other.components()], ["nodes"])
        other.put_overrides(5, (("nodes", "3"),), astute(other), {"debug": True})

    at_first(product, lambda request: (request.method, request.path) == ("POST", "/environments"), make)
    assert sync(product, trees, "--parallel", 1).code == Exit.OK
    assert "debug: true" in file(trees, "3").read_text()
    assert DEBUG in file(trees, "2").read_text()
