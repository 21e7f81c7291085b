"""Token buckets: a burst, a rate in the long run, a bounded memory, and when to come back."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configdb_sync.clock import SystemClock
from configdb_sync.web.access import LimitedAccess, TokenAccess, TokenBuckets, buckets
from configdb_sync.web.refusals import RefusalError
from tests.support.clocks import ManualClock


def let_through(some: TokenBuckets, name: str) -> bool:
    try:
        some.take(name)
    except RefusalError:
        return False
    return True


def test_a_burst_and_then_the_rate() -> None:
    clock = ManualClock()
    some = TokenBuckets(clock, rate=2, burst=3)
    assert [let_through(some, "a") for _ in range(5)] == [True, True, True, False, False]
    assert let_through(some, "b"), "each has its own"
    clock.advance(0.5)
    assert [let_through(some, "a") for _ in range(2)] == [True, False]
    clock.advance(1000)
    assert [let_through(some, "a") for _ in range(5)] == [True, True, True, False, False]


@pytest.mark.parametrize(("rate", "after"), [(0.1, "10"), (1, "1"), (50, "1")])
def test_it_says_when_to_come_back(rate: float, after: str) -> None:
    clock = ManualClock()
    some = TokenBuckets(clock, rate, burst=1)
    some.take("a")
    for ask in (some.take, some.check):
        with pytest.raises(RefusalError) as refusal:
            ask("a")
        assert refusal.value.status == 429
        assert refusal.value.headers == (("Retry-After", after),)
    clock.advance(float(after))
    some.check("a")
    some.take("a")


def test_asking_takes_nothing() -> None:
    some = TokenBuckets(ManualClock(), 1, burst=1)
    for _ in range(5):
        some.check("a")
    some.take("a")


def test_the_memory_is_bounded() -> None:
    some = TokenBuckets(ManualClock(), 1, burst=1, most=5)
    for number in range(1000):
        some.take(f"client {number}")
    assert len(some._levels) == 5
    assert not let_through(some, "client 999")


def test_none_for_no_limit() -> None:
    assert buckets(SystemClock(), 0) is None
    few = buckets(ManualClock(), 0.1)
    assert few is not None
    assert let_through(few, "a")


@given(st.lists(st.floats(0, 3), max_size=60), st.floats(0.1, 10), st.integers(1, 5))
def test_never_more_than_the_burst_and_the_rate_allow(steps: list[float], rate: float, burst: int) -> None:
    clock = ManualClock()
    some = TokenBuckets(clock, rate, burst)
    through = 0
    for step in steps:
        clock.advance(step)
        through += let_through(some, "a")
    assert through <= burst + clock.passed * rate + 1e-6


def test_many_threads_at_once() -> None:
    some = TokenBuckets(ManualClock(), 1, burst=50)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: let_through(some, "a"), range(400)))
    assert sum(found) == 50
    with contextlib.suppress(RefusalError):
        some.check("a")


def limited(burst: float = 3) -> tuple[LimitedAccess, ManualClock]:
    clock = ManualClock()
    return LimitedAccess(TokenAccess("good"), TokenBuckets(clock, rate=1, burst=burst)), clock


def answered(access: LimitedAccess, token: str | None, address: str = "10.0.0.1") -> int:
    environ = {"REMOTE_ADDR": address, **({} if token is None else {"HTTP_X_AUTH_TOKEN": token})}
    try:
        access.caller(environ, None)
    except RefusalError as refusal:
        return refusal.status
    return 200


def test_bad_tokens_of_one_address_are_few() -> None:
    access, clock = limited()
    assert [answered(access, f"bad {number}") for number in range(5)] == [401, 401, 401, 429, 429]
    assert answered(access, "good") == 429, "who guesses learns nothing"
    assert answered(access, "good", "10.0.0.2") == 200
    clock.advance(1)
    assert [answered(access, token) for token in ("good", "bad", "bad")] == [200, 401, 429]


def test_who_works_goes_on_beside_who_guesses() -> None:
    access, _ = limited()
    assert answered(access, "good") == 200
    for number in range(10):
        answered(access, f"bad {number}")
    assert answered(access, "good") == 200


def test_no_token_is_no_bad_token() -> None:
    access, _ = limited()
    assert [answered(access, None) for _ in range(6)] == [401] * 6
