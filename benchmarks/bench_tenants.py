"""The tenant admin API: against hello-world under the same server, against Keystone, and with many tenants."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import re
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import requests
import sqlalchemy as sa

from benchmarks.load import Shape, rates
from benchmarks.measure import Measure, run
from configdb_sync.clock import SystemClock
from configdb_sync.store import tenant_schema
from configdb_sync.tenants.app import TenantsApplication
from configdb_sync.tenants.paths import ResourcePath
from configdb_sync.tenants.policy import Policy
from configdb_sync.tenants.registry import Registry, open_registry
from configdb_sync.tenants.requests import Context
from configdb_sync.tenants.rows import ChangeInfo
from configdb_sync.web.access import OpenAccess
from tests.peers import keystone, postgresql

TENANTS = 100
TIMES = itertools.count(1)
HELLO = """
from configdb_sync.web.service import Gunicorn, Listen, GunicornOptions
BODY = b"x" * 600
def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", "600")])
    return (BODY,)
def ready(ports):
    print(f"listens on http://127.0.0.1:{ports[0]}", flush=True)
Gunicorn("hello", [Listen("127.0.0.1", 0)], GunicornOptions(), lambda _: (None, app), ready=ready).run()
"""
SERVE = (sys.executable, "-m", "configdb_sync", "tenants", "serve", "--admin", "127.0.0.1:0")

WITHIN = ("--max-age", "600")
"""The status drivers are asked before anything counts: the limit is that of GETs within ``max_age``."""


def change() -> ChangeInfo:
    """Return a change at a time of its own."""
    return ChangeInfo("bench", "here", "req-bench", next(TIMES))


@contextlib.contextmanager
def listening(command: Iterable[str], environ: dict[str, str] | None = None) -> Iterator[tuple[int, int]]:
    """Run a server that says where it listens; give its port and its process."""
    with subprocess.Popen(tuple(command), stdout=subprocess.PIPE, text=True, env=environ) as server:
        try:
            assert server.stdout is not None
            found = re.search(r"listens on http://127\.0\.0\.1:(\d+)", server.stdout.readline())
            assert found is not None, "the server didn't say where it listens"
            yield int(found[1]), server.pid
        finally:
            server.terminate()
            server.wait(30)


def served(folder: Path, url: str, what: str, full: bool) -> Iterator[Measure]:
    """Yield the rates of GETs of a tenant with Keystone's tokens as parts of hello-world's and of Keystone's own.

    All under the same server with two workers and in turn, in slices that are short beside whatever else the machine
    does: five runs of ten, of which the median counts.
    """
    registry = Registry(open_registry(url))
    for number in range(TENANTS):
        registry.put(change(), f"tenant {number}", None)
    registry.close()
    state = folder / f"served-{what}"
    state.mkdir(mode=0o700)
    runs, slices, seconds = (5, 10, 0.4) if full else (3, 5, 0.3)
    with contextlib.ExitStack() as stack:
        (folder / f"keystone-{what}").mkdir()
        server = str(Path(__file__).with_name("keystone_server.py"))
        os.environ["CONFIGDB_SYNC_PACKAGES"] = sysconfig.get_path("purelib")
        theirs = stack.enter_context(keystone.running(folder / f"keystone-{what}", server))
        command = (*SERVE, "--state", str(state), "--database", url, "--auth", "keystone", *WITHIN)
        hello, hello_pid = stack.enter_context(listening((sys.executable, "-c", HELLO)))
        mine, pid = stack.enter_context(listening(command, {**os.environ, **theirs.environ}))
        token = theirs.token()
        header = f"X-Auth-Token: {token}\r\n"
        headers = {"X-Auth-Token": token}
        project = requests.get(f"{theirs.url}/projects", headers=headers, timeout=30).json()["projects"][0]["id"]
        port = int(theirs.url.split(":")[2].split("/")[0])
        targets = [
            (hello, Shape("GET", ["/"])),
            (mine, Shape("GET", [ResourcePath(f"tenant {number}").url for number in range(TENANTS)], headers=header)),
            (port, Shape("GET", [f"/v3/projects/{project}"], headers=header)),
        ]
        warm(targets)
        before = [used(one) for one in (hello_pid, pid)]
        found = [[statistics.fmean(part) for part in rates(targets, seconds, slices)] for _ in range(runs)]
        spent = [used(one) - was for one, was in zip((hello_pid, pid), before, strict=True)]
    cpu = [1000 * used_ / (seconds * slices * sum(run_[which] for run_ in found)) for which, used_ in enumerate(spent)]
    medians = [statistics.median(run_[which] for run_ in found) for which in range(3)]
    note = f"{medians[1]:.0f} to {medians[0]:.0f} requests a second; CPU {cpu[1]:.2f} and {cpu[0]:.2f} ms each"
    ratio = statistics.median(run_[1] / run_[0] for run_ in found)
    limit = 1 / 0.6 if what == "sqlite" else None  # PostgreSQL's own work is on the same processors: beside it
    yield Measure(f"hello-world's rate to that of GET tenant ({what})", 1 / ratio, "times", limit, note)
    note = f"{medians[2]:.0f} requests a second; Keystone: gunicorn, 2 workers, fernet, cache oslo_cache.dict, SQLite"
    ratio = statistics.median(run_[1] / run_[2] for run_ in found)
    yield Measure(f"Keystone's rate of GET project to that ({what})", 1 / ratio, "times", 1 / 6, note)


def warm(targets: list[tuple[int, Shape]]) -> None:
    """Let each worker and thread see requests before any counts; a Keystone just started may refuse the first."""
    for left in reversed(range(5)):
        try:
            rates(targets, 1.0, 1)
            return
        except RuntimeError:
            if not left:
                raise


def used(pid: int) -> float:
    """Return the seconds of CPU that a process and its children have used."""
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            if pid in {int(path.parent.name), int(fields[1])}:
                ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


class InProcess:
    """The application called without a server."""

    def __init__(self, url: str) -> None:
        self.registry = Registry(open_registry(url, connections=2))
        clock = SystemClock()
        self.application = TenantsApplication(Context(self.registry), OpenAccess(), clock, Policy(clock))

    def ask(self, method: str, target: str) -> None:
        """Make a request; raise RuntimeError unless it is answered with less than 400."""
        environ: Any = {"REQUEST_METHOD": method, "RAW_URI": target, "wsgi.input": io.BytesIO(), "CONTENT_LENGTH": "0"}
        status: list[str] = []
        b"".join(self.application(environ, lambda line, _: status.append(line)))  # type: ignore[arg-type]
        if status[0] >= "4":
            raise RuntimeError(f"{method} {target}: {status[0]}")


def timed(asks: Sequence[Callable[[int], None]], count: int, rounds: int = 5) -> list[tuple[float, float]]:
    """Return for each call the median and the 99th percentile in seconds, warm.

    The calls take turns, one each, with a number that comes once, so that other work on the machine hits all alike.
    What it adds to the few slowest calls is in no limit's sense: of the percentiles the best round's counts.
    """
    numbers = itertools.count()
    for number in itertools.islice(numbers, max(20, count // 5)):
        for ask in asks:
            ask(number)
    times: list[list[list[float]]] = [[] for _ in asks]
    for _ in range(rounds):
        for part in times:
            part.append([])
        for number in itertools.islice(numbers, count):
            for ask, part in zip(asks, times, strict=True):
                began = time.perf_counter()
                ask(number)
                part[-1].append(time.perf_counter() - began)
    tails = [min(sorted(one)[int(len(one) * 0.99)] for one in part) for part in times]
    medians = [statistics.median(itertools.chain.from_iterable(part)) for part in times]
    return list(zip(medians, tails, strict=True))


def fill(registry: Registry, count: int) -> None:
    """Put so many tenants into the registry at once; IDs of 60 characters."""
    statement = sa.insert(tenant_schema.TENANTS)
    for start in range(0, count, 50_000):
        rows = [
            {"id": name(number), "created": 1, "updated": 1, "metadata": '{"project_id": "' + "x" * 32 + '"}'}
            for number in range(start, min(start + 50_000, count))
        ]
        registry.database.write(lambda connection, rows=rows: connection.execute(statement, rows))  # type: ignore[misc]


def name(number: int) -> str:
    """Return a tenant's ID; neighbours in number are none in order."""
    return f"{number * 2654435761 % 2**32:010d}-{number:09d}".ljust(60, "t")


def any_of(number: int, size: int) -> str:
    """Return a tenant of so many, each in turn and none near the one before."""
    return name(number * 7919 % size)


def scaled(url_of: Callable[[str], str], many: int, what: str) -> Iterator[Measure]:
    """Yield what each call costs with many tenants, compared with a thousand; the two measured in turn."""
    few = 1000
    sizes = {few: InProcess(url_of(f"few_{what}")), many: InProcess(url_of(f"many_{what}"))}
    for size, one in sizes.items():
        fill(one.registry, size)
    os.sync()  # else the first changes wait for what was filled in
    fresh = itertools.count()

    def move_action(one: InProcess, number: int, size: int) -> None:
        one.ask("GET", ResourcePath(any_of(number, size)).move_url(any_of(number + 1, size)))

    calls: dict[str, tuple[Callable[[InProcess, int, int], None], int]] = {
        "GET": (lambda one, number, size: one.ask("GET", f"/v1.0/{any_of(number, size)}"), 1000),
        "PUT": (lambda one, _number, _size: one.ask("PUT", f"/v1.0/new-{next(fresh)}"), 300),
        "page": (lambda one, number, size: one.ask("GET", f"/v1.0?marker={any_of(number, size)}"), 200),
        "move action": (move_action, 500),
    }
    for title, (ask, count) in calls.items():
        asks = [partial(_asked, ask, one, size) for size, one in sizes.items()]
        (median, tail), (many_median, many_tail) = timed(asks, count)
        named = f"{title} with {many} tenants to {few}"
        note = f"{median * 1e6:.0f} and {many_median * 1e6:.0f} us"
        yield Measure(f"{named}, median ({what})", many_median / median, "times", 1.3, note)
        note = f"{tail * 1e6:.0f} and {many_tail * 1e6:.0f} us"
        yield Measure(f"{named}, 99 % ({what})", many_tail / tail, "times", 3, note)
    for one in sizes.values():
        one.registry.close()


def _asked(ask: Callable[[InProcess, int, int], None], one: InProcess, size: int, number: int) -> None:
    ask(one, number, size)


def moved(url: str, what: str) -> Iterator[Measure]:
    """Yield what moving all of a tenant costs with 10,000 data sources, compared with 10; and its move action."""
    one = InProcess(url)
    sizes = (10, 10_000)
    moves: dict[int, list[float]] = {size: [] for size in sizes}
    merges: dict[int, list[float]] = {size: [] for size in sizes}

    def move(times: list[float], source: str, destination: str) -> None:
        began = time.perf_counter()
        one.registry.move(change(), ResourcePath(source), destination)
        times.append(time.perf_counter() - began)

    for turn, size in itertools.product(range(5), sizes):
        a, b = f"a {size} {turn}", f"b {size} {turn}"
        for tenant in (a, b):
            one.registry.put(change(), tenant, None)
        environment = size + turn
        one.registry.own(change(), a, environment, {f"source {number}": None for number in range(size)})
        for source, destination in ((a, b), (b, a)):
            move(moves[size], source, destination)
        # Now both have the environment: the data sources are put into the destination's.
        one.registry.own(change(), b, environment, {"another": None})
        move(merges[size], a, b)
    for title, found in (("move", moves), ("move into an environment that the destination has", merges)):
        small, large = (statistics.median(found[size]) for size in sizes)
        note = f"{small * 1000:.2f} and {large * 1000:.2f} ms"
        yield Measure(f"{title}: 10,000 data sources to 10 ({what})", large / small, "times", 20, note)
    targets = [ResourcePath(f"b {size} 0").move_url(f"a {size} 0") for size in sizes]
    (small, _), (large, _) = timed([lambda _, target=target: one.ask("GET", target) for target in targets], 200)  # type: ignore[misc]
    note = f"{small * 1e6:.0f} and {large * 1e6:.0f} us"
    yield Measure(f"move action, tagged: 10,000 to 10 ({what})", large / small, "times", 3, note)
    one.registry.close()


def measure(full: bool) -> Iterable[Measure]:
    """Yield all of it: SQLite, and PostgreSQL beside it."""
    many = 1_000_000 if full else 50_000
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))

        def sqlite(title: str) -> str:
            return f"sqlite:///{folder / title}.sqlite"

        yield from served(folder, sqlite("served"), "sqlite", full)
        yield from scaled(sqlite, many, "sqlite")
        yield from moved(sqlite("moved"), "sqlite")
        missing = postgresql.unavailable()
        if missing:
            yield Measure("PostgreSQL not measured", 0, "", note=missing)
            return
        cluster = stack.enter_context(postgresql.running(durable=True))
        yield from served(folder, cluster.create("served"), "postgresql", full)
        yield from scaled(cluster.create, many, "postgresql")
        yield from moved(cluster.create("moved"), "postgresql")


if __name__ == "__main__":
    os.environ.pop("CONFIGDB_SYNC_FAILPOINT", None)
    run(measure)
