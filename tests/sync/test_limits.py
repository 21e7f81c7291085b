"""F5, U14: a run with a time limit begins nothing that it can't be trusted to end in time."""

from __future__ import annotations

import pytest

from configdb_sync.errors import BusyError, OutOfTimeError
from configdb_sync.sync.limits import STAGE_LIMIT, Deadline
from tests.support.clocks import ManualClock


def test_without_a_limit_everything_may_be_begun(clock: ManualClock) -> None:
    pace = Deadline(clock)
    for _ in range(3):
        with pace.step("node"):
            clock.sleep(1e6)
    assert pace.wait(240) == 240
    assert pace.until_the_last_moment is None


def test_no_step_is_begun_that_may_take_longer_than_is_left(clock: ManualClock) -> None:
    pace = Deadline(clock, 100)
    with pace.step("node"):
        clock.sleep(30)
    with pace.step("node"):
        clock.sleep(21)
    with pytest.raises(OutOfTimeError, match="100 s"), pace.step("node"):
        raise AssertionError
    with pace.step("upload"):
        clock.sleep(40)
    assert pace.left == 9
    with pytest.raises(OutOfTimeError, match="run again"):
        pace.check("upload")


def test_a_step_that_fails_took_its_time_too(clock: ManualClock) -> None:
    pace = Deadline(clock, 100)

    def fail() -> None:
        with pace.step("node"):
            clock.sleep(60)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    with pytest.raises(OutOfTimeError):
        pace.check("node")


def test_waiting_counts_and_leaves_time_for_the_report(clock: ManualClock) -> None:
    pace = Deadline(clock, STAGE_LIMIT)
    assert pace.wait(600) == STAGE_LIMIT - 5
    clock.sleep(270)
    assert pace.wait(600) == 5
    clock.sleep(20)
    assert pace.wait(600) == 0
    assert pace.until_the_last_moment == 0


def test_the_report_is_given_before_the_limit_whatever_hangs(clock: ManualClock) -> None:
    assert Deadline(clock, STAGE_LIMIT).until_the_last_moment == STAGE_LIMIT - 2.5
    assert Deadline(clock, 2).until_the_last_moment == pytest.approx(1.9)


def test_a_guard_is_asked_before_each_step(clock: ManualClock) -> None:
    lost: list[BusyError] = []

    def guard() -> None:
        if lost:
            raise lost[0]

    pace = Deadline(clock, 100).guarded(guard)
    pace.check("node")
    assert pace.left == 100
    lost.append(BusyError("lost"))
    with pytest.raises(BusyError), pace.step("node"):
        raise AssertionError
