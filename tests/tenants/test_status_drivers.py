"""Drivers that others write, by the documents' words alone, and what they can't do to the service (R6, S6, S7)."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from configdb_sync.clock import SystemClock
from configdb_sync.errors import SettingsError
from configdb_sync.tenants import status_drivers
from configdb_sync.tenants.paths import ResourcePath
from configdb_sync.tenants.registry import Registry, open_registry
from configdb_sync.tenants.rows import ChangeInfo
from configdb_sync.tenants.status import Status
from configdb_sync.tenants.status_chain import Chain
from configdb_sync.tenants.status_drivers import DriverServices, StatusContext, load
from tests.support.clocks import ManualClock
from tests.tenants.support import serving

DOCUMENT = Path(__file__).parents[2] / "docs/tenants.md"
CHANGE = ChangeInfo("test", "here", "req", 10**15)
PLACE = ResourcePath("a", 1, "astute")
ENVIRONMENT = ResourcePath("a", 1)

HOSTILE = """
import time
from pathlib import Path

HERE = Path(__file__).parent


class Plain:
    deadline = 0.5

    def __init__(self, surroundings):
        pass

    def get_tenant_status(self, context):
        return context

    get_environment_status = get_tenant_status

    def get_data_source_status(self, context):
        time.sleep(3600)


class Leaving(Plain):
    def get_data_source_status(self, context):
        raise SystemExit(3)


class Behind(Plain):
    def get_data_source_status(self, context):
        from configdb_sync.tenants.rows import Status

        return context.told(Status.BUILD, "said by the one behind")
"""


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)


def package(folder: Path, name: str, code: str, entries: str) -> None:
    """Put a package where Python finds it, as pip would."""
    (folder / f"{name}-1.dist-info").mkdir(parents=True)
    (folder / f"{name}.py").write_text(code)
    (folder / f"{name}-1.dist-info/METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (folder / f"{name}-1.dist-info/entry_points.txt").write_text(f"[configdb_sync.status_drivers]\n{entries}\n")


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    found = Registry(open_registry(f"sqlite:///{tmp_path / 'registry.sqlite'}"))
    fill(found)
    yield found
    found.close()


def fill(registry: Registry) -> None:
    registry.put(CHANGE, "a", None)
    registry.own(CHANGE, "a", 1, {"astute": None, "plugins/x": None})


def stored(registry: Registry) -> Any:
    return registry.locate(PLACE)[1].resource  # type: ignore[union-attr]


def test_the_documents_example(tmp_path: Path) -> None:
    """What stands in the document is all that is needed."""
    (code,) = blocks("python")
    (entry,) = (block for block in blocks("toml") if "status_drivers" in block)
    folder, cables = tmp_path / "packages", tmp_path / "cabling"
    cables.mkdir()
    line = entry.splitlines()[1].replace('"', "")
    package(folder, "cabling", code.replace("/var/lib/cabling", str(cables)), line)
    state = tmp_path / "state"
    with serving(state, "--drivers", "sync,cabling", "--max-age", "0", PYTHONPATH=str(folder)) as (api, _):
        filled(state)
        assert api.get(ENVIRONMENT.url).json["status"] is None
        (cables / "1").touch()
        shown = api.get(ENVIRONMENT.url).json
        assert (shown["status"], shown["status_details"]) == ("ERROR", "cables are pulled")
        assert api.get(PLACE.url).json["status"] is None
        assert "configdb_sync_tenants_status_driver_failures_total{" not in api.get("/metrics").body.decode()


def filled(state: Path) -> None:
    found = Registry(open_registry(f"sqlite:///{state / 'configdb-sync.sqlite'}"))
    fill(found)
    found.close()


def test_neither_a_hanging_nor_a_leaving_one_stops_the_service(tmp_path: Path) -> None:
    folder, state = tmp_path / "packages", tmp_path / "state"
    package(folder, "hostile", HOSTILE, "hang = hostile:Plain\nleave = hostile:Leaving\nbehind = hostile:Behind")
    arguments = ("--drivers", "hang,leave,behind", "--max-age", "0", "--workers", "1", "--threads", "2")
    with serving(state, *arguments, PYTHONPATH=str(folder)) as (api, process):
        filled(state)
        for _ in range(3):
            shown = api.get(PLACE.url)
            assert (shown.status, shown.json["status"]) == (200, "BUILD")
        numbers = api.get("/metrics").body.decode()
        for name in ("hang", "leave"):
            assert f'configdb_sync_tenants_status_driver_failures_total{{driver="{name}"}} 1.0' in numbers
        process.terminate()
        _, log = process.communicate(timeout=60)
    for name, how in (("hang", "it took more than 0.5 s"), ("leave", "SystemExit")):
        assert re.search(rf"status driver {name} failed for tenant 'a' environments/1/resources/astute.*: {how}", log)
    assert "Traceback" not in log
    assert process.returncode == 0, "the hung thread doesn't keep the process"


class Saying:
    """A plain class, as the document describes it."""

    deadline = 0.3

    def __init__(self, say: Callable[[StatusContext], object]) -> None:
        self.say = say

    def get_tenant_status(self, context: StatusContext) -> StatusContext:
        return context

    get_environment_status = get_tenant_status

    def get_data_source_status(self, context: StatusContext) -> object:
        return self.say(context)


def raising(error: BaseException) -> Callable[[StatusContext], object]:
    def say(_context: StatusContext) -> object:
        raise error

    return say


class Unspeakable(Exception):  # noqa: N818
    def __str__(self) -> str:
        raise RuntimeError("no words")


WRONG: dict[str, tuple[Callable[[StatusContext], object], str]] = {
    "SystemExit": (raising(SystemExit(1)), "SystemExit"),
    "KeyboardInterrupt": (raising(KeyboardInterrupt()), "KeyboardInterrupt"),
    "GeneratorExit": (raising(GeneratorExit()), "GeneratorExit"),
    "StopIteration": (raising(StopIteration()), "StopIteration"),
    "RecursionError": (raising(RecursionError()), "RecursionError"),
    "an error without words": (raising(Unspeakable()), "Unspeakable"),
    "a secret": (raising(ValueError("hunter2")), "ValueError"),
    "nothing": (lambda _: None, "NoneType"),
    "a status alone": (lambda _: Status.ERROR, "Status"),
    "a tuple": (lambda _: (Status.ERROR, "x"), "tuple"),
    "a status's name": (lambda context: context.told("ERROR"), "str for a status"),  # type: ignore[arg-type]
    "details of bytes": (lambda context: context.told(None, b"x"), "bytes for details"),  # type: ignore[arg-type]
    "long details": (lambda context: context.told(None, "x" * 70_000), "70000 characters"),
    "another place": (lambda _: StatusContext(ResourcePath("b", 1, "astute"), Status.ERROR, None), "another place"),
    "another run": (lambda context: StatusContext(context.place, None, None, None, "run"), "more than status"),
}


@pytest.mark.parametrize("name", WRONG)
def test_whatever_else_it_does_is_its_failure_alone(
    registry: Registry, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    say, how = WRONG[name]
    behind = Saying(lambda context: context.told(Status.ACTIVE, "said behind"))
    chain = Chain(registry, {"odd": Saying(say), "behind": behind}, SystemClock(), 0.0)  # type: ignore[dict-item]
    with caplog.at_level(logging.WARNING):
        assert chain.refresh(PLACE)
    assert (stored(registry).status, stored(registry).details) == (Status.ACTIVE, "said behind")
    assert chain.failures == {"odd": 1}
    assert "status driver odd failed" in caplog.text
    assert how in caplog.text
    assert "hunter2" not in caplog.text


def test_hung_ones_take_no_threads_of_others(registry: Registry) -> None:
    """However often it is asked, a driver that never returns has few threads, and others go on."""
    release, clock, asked = threading.Event(), ManualClock(1000), []

    def hang(context: StatusContext) -> StatusContext:
        asked.append(context)
        release.wait(60)
        return context

    fine = Saying(lambda context: context.told(Status.ACTIVE, f"asked {len(asked)}"))
    chain = Chain(registry, {"hung": Saying(hang), "fine": fine}, clock, 0.0)  # type: ignore[dict-item]
    before = threading.active_count()
    for _ in range(8):
        chain.refresh(PLACE)
        clock.advance(31)
    assert len(asked) == 4
    assert threading.active_count() <= before + 4
    assert chain.failures == {"hung": 8}
    assert stored(registry).details == "asked 4"
    release.set()


def test_what_was_said_in_time_holds(registry: Registry) -> None:
    """Of several data sources those in front were told before it failed."""
    told: list[ResourcePath] = []

    def say(context: StatusContext) -> object:
        if told:
            raise SystemExit
        told.append(context.place)
        return context.told(Status.BUILD, "told")

    chain = Chain(registry, {"one": Saying(say)}, SystemClock(), 0.0)  # type: ignore[dict-item]
    assert chain.refresh(ENVIRONMENT)
    assert told == [PLACE]
    assert (stored(registry).status, chain.failures) == (Status.BUILD, {"one": 1})


class Late(Saying):
    deadline = 3600.0


class Lacking:
    """Without one of the methods."""

    def __init__(self, surroundings: object) -> None:
        pass

    get_tenant_status = get_environment_status = None


def leave(_surroundings: object) -> object:
    raise SystemExit(1)


@pytest.mark.parametrize(
    ("make", "how"),
    [
        (leave, "SystemExit"),
        (Lacking, "no method get_tenant_status"),
        (Late, "deadline"),
        (lambda _: threading.Event().wait(30), "it took more than 0.2 s"),
    ],
)
def test_one_that_cannot_be_used_stops_the_start(
    make: Callable[[object], object], how: str, monkeypatch: pytest.MonkeyPatch, registry: Registry
) -> None:
    class Entry:
        name = "odd"

        def load(self) -> object:
            return make

    monkeypatch.setattr(status_drivers, "entry_points", lambda group: [Entry()])
    monkeypatch.setattr(status_drivers, "_LOAD_SECONDS", 0.2)
    around = DriverServices(registry.database, lambda: None, SystemClock())  # type: ignore[arg-type, return-value]
    with pytest.raises(SettingsError, match=f"'odd' can't be loaded: .*{how}"):
        load(["odd"], around)
