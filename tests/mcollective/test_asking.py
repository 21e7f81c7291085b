"""Who is asked, due and given up in a call, without a clock."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from configdb_sync.mcollective.client import Asking


def drain(asking: Asking, now: float) -> list[str]:
    found = []
    while (identity := asking.next(now)) is not None:
        found.append(identity)
    return found


def test_no_more_are_at_work_than_the_window_allows() -> None:
    asking = Asking("abcde", window=2, timeout=60)
    assert drain(asking, 0) == ["a", "b"]
    assert asking.answered("a")
    assert drain(asking, 1) == ["c"]
    assert asking.due == ["b", "c", "d", "e"]
    assert not asking.answered("a")
    assert not asking.answered("e")


def test_who_has_been_silent_for_a_twentieth_of_its_time_holds_nobody_up() -> None:
    asking = Asking("abcde", window=2, timeout=60)
    drain(asking, 0)
    assert asking.wait(1) == 2
    assert drain(asking, 2.9) == []
    assert drain(asking, 3) == ["c", "d"]
    assert asking.wait(4) == 2
    assert drain(asking, 6) == ["e"]
    assert asking.wait(6) == 54
    assert asking.expired(59.9) == []
    assert asking.expired(60) == ["a", "b"]
    assert asking.expired(65.9) == ["c", "d"]
    assert asking.expired(66) == ["e"]
    assert not asking.open
    assert asking.wait(66) == 0


def test_after_a_loss_whoever_is_seen_is_asked_again_and_has_all_its_time() -> None:
    asking = Asking("abcde", window=3, timeout=60)
    drain(asking, 0)
    asking.answered("b")
    asking.lose_sight(50)
    assert asking.due == asking.absent == ["a", "c", "d", "e"]
    assert drain(asking, 50) == []
    assert asking.wait(51) == 59
    asking.came("c")
    asking.came("b")
    assert drain(asking, 55) == ["c"]
    asking.came("c")
    assert asking.absent == ["a", "d", "e"]
    assert asking.expired(109.9) == []
    assert asking.expired(110) == ["a", "d", "e"]
    assert asking.expired(115) == ["c"]
    assert not asking.open


def test_who_was_asked_can_be_given_up() -> None:
    asking = Asking("abcd", window=2, timeout=60)
    drain(asking, 0)
    assert asking.give_up() == ["a", "b"]
    assert drain(asking, 0) == ["c", "d"]


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
    asking = Asking(names, window, timeout=40)
    ends: list[str] = []
    now = 0.0
    asked: list[str] = []
    for kind, value in [*steps, *[("wait", 41.0)] * (count + 2)]:
        asked += drain(asking, now)
        if kind == "answer" and str(value) in asked:
            ends += [str(value)] if asking.answered(str(value)) else []
        elif kind == "lose":
            asking.lose_sight(now)
        elif kind == "came":
            asking.came(str(value))
        elif kind == "wait":
            assert asking.wait(now) <= 40.001
            now += value  # type: ignore[operator]
            ends += asking.expired(now)
    assert sorted(ends) == sorted(names)
    assert not asking.open
