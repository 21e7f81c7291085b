"""T5: a deleted tenant's time to be recovered isn't shortened by a clock that is wrong."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from configdb_sync.tenants.outbox_worker import LATE_FOR, Lateness
from configdb_sync.tenants.registry import Registry, open_registry
from configdb_sync.tenants.representations import TenantBody
from configdb_sync.tenants.rows import ChangeInfo
from tests.support.clocks import ManualClock


def test_a_clock_that_is_ahead_for_a_while_purges_nothing() -> None:
    """T5: services that start before the clock of their machine is set; what is late must stay so."""
    clock = ManualClock()
    lateness, month = Lateness(clock), {"a": 30 * 86_400_000_000}
    for _ in range(5):
        assert lateness.lasting(month) == []
        clock.sleep(5)
    assert lateness.lasting({}) == []
    for _ in range(int(LATE_FOR / 60)):
        assert lateness.lasting(month) == []
        clock.sleep(60)
    assert lateness.lasting(month) == ["a"]
    # A look after a long sleep is one look; what had no time to be recovered has nothing to lose.
    fresh = Lateness(clock)
    fresh.lasting(month)
    clock.sleep(LATE_FOR)
    assert fresh.lasting(month) == []
    assert Lateness(clock).lasting({"b": 0}) == ["b"]


def test_a_clock_that_is_behind_does_not_shorten_the_time_to_recover(tmp_path: Path) -> None:
    now, month = 1_800_000_000_000_000, 30 * 86_400_000_000
    with closing(Registry(open_registry(f"sqlite:///{tmp_path / 'own.sqlite'}"))) as registry:
        registry.put(ChangeInfo("ann", "test", "req-1", now), "a", TenantBody({}, {}))
        registry.mark(ChangeInfo("ann", "test", "req-2", 1_000_000), "a", month)
        assert registry.due(now + month - 1) == {}
        assert set(registry.due(now + month)) == {"a"}
