"""When a request is sent again (U13)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configdb_sync.http.session import RetryPolicy, is_ambiguous, retry_after

POLICY = RetryPolicy(attempts=5, base=0.2, cap=5.0, patience=60.0, whole=100.0)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def wait(
    status: int | None,
    asked: float | None = None,
    *,
    tried: int = 1,
    elapsed: float = 0.0,
    draw: float = 0.5,
    conflict: bool = False,
) -> float | None:
    return POLICY.pause(status, asked, tried=tried, elapsed=elapsed, draw=draw, conflict=conflict)


@pytest.mark.parametrize("status", [None, 429, 500, 502, 503, 504])
def test_what_passes_is_tried_again(status: int | None) -> None:
    assert wait(status) is not None


@pytest.mark.parametrize("status", [200, 301, 308, 400, 401, 403, 404, 405, 409, 412, 422, 501, 505, 600])
def test_what_stays_is_not(status: int) -> None:
    assert wait(status) is None


def test_a_conflict_passes_only_where_another_writer_is_meant() -> None:
    assert wait(409, conflict=True) is not None


def test_the_wait_grows_to_its_cap() -> None:
    policy = RetryPolicy(attempts=99)
    waits = [policy.pause(500, tried=tried, elapsed=0, draw=0.999) for tried in range(1, 9)]
    assert waits == sorted(waits, key=lambda seconds: seconds or 0)
    assert all(seconds is not None and seconds <= 5 for seconds in waits)


def test_it_ends() -> None:
    assert wait(500, tried=5) is None
    assert wait(500, elapsed=99.95) is None


def test_what_the_server_asks_for() -> None:
    assert wait(429, 7.0) == 7.0
    assert wait(503, 0.0) == wait(503)
    assert wait(429, 61.0) is None


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
    found = wait(status, asked, tried=tried, draw=draw, elapsed=elapsed, conflict=True)
    assert found is None or (0 < found <= 60 and elapsed + found <= 100)


def test_only_a_lost_answer_leaves_open_what_happened() -> None:
    assert [status for status in (None, 409, 429, 500, 502, 503, 504) if is_ambiguous(status)] == [None, 502, 504]


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
