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
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import requests
import sqlalchemy as sa

from benchmarks.load import Shape, rates
from benchmarks.measure import Measure, run
from configdb_sync.clock import SystemClock
from configdb_sync.tenants import schema
from configdb_sync.tenants.access import OpenAccess
from configdb_sync.tenants.app import Application
from configdb_sync.tenants.context import Context
from configdb_sync.tenants.opening import open_registry
from configdb_sync.tenants.paths import Place
from configdb_sync.tenants.registry import Registry
from configdb_sync.tenants.rows import Change
from tests.peers import keystone, postgresql

TENANTS = 100
TIMES = itertools.count(1)
HELLO = """
from configdb_sync.serving import Gunicorn, Listen, Transport
BODY = b"x" * 600
def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", "600")])
    return (BODY,)
def ready(ports):
    print(f"listens on http://127.0.0.1:{ports[0]}", flush=True)
Gunicorn("hello", [Listen("127.0.0.1", 0)], Transport(), lambda _: (None, app), ready=ready).run()
"""
SERVE = (sys.executable, "-m", "configdb_sync", "tenants", "serve", "--admin", "127.0.0.1:0")

WITHIN = ("--max-age", "600")
"""The status drivers are asked before anything counts: the limit is that of GETs within ``max_age``."""


def change() -> Change:
    """Return a change at a time of its own."""
    return Change("bench", "here", "req-bench", next(TIMES))


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
            (mine, Shape("GET", [Place(f"tenant {number}").url for number in range(TENANTS)], headers=header)),
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
    yield Measure(f"hello-world's rate to that of GET tenant ({what})", 1 / ratio, "times", 1 / 0.6, note)
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
        self.application = Application(Context(self.registry), OpenAccess(), SystemClock())

    def ask(self, method: str, target: str) -> None:
        """Make a request; raise RuntimeError unless it is answered with less than 400."""
        environ: Any = {"REQUEST_METHOD": method, "RAW_URI": target, "wsgi.input": io.BytesIO(), "CONTENT_LENGTH": "0"}
        status: list[str] = []
        b"".join(self.application(environ, lambda line, _: status.append(line)))  # type: ignore[arg-type]
        if status[0] >= "4":
            raise RuntimeError(f"{method} {target}: {status[0]}")


def timed(ask: Callable[[int], None], count: int) -> tuple[float, float]:
    """Return the median and the 99th percentile of so many calls, in seconds, warm."""
    for number in range(max(10, count // 10)):
        ask(number)
    times = []
    for number in range(count):
        began = time.perf_counter()
        ask(number)
        times.append(time.perf_counter() - began)
    times.sort()
    return statistics.median(times), times[int(len(times) * 0.99)]


def fill(registry: Registry, count: int) -> None:
    """Put so many tenants into the registry at once; IDs of 60 characters."""
    for start in range(0, count, 50_000):
        rows = [
            {"id": name(number), "created": 1, "updated": 1, "metadata": '{"project_id": "' + "x" * 32 + '"}'}
            for number in range(start, min(start + 50_000, count))
        ]
        registry.database.write(lambda connection, rows=rows: connection.execute(sa.insert(schema.tenants), rows))  # type: ignore[misc]


def name(number: int) -> str:
    """Return a tenant's ID; neighbours in number are none in order."""
    return f"{number * 2654435761 % 2**32:010d}-{number:09d}".ljust(60, "t")


def scaled(url_of: Callable[[str], str], many: int, what: str) -> Iterator[Measure]:
    """Yield what each call costs with many tenants, compared with a thousand; the two measured in turn."""
    few = 1000
    small, large = InProcess(url_of(f"few_{what}")), InProcess(url_of(f"many_{what}"))
    fill(small.registry, few)
    fill(large.registry, many)
    os.sync()  # else the first changes wait for what was filled in
    rounds = 5
    fresh = itertools.count()
    calls: dict[str, tuple[Callable[[InProcess, int, int], None], int]] = {
        "GET": (lambda one, number, size: one.ask("GET", f"/v1.0/{name(number * 7919 % size)}"), 1000),
        "PUT": (lambda one, _number, _size: one.ask("PUT", f"/v1.0/new-{next(fresh)}"), 300),
        "page": (lambda one, number, size: one.ask("GET", f"/v1.0?marker={name(number * 7919 % size)}"), 200),
        "move action": (
            lambda one, number, size: one.ask(
                "GET", Place(name(number * 7919 % size)).move_url(name((number * 7919 + 1) % size))
            ),
            500,
        ),
    }
    for title, (ask, count) in calls.items():
        found: dict[int, list[tuple[float, float]]] = {few: [], many: []}
        for _ in range(rounds):
            for one, size in ((small, few), (large, many)):
                found[size].append(timed(partial(_asked, ask, one, size), count))
        # The best round of each: what other work on the machine costs is in none of them.
        medians = [min(pair[0] for pair in found[size]) for size in (few, many)]
        tails = [min(pair[1] for pair in found[size]) for size in (few, many)]
        named = f"{title} with {many} tenants to {few}"
        note = f"{medians[0] * 1e6:.0f} and {medians[1] * 1e6:.0f} us"
        yield Measure(f"{named}, median ({what})", medians[1] / medians[0], "times", 1.3, note)
        note = f"{tails[0] * 1e6:.0f} and {tails[1] * 1e6:.0f} us"
        yield Measure(f"{named}, 99 % ({what})", tails[1] / tails[0], "times", 3, note)
    small.registry.close()
    large.registry.close()


def _asked(ask: Callable[[InProcess, int, int], None], one: InProcess, size: int, number: int) -> None:
    ask(one, number, size)


def moved(url: str, what: str) -> Iterator[Measure]:
    """Yield what moving all of a tenant costs with 10,000 data sources, compared with 10; and its move action."""
    one = InProcess(url)
    for size in (10, 10_000):
        for side in ("a", "b"):
            one.registry.put(change(), f"{side} {size}", None)
        one.registry.own(change(), f"a {size}", size, {f"source {number}": None for number in range(size)})
    moves: dict[int, list[float]] = {10: [], 10_000: []}
    merges: dict[int, list[float]] = {10: [], 10_000: []}
    for _ in range(5):
        for size, times in moves.items():
            for source, destination in (("a", "b"), ("b", "a")):
                began = time.perf_counter()
                one.registry.move(change(), Place(f"{source} {size}"), f"{destination} {size}")
                times.append(time.perf_counter() - began)
    # Now both have the environment: the data sources are put into the destination's.
    for size, times in merges.items():
        one.registry.own(change(), f"b {size}", size, {"another": None})
        began = time.perf_counter()
        one.registry.move(change(), Place(f"a {size}"), f"b {size}")
        times.append(time.perf_counter() - began)
    for title, found in (("move", moves), ("move into an environment that the destination has", merges)):
        few, many = (statistics.median(found[size]) for size in (10, 10_000))
        note = f"{few * 1000:.2f} and {many * 1000:.2f} ms"
        yield Measure(f"{title}: 10,000 data sources to 10 ({what})", many / few, "times", 20, note)
    actions = {}
    for size in (10, 10_000):
        target = Place(f"b {size}").move_url(f"a {size}")
        actions[size], _ = timed(lambda _, target=target: one.ask("GET", target), 200)  # type: ignore[misc]
    note = f"{actions[10] * 1e6:.0f} and {actions[10_000] * 1e6:.0f} us"
    yield Measure(f"move action, tagged: 10,000 to 10 ({what})", actions[10_000] / actions[10], "times", 3, note)
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
