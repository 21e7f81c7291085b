"""The lease (U14): masters that share a database do one run at a time for an environment."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from configdb_sync.clock import SystemClock
from configdb_sync.errors import BusyError
from configdb_sync.store import lease as module
from configdb_sync.store.database import Database
from configdb_sync.store.lease import LASTS, Lease, lease_name
from configdb_sync.store.opening import open_store
from configdb_sync.store.schema import LEASES
from tests.support.clocks import ManualClock


def make(
    database: Database,
    clock: ManualClock,
    run: str,
    host: str = "one",
    environment: int = 5,
    over: Collection[str] = (),
) -> Lease:
    return Lease(database, lease_name(environment), run, host, clock, over.__contains__)


@pytest.fixture
def shared(own_database: Database, monkeypatch: pytest.MonkeyPatch) -> Database:
    """A database whose leases go by the test's clock, which stands still."""
    monkeypatch.setattr(module, "now_of", lambda _, clock: clock.now().timestamp())
    return own_database


def test_a_second_master_waits_and_is_told_who_works(shared: Database, clock: ManualClock) -> None:
    first = make(shared, clock, "req-1")
    first.take(0)
    with first.kept():
        with pytest.raises(BusyError, match="run req-1 on one"):
            make(shared, clock, "req-2", "two").take(30)
        assert clock.passed == pytest.approx(30)
        make(shared, clock, "req-3", environment=6).take(0)
    make(shared, clock, "req-2", "two").take(0)


def test_the_lease_of_a_master_that_vanished_expires(shared: Database, clock: ManualClock) -> None:
    gone = make(shared, clock, "req-1")
    gone.take(0)
    make(shared, clock, "req-2", "two").take(LASTS + 1)
    assert clock.passed == pytest.approx(LASTS)
    with pytest.raises(BusyError, match="lost its lock"):
        gone.check()
    gone.renew()
    with pytest.raises(BusyError, match="lost its lock"):
        gone.check()
    gone.release()
    with pytest.raises(BusyError, match="req-2"):
        make(shared, clock, "req-3").take(0)


def test_a_renewed_lease_stays(shared: Database, clock: ManualClock) -> None:
    lease = make(shared, clock, "req-1")
    lease.take(0)
    for _ in range(5):
        clock.sleep(LASTS - 1)
        lease.check()
        lease.renew()
    clock.sleep(LASTS - 1)
    lease.check()
    with pytest.raises(BusyError):
        make(shared, clock, "req-2").take(0)


def test_a_run_that_this_host_knows_to_be_over_is_not_waited_for(shared: Database, clock: ManualClock) -> None:
    make(shared, clock, "req-1").take(0)
    with pytest.raises(BusyError):
        make(shared, clock, "req-2", "two", over={"req-1"}).take(0)
    make(shared, clock, "req-3", over={"req-1"}).take(0)
    assert clock.passed == 0


def test_one_of_many_gets_it(own_url: str) -> None:
    def take(number: int) -> bool:
        with closing(open_store(own_url)) as database:
            try:
                Lease(database, "environment 5", f"req-{number}", f"host-{number}", SystemClock()).take(0)
            except BusyError:
                return False
            return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(take, range(16))) == 1


def test_it_is_renewed_while_the_run_works(own_database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RENEWED", 0.01)
    lease = Lease(own_database, "environment 5", "req-1", "one", SystemClock())

    def until() -> float:
        found = own_database.read(lambda connection: connection.execute(LEASES.select()).one())
        return float(found.until)

    lease.take(0)
    with lease.kept():
        first = until()
        end = SystemClock().monotonic() + 60
        while until() == first and SystemClock().monotonic() < end:
            SystemClock().sleep(0.01)
        assert until() > first
    assert own_database.read(lambda connection: connection.execute(LEASES.select()).all()) == []


@pytest.mark.parametrize("days", [-31, 31])
def test_a_clock_that_is_set_neither_frees_a_lease_nor_holds_it(
    own_database: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    shift = 0.0
    monkeypatch.setattr(module, "now_of", lambda _, clock: clock.now().timestamp() + shift)
    held = make(own_database, clock, "req-1")
    held.take(0)
    shift = days * 86400.0
    with pytest.raises(BusyError, match="req-1"):
        make(own_database, clock, "req-2", "two").take(LASTS / 2)
    held.check()
    held.renew()
    make(own_database, clock, "req-2", "two").take(LASTS + 2)


@pytest.mark.parametrize("days", [-31, 31])
def test_a_row_whose_time_is_over_is_free_for_one_that_goes_by_the_clock(
    own_database: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    """One that ends later than any can was taken under another clock: it is free too."""
    shift = 0.0
    monkeypatch.setattr(module, "now_of", lambda _, clock: clock.now().timestamp() + shift)
    make(own_database, clock, "one").take(0)
    other = make(own_database, clock, "two", "two")
    other.by_clock = True
    assert (held := other.try_take()) is not None
    assert (held.holder, held.host) == ("one", "one")
    shift = days * 86400.0
    assert other.try_take() is None
    other.check()
