"""F5: a person's word lets exactly the unsafe changes of one digest through, once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configdb_sync.errors import UnsafeError
from configdb_sync.store.approvals import LASTS_RUNS, Approvals, UnsafeChange, decode, encode, unsafe_digest
from configdb_sync.store.database import Database
from tests.support.clocks import ManualClock

ONE = UnsafeChange("1", "astute", "astute.yaml", ("a", "b"), 2, "x", "y")
TWO = replace(ONE, node="2")
BOTH = unsafe_digest([ONE, TWO])
changes = st.builds(
    UnsafeChange,
    *(3 * [st.text(max_size=3)]),
    st.lists(st.text(max_size=2)).map(tuple),
    st.integers(),
    st.text(),
    st.text(),
)


@given(st.lists(changes, max_size=3))
def test_changes_come_back_as_they_were(found: list[UnsafeChange]) -> None:
    assert decode(encode(found)) == tuple(found)


def test_exactly_what_was_withheld_is_let_through_once(own_database: Database, clock: ManualClock) -> None:
    approvals = Approvals(own_database, clock)
    approvals.withhold(5, "req-1", [ONE, TWO])
    assert approvals.open(5) == (frozenset(), frozenset())
    assert approvals.approve(BOTH, "ann") == 2
    assert approvals.open(5) == (frozenset({ONE, TWO}), frozenset())
    assert approvals.open(6) == (frozenset(), frozenset())
    # Killed or out of time half way: the rest is still approved.
    approvals.spend(5, "req-2", frozenset({("1", "astute"), ("1", "globals")}))
    assert approvals.open(5) == (frozenset({TWO}), frozenset())
    approvals.spend(5, "req-3", frozenset({("2", "astute")}))
    assert approvals.open(5) == (frozenset(), frozenset())
    # The same change again is withheld again, and needs a new word.
    approvals.withhold(5, "req-4", [ONE, TWO])
    assert approvals.open(5) == (frozenset(), frozenset())
    assert approvals.approve(BOTH, "ann") == 2
    assert approvals.open(5)[0] == {ONE, TWO}


def test_a_digest_that_only_a_plan_showed_is_known_when_a_run_finds_it(
    own_database: Database, clock: ManualClock
) -> None:
    approvals = Approvals(own_database, clock)
    assert approvals.approve(BOTH, "ann") is None
    assert approvals.open(5) == (frozenset(), frozenset({BOTH}))
    approvals.found(5, [ONE, TWO])
    assert approvals.open(5) == (frozenset({ONE, TWO}), frozenset())


def test_an_approval_does_not_last_for_ever(own_database: Database, clock: ManualClock) -> None:
    approvals = Approvals(own_database, clock)
    approvals.withhold(5, "req-1", [ONE])
    approvals.approve(unsafe_digest([ONE]), "ann")
    for number in range(LASTS_RUNS):
        assert approvals.open(5)[0] == {ONE}
        approvals.withhold(6, f"req-other-{number}", [])
        approvals.withhold(5, f"req-{number}", [])
    assert approvals.open(5) == (frozenset(), frozenset())
    assert approvals.approve(unsafe_digest([ONE]), "ann") is None


@pytest.mark.parametrize("years", [-30, 30])
def test_a_wrong_clock_takes_no_approval_away(own_database: Database, clock: ManualClock, years: int) -> None:
    approvals = Approvals(own_database, clock)
    approvals.withhold(5, "req-1", [ONE])
    approvals.approve(unsafe_digest([ONE]), "ann")
    clock.sleep(years * 365 * 86400)
    approvals.withhold(5, "req-2", [])
    assert approvals.open(5)[0] == {ONE}


@pytest.mark.parametrize("digest", ["", "0123", "0123456789AB", "'; drop --xx"])
def test_what_is_no_digest_is_refused(own_database: Database, clock: ManualClock, digest: str) -> None:
    with pytest.raises(UnsafeError, match="no digest"):
        Approvals(own_database, clock).approve(digest, "ann")
