"""Names, the safety gate, the lock, health and exit codes of runs."""

from __future__ import annotations

import multiprocessing
import threading
import time
from datetime import UTC, datetime
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configdb_sync import errors
from configdb_sync.clock import SystemClock
from configdb_sync.exits import Exit
from configdb_sync.names import NAME_LIMIT, component_name
from configdb_sync.store.approvals import UnsafeChange, unsafe_digest
from configdb_sync.store.lease import run_lock
from configdb_sync.sync.limits import CircuitBreaker
from configdb_sync.sync.report import exit_of_run
from configdb_sync.sync.safety_checks import lost_keys


@given(st.text(st.characters(exclude_characters="/"), min_size=1, max_size=255), st.integers(1, 10**9))
def test_component_names_fit_and_are_the_same_every_time(tenant: str, number: int) -> None:
    name = component_name(tenant, number)
    assert len(name) <= NAME_LIMIT
    assert name == component_name(tenant, number)
    if len(f"{tenant}/{number}") <= NAME_LIMIT:
        assert name == f"{tenant}/{number}"


def test_long_tenants_that_begin_alike_have_names_of_their_own() -> None:
    assert component_name("x" * 200, 1) != component_name("x" * 201, 1) != component_name("x" * 201, 2)


def test_a_document_may_lose_a_share_of_its_keys_but_never_all() -> None:
    before = {str(number): number for number in range(10)}
    half = {str(number): number for number in range(5)}
    assert lost_keys(before, half, 0.5) == ()
    assert len(lost_keys(before, dict(list(half.items())[1:]), 0.5)) == 6
    assert len(lost_keys(before, {}, 1.0)) == 10
    assert lost_keys({}, {}, 0) == ()
    assert lost_keys(before, before | {"new": 1}, 0) == ()


def test_the_digest_of_unsafe_changes_names_exactly_these() -> None:
    one = UnsafeChange("1", "astute", "astute.yaml", ("a",), 1, "x", "y")
    other = UnsafeChange("2", "astute", "astute.yaml", ("a",), 1, "x", "y")
    assert unsafe_digest([one, other]) == unsafe_digest([other, one])
    assert len({unsafe_digest([one]), unsafe_digest([other]), unsafe_digest([one, other])}) == 3


class FakeClock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


def test_a_second_run_waits_and_then_says_busy(tmp_path: Path) -> None:
    clock = FakeClock()
    with run_lock(tmp_path, 1, 0, clock):
        with run_lock(tmp_path, 2, 0, clock):
            pass
        with pytest.raises(errors.BusyError, match="--wait"), run_lock(tmp_path, 1, 30, clock):
            pass
    assert clock.seconds == pytest.approx(30)
    with run_lock(tmp_path, 1, 0, clock):
        pass


def _hold(folder: Path, held: Event) -> None:
    with run_lock(folder, 1, 0, SystemClock()):
        held.set()
        time.sleep(600)


def test_the_kernel_frees_the_lock_of_a_killed_run(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    held = context.Event()
    process = context.Process(target=_hold, args=(tmp_path, held))
    process.start()
    assert held.wait(60)
    with pytest.raises(errors.BusyError), run_lock(tmp_path, 1, 0, SystemClock()):
        pass
    process.kill()
    process.join()
    with run_lock(tmp_path, 1, 30, SystemClock()):
        pass


def test_one_bad_document_is_no_dead_server_but_three_in_a_row_are() -> None:
    health = CircuitBreaker(limit=3)
    away = errors.UnavailableError("away")
    for _ in range(5):
        health.failed(away)
        health.failed(away)
        health.worked()
    health.failed(errors.MissingError("no"))
    health.failed(away)
    health.failed(away)
    with pytest.raises(errors.UnavailableError):
        health.failed(away)
    with pytest.raises(errors.AccessError):
        CircuitBreaker().failed(errors.AccessError("refused"))


def test_health_is_shared_by_threads() -> None:
    health = CircuitBreaker(limit=1000)

    def fail() -> None:
        for _ in range(100):
            health.failed(errors.UnavailableError("x"))

    threads = [threading.Thread(target=fail) for _ in range(9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for _ in range(99):
        health.failed(errors.UnavailableError("x"))
    with pytest.raises(errors.UnavailableError):
        health.failed(errors.UnavailableError("x"))


PARTIAL = [errors.DocumentError("a"), errors.UnsafeError("b"), errors.EnvironmentMismatchError("c")]


@pytest.mark.parametrize(
    ("problems", "done", "code"),
    [
        ([], 1, Exit.OK),
        (PARTIAL, 1, Exit.PARTIAL),
        ([errors.UnsafeError("b")], 0, Exit.UNSAFE),
        ([errors.EnvironmentMismatchError("c")] * 2, 0, Exit.ENVIRONMENT),
        ([errors.EnvironmentMismatchError("c")] * 2, 1, Exit.PARTIAL),
        ([*PARTIAL, errors.UnexpectedAnswerError("d")], 1, Exit.CONFIGDB),
        ([*PARTIAL, errors.UnavailableError("d"), errors.AccessError("e")], 1, Exit.ACCESS),
    ],
)
def test_the_exit_code_is_that_of_what_must_be_acted_on_first(
    problems: list[errors.ProductError], done: int, code: Exit
) -> None:
    assert exit_of_run(problems, nodes_done=done) is code
