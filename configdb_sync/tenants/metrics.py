"""Numbers of the service for Prometheus: requests, usage by tenant, status drivers; of all worker processes together.

Labels are bounded: so many tenants have their own, all further ones share one. A tenant has its own from its first
answered request on, so that strangers who ask for invented tenants don't use the places up.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from prometheus_client import Counter, Histogram

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
OTHER, NONE = "/other", "/none"
"""Label values that are no tenant's: an ID holds no slash. For the tenants beyond the limit, and for no tenant."""

KIND = "text/plain; version=0.0.4; charset=utf-8"
_METHODS = frozenset({"GET", "HEAD", "PUT", "POST", "DELETE"})
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
_TENANTS = "tenants"


class Meter(Protocol):
    """Counts what happens."""

    def request(
        self, endpoint: str, method: str, *, status: int, tenant: str | None, size: int, seconds: float
    ) -> None:
        """Count a request; ``size``: bytes of the answer's body."""

    def text(self, gauges: Mapping[str, tuple[str, float]]) -> bytes:
        """Return all metrics in Prometheus's text form; ``gauges`` are added, by name: what it is, and how much."""


class NoMeter:
    """Counts nothing."""

    def request(
        self, endpoint: str, method: str, *, status: int, tenant: str | None, size: int, seconds: float
    ) -> None:
        """Leave it."""

    def text(self, gauges: Mapping[str, tuple[str, float]]) -> bytes:
        """Return nothing."""
        del gauges
        return b""


@contextmanager
def folder() -> Iterator[Path]:
    """Give the folder in which the workers' numbers meet; gone with the process that made it.

    To be called before any worker is made and before prometheus_client is imported.
    """
    made, owner = Path(tempfile.mkdtemp(prefix="configdb-sync-metrics-")), os.getpid()
    os.environ[FOLDER] = str(made)
    try:
        yield made
    finally:
        # A worker, too, leaves by way of here.
        if os.getpid() == owner:
            shutil.rmtree(made, ignore_errors=True)


class Prometheus:
    """The metrics of one worker. Safe for several threads. One of a kind in a process."""

    def __init__(self, place: Path, tenants: int, failures: Callable[[], Mapping[str, int]] = dict) -> None:
        """``tenants``: how many have labels of their own; ``failures``: of status drivers, by name."""
        from prometheus_client import Counter, Histogram

        self._place = place
        self._most = tenants
        self._failures = failures
        self._told: dict[str, int] = {}
        self._lock = threading.Lock()
        self._known: set[str] = set()
        self._full = tenants == 0
        self._children: dict[tuple[str, ...], Counter] = {}

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

    def request(
        self, endpoint: str, method: str, *, status: int, tenant: str | None, size: int, seconds: float
    ) -> None:
        """Count a request."""
        named = method if method in _METHODS else "other"
        label = NONE if tenant is None else self._label(tenant, answered=status < 400)
        self._child(self._requests, endpoint, named, str(status)).inc()
        self._child(self._usage, label, f"{status // 100}xx").inc()
        self._child(self._bytes, label).inc(size)
        self._seconds[endpoint].observe(seconds)
        if (failures := self._failures()) != self._told:
            self._count_failures(failures)

    def _child(self, counter: Counter, *labels: str) -> Counter:
        # Looking a labelled counter up costs several times what counting does.
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
        with self._lock:
            self._admit(tenant)
        return tenant if tenant in self._known else OTHER

    def _admit(self, tenant: str) -> None:
        """Give a tenant a label of its own if there is one left among all workers."""
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
        """Return the metrics of all workers."""
        from prometheus_client import CollectorRegistry, generate_latest
        from prometheus_client.multiprocess import MultiProcessCollector

        registry = CollectorRegistry()
        MultiProcessCollector(registry, str(self._place))  # type: ignore[no-untyped-call]
        return generate_latest(registry) + _gauges(gauges)

    def _count_failures(self, failures: Mapping[str, int]) -> None:
        with self._lock:
            for name, count in dict(failures).items():
                self._child(self._drivers, name).inc(count - self._told.get(name, 0))
                self._told[name] = count


def _gauges(gauges: Mapping[str, tuple[str, float]]) -> bytes:
    lines = []
    for name, (text, value) in gauges.items():
        full = f"configdb_sync_tenants_{name}"
        lines += [f"# HELP {full} {text}", f"# TYPE {full} gauge", f"{full} {value:g}"]
    return "".join(f"{line}\n" for line in lines).encode("ascii")
