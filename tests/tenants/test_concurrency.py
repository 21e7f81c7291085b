"""Several at once on either database (T4, T5, T7, T11): one wins, nothing is lost, doubled or half done."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from configdb_sync.tenants.paths import ResourcePath
from configdb_sync.tenants.queries import Located
from configdb_sync.tenants.registry import Registry
from configdb_sync.tenants.representations import TenantBody
from configdb_sync.tenants.rows import ChangeInfo
from configdb_sync.tenants.status import Status, StatusCounts
from configdb_sync.web.refusals import RefusalError
from configdb_sync.web.requests import EntityTags, Preconditions

TIMES = itertools.count(1)
NAMES = [f"s{number}" for number in range(10)]


def change(time: int | None = None) -> ChangeInfo:
    return ChangeInfo("me", "here", "req", next(TIMES) if time is None else time)


def at_once(*calls: Callable[[], object]) -> list[int]:
    """Return 200 or the refusal's status of each call; all begin together."""
    barrier = threading.Barrier(len(calls))

    def run(call: Callable[[], object]) -> int:
        barrier.wait(30)
        try:
            call()
        except RefusalError as refusal:
            return refusal.status
        return 200

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


def whole(registry: Registry, *tenants: str) -> None:
    """Each data source has one owner that finds it, and the counters say so."""
    found: Counter[str] = Counter()
    for tenant in tenants:
        try:
            shown = registry.tenant(tenant)
        except RefusalError:
            continue
        mine = 0
        for name in NAMES:
            try:
                _, there = registry.locate(ResourcePath(tenant, 1, name))
            except RefusalError:
                continue
            if isinstance(there, Located):
                mine += 1
                found[name] += 1
        assert shown.counts.size == mine
    assert set(found.values()) <= {1}


@pytest.fixture
def filled(registry: Registry) -> Registry:
    for tenant in ("a", "b", "c"):
        registry.put(change(), tenant, None)
    registry.own(change(), "a", 1, dict.fromkeys(NAMES))
    return registry


@pytest.mark.parametrize("different", [False, True])
def test_one_of_twenty_makes_it(registry: Registry, different: bool) -> None:
    made: list[bool] = []

    def put(number: int) -> None:
        body = TenantBody({"n": str(number if different else 0)}, {})
        made.append(registry.put(change(), "new", body)[1])

    assert at_once(*(lambda number=number: put(number) for number in range(20))) == [200] * 20
    assert sorted(made) == [False] * 19 + [True]


def test_two_ways_at_once(filled: Registry) -> None:
    """Moves of one, of the environment and of all, to and fro."""
    calls = [
        lambda: filled.move(change(), ResourcePath("a", 1, "s1"), "b"),
        lambda: filled.move(change(), ResourcePath("a", 1), "b"),
        lambda: filled.move(change(), ResourcePath("a"), "c"),
        lambda: filled.move(change(), ResourcePath("b"), "a"),
        lambda: filled.move(change(), ResourcePath("c"), "b"),
        lambda: filled.tell(change(), 1, {"s2": (Status.ERROR, "x")}),
    ]
    for _ in range(5):
        assert set(at_once(*calls)) <= {200, 301, 404}
        whole(filled, "a", "b", "c")
        sizes = [filled.tenant(tenant).counts for tenant in ("a", "b", "c")]
        assert sum(sizes, StatusCounts()).size == len(NAMES)
        assert sum(sizes, StatusCounts()).error == 1


def test_of_conditional_moves_one_wins(filled: Registry) -> None:
    tags = {to: filled.move_action(ResourcePath("a"), to).etags[0] for to in ("b", "c")}
    calls = [
        lambda to=to, tag=tag: filled.move(
            change(), ResourcePath("a"), to, Preconditions(EntityTags(strong=frozenset({tag})))
        )
        for to, tag in tags.items()
    ]
    assert sorted(at_once(*calls)) == [200, 412]
    whole(filled, "a", "b", "c")


@pytest.mark.parametrize("victim", ["a", "b"])
def test_a_move_against_a_delete(filled: Registry, victim: str) -> None:
    found = at_once(lambda: filled.move(change(), ResourcePath("a"), "b"), lambda: filled.mark(change(), victim, 10**6))
    assert found[1] == 200
    assert found[0] in (200, 410)
    filled.recover(change(), victim)
    whole(filled, "a", "b")
    assert filled.tenant("b").counts.size == (len(NAMES) if found[0] == 200 else 0)


def test_a_purge_against_a_recover(filled: Registry) -> None:
    late = 10**15
    for number in range(5):
        tenant = f"t{number}"
        filled.put(change(), tenant, None)
        filled.own(change(), tenant, 10 + number, {"x": 1})
        filled.mark(change(), tenant, 0)
        purged: list[bool] = []
        found = at_once(
            lambda tenant=tenant, purged=purged: purged.append(filled.purge(change(late), tenant)),  # type: ignore[misc]
            lambda tenant=tenant: filled.recover(change(), tenant),  # type: ignore[misc]
        )
        assert (purged, found) in (([True], [200, 404]), ([False], [200, 200]))
        if not purged[0]:
            assert filled.tenant(tenant).counts.size == 1
