"""Status (S1-S7): what can be said, drivers in order, what is stored, and drivers that fail or hang."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from configdb_sync.clock import SystemClock
from configdb_sync.errors import SettingsError, UnavailableError
from configdb_sync.store import tenant_schema
from configdb_sync.tenants.paths import ResourcePath
from configdb_sync.tenants.queries import Located
from configdb_sync.tenants.registry import Registry, open_registry
from configdb_sync.tenants.rows import ChangeInfo, Resource
from configdb_sync.tenants.status import Status, StatusCounts, cut
from configdb_sync.tenants.status_chain import Chain
from configdb_sync.tenants.status_drivers import DriverServices, StatusContext, StatusDriver, load
from tests.support.clocks import ManualClock
from tests.tenants.fixtures import emptied

PLACE = ResourcePath("a", 1, "astute")
TIMES = itertools.count(1)


def change() -> ChangeInfo:
    return ChangeInfo("me", "here", "req", next(TIMES))


@pytest.fixture
def backend() -> str:
    return "sqlite"


@pytest.fixture
def filled(registry: Registry) -> Registry:
    registry.put(change(), "a", None)
    registry.own(change(), "a", 1, {"astute": 1, "globals": 2})
    return registry


def stored(registry: Registry) -> Resource:
    _, found = registry.locate(PLACE)
    assert isinstance(found, Located)
    assert found.resource is not None
    return found.resource


class Told(StatusDriver):
    """Says what it is given, and notes what it was told."""

    def __init__(self, say: Callable[[StatusContext], StatusContext], *, local: bool = True) -> None:
        self.say = say
        self.local = local
        self.deadline = 0.2
        self.seen: list[StatusContext] = []

    def get_data_source_status(self, context: StatusContext) -> StatusContext:
        self.seen.append(context)
        return self.say(context)


def chain(registry: Registry, *drivers: StatusDriver, max_age: float = 0.0) -> Chain:
    named = {f"driver {number}": driver for number, driver in enumerate(drivers)}
    return Chain(registry, named, SystemClock(), max_age)


def test_of_a_whole() -> None:
    """S1."""
    assert StatusCounts(3, active=1, build=1, error=1).status is Status.ERROR
    assert StatusCounts(3, active=2, build=1).status is Status.BUILD
    assert StatusCounts(3, active=1).status is Status.ACTIVE
    assert StatusCounts(3).status is None


@pytest.mark.parametrize("before", [None, *Status])
@pytest.mark.parametrize("after", [None, *Status])
def test_all_transitions(filled: Registry, before: Status | None, after: Status | None) -> None:
    """S2."""
    for status in (before, after):
        filled.tell(change(), 1, {"astute": (status, None)})
    assert (stored(filled).status, filled.tenant("a").status) == (after, after)


def test_details_are_cut_and_say_so(filled: Registry) -> None:
    """S3."""
    filled.tell(change(), 1, {"astute": (Status.ERROR, "\U0001f600" * 5000)})
    details = stored(filled).details
    assert details is not None
    assert (len(details), details.endswith("(cut)")) == (4096, True)
    assert cut("x" * 4096) == "x" * 4096
    assert cut("a\0b") == "a\ufffdb"


def test_each_is_told_what_the_one_before_left(filled: Registry) -> None:
    """S6."""
    filled.tell(change(), 1, {"astute": (Status.BUILD, "x")}, "req-1")
    first = Told(lambda context: context.told(Status.ACTIVE, "one"))
    second = Told(lambda context: context.told(context.status, f"{context.details}, two"))
    assert chain(filled, first, second).refresh(PLACE)
    assert (first.seen[0].status, first.seen[0].details, first.seen[0].run) == (Status.BUILD, "x", "req-1")
    assert (second.seen[0].status, second.seen[0].details) == (Status.ACTIVE, "one")
    assert (stored(filled).status, stored(filled).details) == (Status.ACTIVE, "one, two")
    assert filled.tenant("a").status is Status.ACTIVE


def test_nothing_is_written_if_nothing_changed(filled: Registry) -> None:
    """S7."""
    filled.tell(change(), 1, {"astute": (Status.ACTIVE, "x")})
    before = (stored(filled), filled.tenant("a"))
    assert chain(filled, Told(lambda context: context)).refresh(PLACE)
    assert (stored(filled), filled.tenant("a")) == before


def test_at_most_once_in_a_while(filled: Registry) -> None:
    """S6."""
    driver = Told(lambda context: context)
    asking = chain(filled, driver, max_age=60)
    for _ in range(5):
        asking.refresh(PLACE)
    assert len(driver.seen) == 1


@pytest.fixture(params=["sqlite", "postgresql"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Registry, ManualClock]]:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'shared.sqlite'}"
    else:
        url = request.getfixturevalue("postgresql_url")
        database = open_registry(url)
        emptied(database)
        database.close()
    found = Registry(open_registry(url))
    found.put(change(), "a", None)
    found.own(change(), "a", 1, {"astute": 1})
    yield found, ManualClock(100_000)
    found.close()


def test_at_most_once_in_a_while_by_all_processes_together(shared: tuple[Registry, ManualClock]) -> None:
    """S6: each process has a chain of its own; who doesn't ask is told what came of it."""
    registry, clock = shared
    drivers = [Told(lambda context: context) for _ in range(3)]
    chains = [Chain(registry, {"one": driver}, clock, 60) for driver in drivers]

    def asked() -> int:
        for each in chains:
            assert each.refresh(PLACE)
            assert each.refresh(PLACE)
        return sum(len(driver.seen) for driver in drivers)

    assert asked() == 1
    clock.advance(59)
    assert asked() == 1
    clock.advance(2)
    assert asked() == 2
    clock.advance(50)
    assert Chain(registry, {"one": drivers[0]}, clock, 60).refresh(PLACE), "a new process asks no sooner"
    assert asked() == 2
    clock.advance(11)
    assert asked() == 3
    clock.advance(-10_000)
    assert Chain(registry, {"one": drivers[0]}, clock, 60).refresh(PLACE)
    assert sum(len(driver.seen) for driver in drivers) == 4, "a clock that was put back stops nobody"


def test_all_processes_say_when_it_could_not_be_asked(shared: tuple[Registry, ManualClock]) -> None:
    """T2: 203 from each of them."""
    registry, clock = shared

    def away(_context: StatusContext) -> StatusContext:
        raise UnavailableError("nobody answers")

    first = Chain(registry, {"one": Told(away, local=False)}, clock, 60)
    second = Chain(registry, {"one": Told(lambda context: context, local=False)}, clock, 60)
    assert [first.refresh(PLACE), second.refresh(PLACE), second.refresh(PLACE)] == [False] * 3
    clock.advance(61)
    assert second.refresh(PLACE)
    clock.advance(30)
    assert Chain(registry, {"one": Told(away, local=False)}, clock, 60).refresh(PLACE)


def test_what_is_not_there_takes_no_turn_and_old_turns_are_dropped(shared: tuple[Registry, ManualClock]) -> None:
    registry, clock = shared

    def turns() -> int:
        statement = sa.select(sa.func.count()).select_from(tenant_schema.STATUS_TURNS)
        return int(registry.read(lambda connection: connection.execute(statement).scalar_one()))

    one = Chain(registry, {"one": Told(lambda context: context)}, clock, 60)
    for place in (ResourcePath("never"), ResourcePath("a", 2), ResourcePath("a", 1, "never")):
        assert one.refresh(place)
    assert turns() == 0
    for place in (ResourcePath("a"), ResourcePath("a", 1), PLACE):
        assert one.refresh(place)
    assert turns() == 3
    clock.advance(8000)
    assert one.refresh(PLACE)
    assert turns() == 1


def test_a_failing_and_a_hanging_driver_fail_no_get(filled: Registry, caplog: pytest.LogCaptureFixture) -> None:
    """S7: the stored status holds; the failure is logged and counted; it isn't asked again at once."""
    release = threading.Event()

    def fail(_context: StatusContext) -> StatusContext:
        raise RuntimeError("boom")

    def hang(context: StatusContext) -> StatusContext:
        release.wait(30)
        return context

    filled.tell(change(), 1, {"astute": (Status.ACTIVE, "x")})
    hanging = Told(hang, local=False)
    asking = chain(filled, Told(fail), hanging)
    with caplog.at_level(logging.WARNING):
        fresh = [asking.refresh(PLACE) for _ in range(3)]
    release.set()
    assert fresh == [False, False, False], "a remote driver couldn't be asked"
    assert (stored(filled).status, stored(filled).details) == (Status.ACTIVE, "x")
    assert asking.failures == {"driver 0": 1, "driver 1": 1}
    assert "boom" not in caplog.text
    assert len(hanging.seen) == 1


def test_a_push_meanwhile_is_not_overwritten(filled: Registry) -> None:
    def push(context: StatusContext) -> StatusContext:
        filled.tell(change(), 1, {"astute": (Status.ACTIVE, "pushed")})
        return context.told(Status.ERROR, "older")

    chain(filled, Told(push)).refresh(PLACE)
    assert stored(filled).details == "pushed"


def test_configdb_away_and_a_definition_gone(filled: Registry) -> None:
    def away() -> object:
        raise UnavailableError("nobody answers")

    around = DriverServices(filled.database, away, SystemClock())  # type: ignore[arg-type]
    asking = Chain(filled, load(["configdb"], around), SystemClock(), 0)
    assert not asking.refresh(PLACE)
    assert not asking.refresh(ResourcePath("a", 1))
    assert stored(filled).status is None


def test_unknown_drivers_are_refused(filled: Registry) -> None:
    around = DriverServices(filled.database, lambda: None, SystemClock())  # type: ignore[arg-type, return-value]
    with pytest.raises(SettingsError, match=r"no status driver 'x'.*configdb, sync"):
        load(["x"], around)
