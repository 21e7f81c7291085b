"""Many writers at once (R1): every acknowledged write is there, and none is answered with 5xx."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from configdb_sync.configdb_server.messages import ServerLimits
from tests.support.configdb_server import NODE, ROOT, Api

WRITERS = 20


def at_once(work: Callable[[int], int], count: int = WRITERS) -> Counter[int]:
    """Run ``work`` in so many threads that start together; return how often each status came."""
    barrier = threading.Barrier(count)

    def one(number: int) -> int:
        barrier.wait(30)
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return Counter(pool.map(one, range(count)))


@pytest.mark.parametrize("place", [NODE, ROOT])
@pytest.mark.parametrize("kind", ["values", "overrides"])
def test_first_writers_of_one_document(fuel: Api, place: str, kind: str) -> None:
    url = f"{place}/{kind}"
    assert at_once(lambda number: fuel.put(url, {"a": number}).status_code) == {204: WRITERS}
    history = fuel.good("GET", url + "/history")
    assert [item["version"] for item in history] == list(range(WRITERS, 0, -1))
    versions = {fuel.good("GET", f"{url}?version={item['version']}")["a"] for item in history}
    assert versions == set(range(WRITERS))
    assert fuel.good("GET", url) == fuel.good("GET", f"{url}?version={WRITERS}")


def test_only_one_of_many_conditional_writers_wins(fuel: Api) -> None:
    headers = {"If-None-Match": "*"}
    found = at_once(lambda number: fuel.put(NODE + "/values", {"a": number}, headers=headers).status_code)
    assert found == {204: 1, 412: WRITERS - 1}


def test_values_and_overrides_of_one_document_at_once(fuel: Api) -> None:
    kinds = ("values", "overrides")
    assert at_once(lambda number: fuel.put(f"{NODE}/{kinds[number % 2]}", {"a": 1}).status_code) == {204: WRITERS}
    assert fuel.good("GET", NODE + "/values") == fuel.good("GET", NODE + "/overrides") == {"a": 1}


def test_every_acknowledged_key_is_kept(fuel: Api) -> None:
    fuel.good("PUT", NODE + "/values", {})
    url = NODE + "/values/keys/set"
    assert at_once(lambda number: fuel.put(url, [[f"k{number}", number]]).status_code) == {204: WRITERS}
    assert fuel.good("GET", NODE + "/values") == {f"k{number}": number for number in range(WRITERS)}


def test_one_node_many_sources_and_many_nodes(fuel: Api) -> None:
    for number in range(WRITERS):
        fuel.good("POST", "/resource_definitions", {"name": f"s{number}", "component_id": 1})
    url = "/environments/5/cluster/c1/nodes/{}/resources/{}/values"
    assert at_once(lambda number: fuel.put(url.format("new", f"s{number}"), {"a": number}).status_code) == {
        204: WRITERS
    }
    assert at_once(lambda number: fuel.put(url.format(number, "s0"), {"a": 1}).status_code) == {204: WRITERS}
    assert at_once(lambda number: fuel.get(url.format(number, "s1") + "?effective").status_code) == {200: WRITERS}
    for number in range(WRITERS):
        assert fuel.good("GET", url.format("new", f"s{number}")) == {"a": number}


def test_creations_of_one_name_or_id(fuel: Api) -> None:
    empty: dict[str, Any] = {"components": [], "hierarchy_levels": []}
    once = {201: 1, 409: WRITERS - 1}
    assert at_once(lambda _: fuel.post("/components", {"name": "x"}).status_code) == once
    assert at_once(lambda _: fuel.post("/environments", {"id": 77, **empty}).status_code) == once
    definition = {"name": "d", "component_id": 1}
    assert at_once(lambda _: fuel.post("/resource_definitions", definition).status_code) == once
    assert at_once(lambda _: fuel.post("/environments", empty).status_code, 8) == {201: 8}


def test_the_same_content_comes_and_goes_everywhere(make: Callable[..., Api]) -> None:
    # Contents are shared and swept: a writer must never be left with one that another just took away.
    api = make(limits=ServerLimits(versions=1))
    api.good("POST", "/components", {"name": "c", "resource_definitions": [{"name": "globals"}]})
    api.good("POST", "/environments", {"id": 5, "components": ["c"], "hierarchy_levels": ["nodes"]})

    def work(number: int) -> int:
        url = f"/environments/5/nodes/{number % 4}/resources/globals/values"
        statuses = {api.put(url, {"a": (number + turn) % 3}).status_code for turn in range(12)}
        return statuses.pop() if len(statuses) == 1 else 0

    assert at_once(work, 8) == {204: 8}
    for node in range(4):
        url = f"/environments/5/nodes/{node}/resources/globals/values"
        assert api.good("GET", url)["a"] in range(3)
        assert len(api.good("GET", url + "/history")) == 1


def test_writers_while_their_environment_is_deleted(fuel: Api) -> None:
    def work(number: int) -> int:
        if number == 0:
            return fuel.delete("/environments/5").status_code
        return fuel.put(NODE.replace("n1", f"n{number}") + "/values", {"a": number}).status_code

    assert set(at_once(work)) <= {204, 404}
    assert fuel.get("/environments/5").status_code == 404
