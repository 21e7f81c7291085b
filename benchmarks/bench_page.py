"""The status page: an environment of 1000 nodes and 10 data sources beside one of 10 nodes."""

from __future__ import annotations

import http.client
import io
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.bench_tenants import SERVE, listening
from benchmarks.measure import Measure, run
from configdb_sync.clock import SystemClock
from configdb_sync.masking import Masker
from configdb_sync.state import StateFolder
from configdb_sync.status_page.api import StatusApi
from configdb_sync.status_page.pages import Pages
from configdb_sync.status_page.queries import History
from configdb_sync.store.runs import PastRuns
from configdb_sync.store.versions import VersionStore
from configdb_sync.tenants.app import TenantsApplication
from configdb_sync.tenants.policy import Policy
from configdb_sync.tenants.registry import Registry, open_registry
from configdb_sync.tenants.requests import Context
from configdb_sync.web.access import OpenAccess
from tests.peers import browser
from tests.status_page.filled_environment import fill

FEW, MANY = 10, 1000


def page(number: int) -> str:
    """Return the address of the environment with so many nodes."""
    return f"/status/environments/{number}"


def compared(ask: Callable[[int], None], rounds: int) -> tuple[float, float]:
    """Return the median seconds of the small page and of the large one, asked for in turn."""
    times: dict[int, list[float]] = {FEW: [], MANY: []}
    for turn in range(rounds + 2):
        for number, found in times.items():
            began = time.perf_counter()
            ask(number)
            if turn >= 2:
                found.append(time.perf_counter() - began)
    return statistics.median(times[FEW]), statistics.median(times[MANY])


def served(port: int, token: str, rounds: int) -> Measure:
    """Return how much longer the running service takes for the large page."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    sizes: dict[int, int] = {}

    def ask(number: int) -> None:
        connection.request("GET", page(number), headers={"X-Auth-Token": token})
        answer = connection.getresponse()
        sizes[number] = len(answer.read())
        if answer.status != 200:
            raise RuntimeError(f"{page(number)}: {answer.status}")

    few, many = compared(ask, rounds)
    note = f"{few * 1000:.1f} and {many * 1000:.1f} ms; {sizes[FEW] / 1000:.0f} and {sizes[MANY] / 1000:.0f} kB"
    return Measure(f"page of {MANY} nodes to one of {FEW}", many / few, "times", 10, note)


def anew(state: Path, rounds: int) -> Measure:
    """Return the same where nothing was worked out before: as after each run."""
    url = StateFolder(state).database_url
    registry = Registry(open_registry(url, connections=2))

    def ask(number: int) -> None:
        clock = SystemClock()
        versions = VersionStore(lambda: registry.database, 1, clock)
        context = Context(registry)
        history = History(registry.database, PastRuns(registry.database, clock), versions, Masker(b"k" * 32), LEVELS)
        pages = Pages(StatusApi(context, history), OpenAccess(), None, clock)
        application = TenantsApplication(context, OpenAccess(), clock, Policy(clock), pages=pages)
        environ: Any = {"REQUEST_METHOD": "GET", "RAW_URI": page(number), "HTTP_HOST": "localhost"}
        status: list[str] = []
        b"".join(application({**environ, "wsgi.input": io.BytesIO()}, lambda line, _: status.append(line)))  # type: ignore[arg-type]
        if status[0] != "200 OK":
            raise RuntimeError(f"{page(number)}: {status[0]}")

    few, many = compared(ask, rounds)
    registry.close()
    note = f"{few * 1000:.1f} and {many * 1000:.1f} ms in process"
    return Measure("the same, the first time after a run", many / few, "times", None, note)


LEVELS = (("nodes", "%{uid}"),)


def painted(port: int, token: str, folder: Path) -> Iterator[Measure]:
    """Yield when a browser first shows something of each page."""
    missing = browser.unavailable()
    if missing:
        yield Measure("first paint not measured", 0, "", note=missing)
        return
    with browser.running(folder) as driver:
        base = f"http://127.0.0.1:{port}"
        driver.get(f"{base}/status")
        field = driver.find_element("name", "token")
        field.send_keys(token)
        field.submit()
        for number in (FEW, MANY):
            times = []
            for _ in range(5):
                driver.get(base + page(number))
                times.append(driver.execute_async_script(_PAINT))
            note = "median of 5; should be at most 1000"
            yield Measure(f"first paint of {number} nodes in Chromium", statistics.median(times), "ms", None, note)


_PAINT = """
const done = arguments[0];
new PerformanceObserver((list) => done(list.getEntries()[0].startTime)).observe({type: "paint", buffered: true});
"""


def measure(full: bool) -> Iterable[Measure]:
    """Yield all of it."""
    rounds = 60 if full else 15
    with tempfile.TemporaryDirectory() as top:
        state = Path(top) / "state"
        for number in (FEW, MANY):
            fill(state, number, number)
        with listening((*SERVE, "--admin-rate", "0", "--state", str(state))) as (port, _):
            token = (state / "tenants.token").read_text().strip()
            yield served(port, token, rounds)
            yield from painted(port, token, Path(top) / "profile")
        yield anew(state, rounds)


if __name__ == "__main__":
    run(measure)
