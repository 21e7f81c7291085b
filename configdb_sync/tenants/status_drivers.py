"""Status drivers (S6): classes found by entry point, asked in order, each with the result of the one before it.

A driver is guarded: whatever it does, the service continues (R6).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from importlib.metadata import entry_points
from typing import Any

from configdb_sync.clock import Clock
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.errors import ConfigDBError, SettingsError
from configdb_sync.store.database import Database
from configdb_sync.store.runs import PastRuns
from configdb_sync.store.states import SourceState, source_states
from configdb_sync.tenants.paths import ResourcePath
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

    ``definition``: a data source's ID in ConfigDB; ``run``: the run that is processing it.
    """

    place: ResourcePath
    status: Status | None
    details: str | None
    definition: int | None = None
    run: str | None = None

    def told(self, status: Status | None, details: str | None = None) -> StatusContext:
        """Return the context with another status."""
        return replace(self, status=status, details=details)


@dataclass(frozen=True)
class DriverServices:
    """What a driver is created with."""

    database: Database
    client: Callable[[], ConfigDBClient]
    clock: Clock


class StatusDriver:
    """Reports status; each method returns the context that it is given, or the result of its ``told``.

    Your own class needs the three methods; it needn't be derived from this one. Each question is asked in a thread of
    its own, which has ``deadline`` seconds. A driver that takes longer, raises, exits or returns anything else counts
    as not asked. ``local = False`` means that the driver asks over a network: after a failure the answer to a ``GET``
    then says that it may be outdated.
    """

    local = True
    deadline = 5.0

    def __init__(self, surroundings: DriverServices) -> None:
        self.surroundings = surroundings

    def begin(self) -> None:
        """Prepare for a new question, in this thread; it may cover several data sources."""

    def get_tenant_status(self, context: StatusContext) -> StatusContext:
        """Return the status of a tenant."""
        return context

    def get_environment_status(self, context: StatusContext) -> StatusContext:
        """Return the status of what a tenant has in an environment."""
        return context

    def get_data_source_status(self, context: StatusContext) -> StatusContext:
        """Return the status of a data source."""
        return context


class SyncDriver(StatusDriver):
    """What the runs recorded: in progress, in step, failed; and that a run died (S8)."""

    def __init__(self, surroundings: DriverServices) -> None:
        super().__init__(surroundings)
        self._past = PastRuns(surroundings.database, surroundings.clock)
        # For this thread's question only: an older answer would revert what a run has reported since.
        self._asked = threading.local()

    def begin(self) -> None:
        """Discard the last question's answers."""
        self._asked.states = {}

    def get_data_source_status(self, context: StatusContext) -> StatusContext:
        """Return what the runs recorded about a data source; without a record the context stays."""
        environment, name = context.place.environment, context.place.data_source
        assert environment is not None
        kept: dict[int, Mapping[str, SourceState]] = getattr(self._asked, "states", {})
        states = kept.get(environment)
        if states is None:
            states = kept[environment] = source_states(self.surroundings.database, self._past, environment)
        found = None if name is None else states.get(name)
        if found is None:
            return self._unfinished(context) if context.status is Status.BUILD and context.run else context
        return context.told(Status[found.state.name], found.details or None)

    def _unfinished(self, context: StatusContext) -> StatusContext:
        """Return the status of a data source in BUILD without a record: ERROR unless its run is still in progress."""
        assert context.place.environment is not None
        working = self._past.at_work(context.place.environment)
        if working is not None:
            return context
        return context.told(Status.ERROR, f"run {context.run or 'unknown'} ended without a record")


class ConfigDBDriver(StatusDriver):
    """Whether ConfigDB is available and has the definition."""

    local = False

    def __init__(self, surroundings: DriverServices) -> None:
        super().__init__(surroundings)
        self._present: dict[int, tuple[float, frozenset[int]]] = {}

    def get_data_source_status(self, context: StatusContext) -> StatusContext:
        """Return ERROR if the definition is gone. Raises ``ConfigDBError`` if ConfigDB is unavailable."""
        environment = context.place.environment
        assert environment is not None
        if context.definition is None:
            return context
        known = self._present.get(environment)
        # An older answer only proves that a definition exists: a missing one may have been created since.
        if (
            known is not None
            and self.surroundings.clock.monotonic() - known[0] < _KEPT
            and context.definition in known[1]
        ):
            return context
        present = self._definitions(environment)
        if len(self._present) > _MOST:
            self._present.clear()
        self._present[environment] = (self.surroundings.clock.monotonic(), present)
        if context.definition in present:
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


def load(names: Sequence[str], surroundings: DriverServices) -> dict[str, StatusDriver]:
    """Return the drivers of these names, in order.

    Raises ``SettingsError`` for one that isn't installed, fails, takes too long or lacks a method (R6).
    """
    # The product's own are known even if it isn't installed by pip, as in the Fuel plugin.
    installed: dict[str, Callable[[], Callable[[DriverServices], StatusDriver]]] = {
        "sync": lambda: SyncDriver,
        "configdb": lambda: ConfigDBDriver,
        **{found.name: found.load for found in entry_points(group=GROUP)},
    }
    drivers: dict[str, StatusDriver] = {}
    for name in names:
        if name not in installed:
            raise SettingsError(
                f"there is no status driver {name!r}", way_out=f"installed are: {', '.join(sorted(installed))}"
            )
        try:
            drivers[name] = _made(installed[name], surroundings)
        except _UnusableError as fault:
            raise SettingsError(
                f"the status driver {name!r} can't be loaded: {fault}",
                way_out="install its package anew, or leave it out",
            ) from fault.__cause__
    return drivers


class _UnusableError(Exception):
    pass


def _made(
    load_class: Callable[[], Callable[[DriverServices], StatusDriver]], surroundings: DriverServices
) -> StatusDriver:
    """Create a driver in a thread of its own: its code is foreign. Raises ``_UnusableError``."""
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


AT_ONCE = 4
"""Questions to one driver at the same time, including those that it never answered."""
LONGEST_ANSWER = 65_536


class DriverFault(Exception):  # noqa: N818  # what a driver did, not what went wrong here
    """A driver failed. The text says how and contains none of the driver's own."""


@dataclass
class _Question:
    """A question to a driver in a thread of its own, and what it answered in time."""

    driver: StatusDriver
    method: str
    contexts: Sequence[StatusContext]
    found: list[StatusContext] = field(default_factory=list)
    fault: str | None = "it ended without an answer"
    over: bool = False
    late: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)
    ended: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Ask for one context after the other, until all are answered, one fails or the time is over."""
        try:
            # A driver may have only the methods that the documentation requires.
            begin = getattr(self.driver, "begin", None)
            if begin is not None:
                begin()
            ask: Callable[[StatusContext], Any] = getattr(self.driver, self.method)
            for context in self.contexts:
                after = checked(context, ask(replace(context)))
                with self.lock:
                    if self.over:
                        return
                    self.found.append(after)
            self.fault = None
        except BaseException as error:  # an exit is a failure, too
            self.fault = type(error).__name__
            with contextlib.suppress(Exception):
                self.fault = str(error) if isinstance(error, (ConfigDBError, DriverFault)) else self.fault
        finally:
            self.ended.set()

    def result(self, seconds: float) -> tuple[list[StatusContext], str | None]:
        """Return the answers within a time, and why some are missing."""
        in_time = self.ended.wait(seconds)
        with self.lock:
            self.over = True
            return list(self.found), self.fault if in_time else f"it took more than {seconds:g} s"


class GuardedDriver:
    """Asks a driver in threads; the service waits at most ``deadline`` seconds for one."""

    def __init__(self, driver: StatusDriver) -> None:
        self._driver = driver
        self._slots = threading.BoundedSemaphore(AT_ONCE)
        self._stuck = 0
        self._lock = threading.Lock()
        self.local = bool(getattr(driver, "local", True))
        self.deadline = float(getattr(driver, "deadline", StatusDriver.deadline))

    def ask(self, kind: str, contexts: Sequence[StatusContext]) -> tuple[list[StatusContext], str | None]:
        """Return the driver's answers for resources of a kind, and why it failed, None if it didn't.

        After a failure there are fewer answers than contexts: those of the first ones.
        """
        with self._lock:
            seconds = 0.0 if self._stuck >= AT_ONCE else self.deadline
        if not self._slots.acquire(timeout=seconds):
            return [], f"{AT_ONCE} earlier questions have no answer yet"
        question = _Question(self._driver, f"get_{kind}_status", contexts)
        thread = threading.Thread(target=copy_context().run, args=(self._run, question), daemon=True)
        try:
            thread.start()
        except RuntimeError:
            self._slots.release()
            return [], "no thread could be started"
        answers, fault = question.result(self.deadline)
        with self._lock:
            if not question.ended.is_set():
                question.late = True
                self._stuck += 1
        return answers, fault

    def _run(self, question: _Question) -> None:
        try:
            question.run()
        finally:
            with self._lock:
                self._stuck -= question.late
            self._slots.release()


def checked(before: StatusContext, after: object) -> StatusContext:
    """Return a driver's answer for a context. Raises ``DriverFault`` unless only status and details differ."""
    if not isinstance(after, StatusContext):
        raise DriverFault(f"it returned {type(after).__name__}, not a StatusContext")
    if not (after.status is None or isinstance(after.status, Status)):
        raise DriverFault(f"it returned {type(after.status).__name__} for a status, not a Status or None")
    if not (after.details is None or isinstance(after.details, str)):
        raise DriverFault(f"it returned {type(after.details).__name__} for details, not text or None")
    if after.details is not None and len(after.details) > LONGEST_ANSWER:
        raise DriverFault(f"it returned {len(after.details)} characters of details, more than {LONGEST_ANSWER}")
    answer = before.told(after.status, after.details)
    if after != answer:
        raise DriverFault("it returned another place's context, or changed more than status and details")
    return answer
