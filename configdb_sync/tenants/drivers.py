"""Status drivers (S6): classes found by entry point, asked in order, each told what the one before it left."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import entry_points

from configdb_sync.clock import Clock
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.errors import SettingsError
from configdb_sync.store.database import Database
from configdb_sync.store.runs import PastRuns
from configdb_sync.store.states import SourceState, source_states
from configdb_sync.tenants.paths import Place
from configdb_sync.tenants.status import Status

GROUP = "configdb_sync.status_drivers"
DEFAULT = ("sync", "configdb")

LONGEST_DEADLINE = 60.0
_LOAD_SECONDS = 30.0
_KEPT = 5.0
_MOST = 1000


@dataclass(frozen=True)
class StatusContext:
    """The state of one tenant, environment or data source, as stored and as changed by the drivers so far.

    ``definition``: a data source's id in ConfigDB; ``run``: the run that said it is at work on it.
    """

    place: Place
    status: Status | None
    details: str | None
    definition: int | None = None
    run: str | None = None

    def told(self, status: Status | None, details: str | None = None) -> StatusContext:
        """Return the context with another status."""
        return replace(self, status=status, details=details)


@dataclass(frozen=True)
class Surroundings:
    """What a driver is made with."""

    database: Database
    client: Callable[[], ConfigDBClient]
    clock: Clock


class StatusDriver:
    """Tells how things do; each method returns the context it is given, or ``told`` of it.

    A class of one's own need not be derived from this one; it needs the three methods. Each question is asked in a
    thread of its own that is waited for ``deadline`` seconds. What takes longer, what is raised, an exit and anything
    else that is returned counts as not having been asked. ``local = False`` says that others are asked over a network:
    after a failure the answer to a ``GET`` then says that it may be old.
    """

    local = True
    deadline = 5.0

    def __init__(self, surroundings: Surroundings) -> None:
        self.surroundings = surroundings

    def begin(self) -> None:
        """Take note that a new question begins, in this thread; it may have several data sources."""

    def get_tenant_status(self, context: StatusContext) -> StatusContext:
        """Return how a tenant does."""
        return context

    def get_environment_status(self, context: StatusContext) -> StatusContext:
        """Return how what a tenant has in an environment does."""
        return context

    def get_data_source_status(self, context: StatusContext) -> StatusContext:
        """Return how a data source does."""
        return context


class SyncDriver(StatusDriver):
    """What the runs recorded: at work, in step, failed; and that a run died (S8)."""

    def __init__(self, surroundings: Surroundings) -> None:
        super().__init__(surroundings)
        self._past = PastRuns(surroundings.database, surroundings.clock)
        # Of this thread's question alone: an older answer would take back what a run has told since.
        self._asked = threading.local()

    def begin(self) -> None:
        """Forget the last question's answers."""
        self._asked.states = {}

    def get_data_source_status(self, context: StatusContext) -> StatusContext:
        """Return what the runs recorded of a data source; nothing recorded changes nothing."""
        environment, name = context.place.environment, context.place.data_source
        assert environment is not None
        kept: dict[int, Mapping[str, SourceState]] = getattr(self._asked, "states", {})
        states = kept.get(environment) or kept.setdefault(environment, self._states(environment))
        found = None if name is None else states.get(name)
        if found is None:
            return self._unfinished(context) if context.status is Status.BUILD and context.run else context
        return context.told(Status[found.state.name], found.details or None)

    def _states(self, environment: int) -> Mapping[str, SourceState]:
        return source_states(self.surroundings.database, self._past, environment)

    def _unfinished(self, context: StatusContext) -> StatusContext:
        """Tell of a data source in BUILD of which no run left a word whether its run is still at work."""
        assert context.place.environment is not None
        working = self._past.at_work(context.place.environment)
        if working is not None:
            return context
        return context.told(Status.ERROR, f"run {context.run or 'unknown'} ended without a word")


class ConfigDBDriver(StatusDriver):
    """Whether ConfigDB can be asked and has the definition."""

    local = False

    def __init__(self, surroundings: Surroundings) -> None:
        super().__init__(surroundings)
        self._kept: dict[int, tuple[float, frozenset[int]]] = {}

    def get_data_source_status(self, context: StatusContext) -> StatusContext:
        """Return ERROR if the definition is gone. Raises ``ConfigDBError`` if ConfigDB can't be asked."""
        environment = context.place.environment
        assert environment is not None
        if context.definition is None:
            return context
        kept = self._kept.get(environment)
        # Only that it is there is believed of an older answer: it may have been made since.
        if kept is not None and self.surroundings.clock.monotonic() - kept[0] < _KEPT and context.definition in kept[1]:
            return context
        there = self._definitions(environment)
        if len(self._kept) > _MOST:
            self._kept.clear()
        self._kept[environment] = (self.surroundings.clock.monotonic(), there)
        if context.definition in there:
            return context
        return context.told(Status.ERROR, f"resource definition {context.definition} is gone from ConfigDB")

    def _definitions(self, environment: int) -> frozenset[int]:
        client = self.surroundings.client()
        found = client.environment(environment)
        if found is None:
            return frozenset()
        return frozenset(
            one.id
            for component in client.components()
            if component.id in found.components
            for one in component.definitions
        )


def load(names: Sequence[str], surroundings: Surroundings) -> dict[str, StatusDriver]:
    """Return the drivers of these names, in order. Raises ``SettingsError`` for one that isn't installed, fails, takes
    long or lacks a method (R6)."""
    # The product's own are known where it isn't installed by pip too, as in the Fuel plugin.
    installed: dict[str, Callable[[], Callable[[Surroundings], StatusDriver]]] = {
        "sync": lambda: SyncDriver,
        "configdb": lambda: ConfigDBDriver,
        **{found.name: found.load for found in entry_points(group=GROUP)},
    }
    drivers: dict[str, StatusDriver] = {}
    for name in names:
        if name not in installed:
            raise SettingsError(
                f"there is no status driver {name!r}",
                way_out=f"installed are: {', '.join(sorted(installed))}",
            )
        try:
            drivers[name] = _made(installed[name], surroundings)
        except _UnusableError as fault:
            raise SettingsError(f"the status driver {name!r} can't be loaded: {fault}") from fault.__cause__
    return drivers


class _UnusableError(Exception):
    pass


def _made(load_class: Callable[[], Callable[[Surroundings], StatusDriver]], surroundings: Surroundings) -> StatusDriver:
    """Return a driver, made in a thread of its own: its code is others'. Raises ``_UnusableError``."""
    made: list[StatusDriver] = []
    faults: list[BaseException] = []

    def make() -> None:
        try:
            driver = load_class()(surroundings)
            _check(driver)
            made.append(driver)
        except BaseException as error:  # an exit is a failure too
            faults.append(error)

    thread = threading.Thread(target=make, daemon=True)
    thread.start()
    thread.join(_LOAD_SECONDS)
    if made:
        return made[0]
    if not faults:
        raise _UnusableError(f"it took more than {_LOAD_SECONDS:g} s")
    if isinstance(faults[0], _UnusableError):
        raise faults[0]
    raise _UnusableError(type(faults[0]).__name__) from faults[0]


def _check(driver: StatusDriver) -> None:
    for method in ("get_tenant_status", "get_environment_status", "get_data_source_status"):
        if not callable(getattr(driver, method, None)):
            raise _UnusableError(f"it has no method {method}")
    deadline = getattr(driver, "deadline", StatusDriver.deadline)
    if isinstance(deadline, bool) or not isinstance(deadline, int | float) or not 0 < deadline <= LONGEST_DEADLINE:
        raise _UnusableError(f"its deadline isn't a number of seconds up to {LONGEST_DEADLINE:g}")
