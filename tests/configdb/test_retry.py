"""When a request is sent again (U13)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configdb_sync.configdb.retry import Failure, RetryPolicy, ambiguous, pause, retry_after

POLICY = RetryPolicy(attempts=5, base=0.2, cap=5.0, patience=60.0, whole=100.0)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def wait(failure: Failure, tried: int = 1, **given_: object) -> float | None:
    options: dict[str, object] = {"elapsed": 0.0, "repeatable": True, "conflict": False, "draw": 0.5, **given_}
    return pause(POLICY, failure, tried=tried, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("status", [None, 429, 500, 502, 503, 504])
def test_what_passes_is_tried_again(status: int | None) -> None:
    assert wait(Failure(status)) is not None
    assert wait(Failure(status), repeatable=False) is None


@pytest.mark.parametrize("status", [200, 301, 308, 400, 401, 403, 404, 405, 409, 412, 422, 501, 505, 600])
def test_what_stays_is_not(status: int) -> None:
    assert wait(Failure(status)) is None


def test_a_conflict_passes_only_where_another_writer_is_meant() -> None:
    assert wait(Failure(409), conflict=True) is not None


def test_the_wait_grows_to_its_cap() -> None:
    policy = RetryPolicy(attempts=99)
    waits = [
        pause(policy, Failure(500), tried=tried, elapsed=0, repeatable=True, conflict=False, draw=0.999)
        for tried in range(1, 9)
    ]
    assert waits == sorted(waits, key=lambda seconds: seconds or 0)
    assert all(seconds is not None and seconds <= 5 for seconds in waits)


def test_it_ends() -> None:
    assert wait(Failure(500), tried=5) is None
    assert wait(Failure(500), elapsed=99.95) is None


def test_what_the_server_asks_for() -> None:
    assert wait(Failure(429, 7.0)) == 7.0
    assert wait(Failure(503, 0.0)) == wait(Failure(503))
    assert wait(Failure(429, 61.0)) is None


@given(
    st.integers(1, 20),
    st.floats(0, 0.999),
    st.sampled_from([None, 409, 429, 500]),
    st.none() | st.floats(0, 1e9),
    st.floats(0, 200),
)
def test_a_wait_is_never_negative_nor_beyond_the_whole(
    tried: int, draw: float, status: int | None, asked: float | None, elapsed: float
) -> None:
    found = wait(Failure(status, asked), tried, draw=draw, elapsed=elapsed, conflict=True)
    assert found is None or (0 < found <= 60 and elapsed + found <= 100)


def test_only_a_lost_answer_leaves_open_what_happened() -> None:
    assert [status for status in (None, 409, 429, 500, 502, 503, 504) if ambiguous(status)] == [None, 502, 504]


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("", None),
        ("3", 3.0),
        (" 3 ", 3.0),
        ("-3", None),
        ("soon", None),
        ("Thu, 01 Jan 2026 00:00:30 GMT", 30.0),
        ("Thu, 01 Jan 2026 00:00:30", 30.0),
        ("Wed, 31 Dec 2025 00:00:30 GMT", 0.0),
        ("9" * 400, 999999999.0),
        ("٣", None),
    ],
)
def test_retry_after(header: str | None, seconds: float | None) -> None:
    assert retry_after(header, NOW) == seconds


@given(st.text(max_size=40))
def test_any_header_is_read(header: str) -> None:
    found = retry_after(header, NOW)
    assert found is None or found >= 0
