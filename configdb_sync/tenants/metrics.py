"""Metrics of the service for Prometheus, over all worker processes, and usage records summed for charge-back (T14).

Labels are bounded: a limited number of tenants have their own, all others share one. A tenant gets its own with its
first answered request, so that requests for invented tenants can't use them up.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
import threading
from bisect import bisect_left
from collections import Counter as Counts
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client import Counter, Histogram


FOLDER = "PROMETHEUS_MULTIPROC_DIR"
OTHER, NONE = "/other", "/none"
"""Labels for the tenants beyond the limit, and for no tenant: no tenant ID contains a slash."""

_METHODS = frozenset({"GET", "HEAD", "PUT", "POST", "DELETE"})
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
_TENANTS = "tenants"
EVERY = 0.5
"""Seconds after which a request is counted at the latest."""

_Request = tuple[str, str, int, str | None, int, float]


@dataclass
class _Sums:
    """Sums of requests by the labels of each counter; seconds by endpoint and bucket of ``_SECONDS``."""

    requests: Counts[tuple[str, ...]] = field(default_factory=Counts)
    usage: Counts[tuple[str, ...]] = field(default_factory=Counts)
    bytes: Counts[tuple[str, ...]] = field(default_factory=Counts)
    seconds: Counts[tuple[str, int]] = field(default_factory=Counts)
    sums: dict[str, float] = field(default_factory=lambda: defaultdict(float))


@contextmanager
def folder() -> Iterator[Path]:
    """Create the folder that the workers share; it is deleted with the process that created it.

    Call it before any worker starts and before prometheus_client is imported.
    """
    made, owner = Path(tempfile.mkdtemp(prefix="configdb-sync-metrics-")), os.getpid()
    os.environ[FOLDER] = str(made)
    try:
        yield made
    finally:
        # Workers end here, too.
        if os.getpid() == owner:
            shutil.rmtree(made, ignore_errors=True)


class Prometheus:
    """The metrics of one worker. Thread-safe; one per process."""

    def __init__(self, place: Path, tenants: int, failures: Callable[[], Mapping[str, int]] = dict) -> None:
        """``tenants``: how many have labels of their own; ``failures``: of status drivers, by name."""
        from prometheus_client import Counter, Histogram

        self._place = place
        self._most = tenants
        self._failures = failures
        self._reported: dict[str, int] = {}
        self._lock = threading.Lock()
        self._known: set[str] = set()
        self._full = tenants == 0
        self._children: dict[tuple[str, ...], Counter] = {}
        self._waiting: deque[_Request] = deque()
        self._stirred = threading.Event()

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"configdb_sync_tenants_{name}", text, labels, registry=None)

        self._requests = counter("requests", "Requests by endpoint, method and status", "endpoint", "method", "status")
        self._usage = counter("usage_requests", "Requests about a tenant, by class of status", "tenant", "status")
        self._bytes = counter("usage_response_bytes", "Bytes of answers about a tenant", "tenant")
        self._drivers = counter("status_driver_failures", "Status drivers that failed or hung", "driver")
        seconds = Histogram(
            "configdb_sync_tenants_request_seconds",
            "How long a request took",
            ("endpoint",),
            registry=None,
            buckets=_SECONDS,
        )
        self._seconds: dict[str, Histogram] = {name: seconds.labels(name) for name in ("admin", "public")}
        threading.Thread(target=self._run, name="metrics", daemon=True).start()

    def request(
        self, endpoint: str, method: str, *, status: int, tenant: str | None, size: int, seconds: float
    ) -> None:
        """Count a request, within ``EVERY`` seconds; ``size``: bytes of the answer's body."""
        self._waiting.append((endpoint, method, status, tenant, size, seconds))
        if not self._stirred.is_set():
            self._stirred.set()

    def _run(self) -> None:
        """Write what is pending periodically: a write goes to a file under a lock, which is slow for each request."""
        pause = threading.Event()
        while True:
            self._stirred.wait()
            pause.wait(EVERY)
            self._stirred.clear()
            self.flush()

    def flush(self) -> None:
        """Write the sums of what is pending."""
        with self._lock:
            batch, taken = _Sums(), len(self._waiting)
            for _ in range(taken):
                endpoint, method, status, tenant, size, seconds = self._waiting.popleft()
                label = NONE if tenant is None else self._label(tenant, answered=status < 400)
                batch.requests[endpoint, method if method in _METHODS else "other", str(status)] += 1
                batch.usage[label, f"{status // 100}xx"] += 1
                batch.bytes[label,] += size
                batch.seconds[endpoint, bisect_left(_SECONDS, seconds)] += 1
                batch.sums[endpoint] += seconds
            self._write(batch)

    def _write(self, batch: _Sums) -> None:
        for counter, sums in ((self._requests, batch.requests), (self._usage, batch.usage), (self._bytes, batch.bytes)):
            for labels, count in sums.items():
                self._child(counter, *labels).inc(count)
        # A histogram only takes single observations; these are its buckets.
        for (endpoint, bucket), count in batch.seconds.items():
            self._seconds[endpoint]._buckets[bucket].inc(count)  # noqa: SLF001
        for endpoint, seconds in batch.sums.items():
            self._seconds[endpoint]._sum.inc(seconds)  # noqa: SLF001
        self._count_failures(self._failures())

    def _child(self, counter: Counter, *labels: str) -> Counter:
        # Looking up a labelled counter costs several times as much as counting.
        key = (counter._name, *labels)  # noqa: SLF001
        found = self._children.get(key)
        if found is None:
            found = self._children[key] = counter.labels(*labels)
        return found

    def _label(self, tenant: str, *, answered: bool) -> str:
        if tenant in self._known:
            return tenant
        if self._full or not answered:
            return OTHER
        self._admit(tenant)
        return tenant if tenant in self._known else OTHER

    def _admit(self, tenant: str) -> None:
        """Give a tenant a label of its own if the workers together have one left."""
        with (self._place / _TENANTS).open("a+", encoding="ascii") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            known = [json.loads(line) for line in file]
            if tenant not in known and len(known) < self._most:
                file.write(json.dumps(tenant) + "\n")
                known.append(tenant)
        self._known = set(known)
        self._full = len(known) >= self._most

    def text(self, gauges: Mapping[str, tuple[str, float]]) -> bytes:
        """Return the metrics of all workers as text; ``gauges`` are added, by name: description and value."""
        from prometheus_client import CollectorRegistry, generate_latest
        from prometheus_client.multiprocess import MultiProcessCollector

        self.flush()
        registry = CollectorRegistry()
        MultiProcessCollector(registry, str(self._place))  # type: ignore[no-untyped-call]
        return generate_latest(registry) + _gauges(gauges)

    def _count_failures(self, failures: Mapping[str, int]) -> None:
        for name, count in dict(failures).items():
            if more := count - self._reported.get(name, 0):
                self._child(self._drivers, name).inc(more)
                self._reported[name] = count


def _gauges(gauges: Mapping[str, tuple[str, float]]) -> bytes:
    lines = []
    for name, (text, value) in gauges.items():
        full = f"configdb_sync_tenants_{name}"
        lines += [f"# HELP {full} {text}", f"# TYPE {full} gauge", f"{full} {value:g}"]
    return "".join(f"{line}\n" for line in lines).encode("ascii")


_READING = frozenset({"GET", "HEAD"})


@dataclass
class Sum:
    """What one tenant used. ``refused``: answers of 4xx and 5xx among the requests; ``bytes``: of answers."""

    requests: int = 0
    changes: int = 0
    refused: int = 0
    bytes: int = 0
    seconds: float = 0.0

    def add(self, record: dict[str, object]) -> None:
        """Count a record. Raises ``KeyError``, ``TypeError``, ``ValueError`` for an invalid one."""
        status, size, seconds = int(str(record["status"])), int(str(record["bytes"])), float(str(record["seconds"]))
        self.requests += 1
        self.changes += record["method"] not in _READING
        self.refused += status >= 400
        self.bytes += size
        self.seconds += seconds

    def json(self) -> dict[str, int | float]:
        """Return the JSON form."""
        return {
            "requests": self.requests,
            "changes": self.changes,
            "refused": self.refused,
            "bytes": self.bytes,
            "seconds": round(self.seconds, 6),
        }


@dataclass
class Usage:
    """Sums by tenant; None: requests that name no tenant. ``unreadable``: lines that aren't records."""

    tenants: dict[str | None, Sum] = field(default_factory=dict)
    unreadable: int = 0

    def add(self, lines: Iterable[bytes], since: str | None = None, until: str | None = None) -> None:
        """Count the records of ``since <= time < until`` (ISO 8601 in UTC, or a prefix of it)."""
        for line in lines:
            try:
                record = json.loads(line)
                time, tenant = record["time"], record["tenant"]
                if not (isinstance(time, str) and (tenant is None or isinstance(tenant, str))):
                    raise TypeError
                if (since is not None and time < since) or (until is not None and time >= until):
                    continue
                found = Sum()
                found.add(record)
            except (ValueError, KeyError, TypeError, RecursionError):
                self.unreadable += 1
                continue
            self.tenants.setdefault(tenant, Sum()).add(record)

    def ordered(self) -> list[tuple[str | None, Sum]]:
        """Return tenants and sums, most requests first."""
        return sorted(self.tenants.items(), key=lambda item: (-item[1].requests, item[0] is None, item[0] or ""))
