"""Who is asked, due and given up in a call, without a clock."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from configdb_sync.mcollective.client import NodeQueue


def drain(nodes: NodeQueue, now: float) -> list[str]:
    found = []
    while (identity := nodes.next(now)) is not None:
        found.append(identity)
    return found


def test_no_more_are_at_work_than_the_window_allows() -> None:
    nodes = NodeQueue("abcde", window=2, timeout=60)
    assert drain(nodes, 0) == ["a", "b"]
    assert nodes.answered("a")
    assert drain(nodes, 1) == ["c"]
    assert nodes.due == ["b", "c", "d", "e"]
    assert not nodes.answered("a")
    assert not nodes.answered("e")


def test_who_has_been_silent_for_a_twentieth_of_its_time_holds_nobody_up() -> None:
    nodes = NodeQueue("abcde", window=2, timeout=60)
    drain(nodes, 0)
    assert nodes.wait(1) == 2
    assert drain(nodes, 2.9) == []
    assert drain(nodes, 3) == ["c", "d"]
    assert nodes.wait(4) == 2
    assert drain(nodes, 6) == ["e"]
    assert nodes.wait(6) == 54
    assert nodes.expired(59.9) == []
    assert nodes.expired(60) == ["a", "b"]
    assert nodes.expired(65.9) == ["c", "d"]
    assert nodes.expired(66) == ["e"]
    assert not nodes.open
    assert nodes.wait(66) == 0


def test_after_a_loss_whoever_is_seen_is_asked_again_and_has_all_its_time() -> None:
    nodes = NodeQueue("abcde", window=3, timeout=60)
    drain(nodes, 0)
    nodes.answered("b")
    nodes.lose_sight(50)
    assert nodes.due == nodes.absent == ["a", "c", "d", "e"]
    assert drain(nodes, 50) == []
    assert nodes.wait(51) == 59
    nodes.seen("c")
    nodes.seen("b")
    assert drain(nodes, 55) == ["c"]
    nodes.seen("c")
    assert nodes.absent == ["a", "d", "e"]
    assert nodes.expired(109.9) == []
    assert nodes.expired(110) == ["a", "d", "e"]
    assert nodes.expired(115) == ["c"]
    assert not nodes.open


def test_who_was_asked_can_be_given_up() -> None:
    nodes = NodeQueue("abcd", window=2, timeout=60)
    drain(nodes, 0)
    assert nodes.give_up() == ["a", "b"]
    assert drain(nodes, 0) == ["c", "d"]


steps = st.lists(
    st.one_of(
        st.tuples(st.just("wait"), st.floats(0, 30)),
        st.tuples(st.just("answer"), st.integers(0, 19)),
        st.tuples(st.just("lose"), st.none()),
        st.tuples(st.just("came"), st.integers(0, 19)),
    ),
    max_size=40,
)


@given(steps=steps, window=st.integers(1, 5), count=st.integers(0, 20))
def test_each_node_has_exactly_one_end(steps: list[tuple[str, object]], window: int, count: int) -> None:
    names = [str(number) for number in range(count)]
    nodes = NodeQueue(names, window, timeout=40)
    ends: list[str] = []
    now = 0.0
    asked: list[str] = []
    for kind, value in [*steps, *[("wait", 41.0)] * (count + 2)]:
        asked += drain(nodes, now)
        if kind == "answer" and str(value) in asked:
            ends += [str(value)] if nodes.answered(str(value)) else []
        elif kind == "lose":
            nodes.lose_sight(now)
        elif kind == "came":
            nodes.seen(str(value))
        elif kind == "wait":
            assert nodes.wait(now) <= 40.001
            now += value  # type: ignore[operator]
            ends += nodes.expired(now)
    assert sorted(ends) == sorted(names)
    assert not nodes.open
