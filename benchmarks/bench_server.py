"""The embedded server against PyPI's tuning-box 0.1.0: the same PostgreSQL, two workers each, four connections."""

from __future__ import annotations

import contextlib
import json
import operator
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import requests

from benchmarks.load import Shape, rates
from benchmarks.measure import Measure, run
from tests.peers import postgresql, tuning_box
from tests.support.ports import free_port

NODES = 10
MANY = 1000
MEMORY = "memory"
SIZES = {"small": 5_000, "big": 220_000}
SERVE = [sys.executable, "-c", "from configdb_sync.cli.serve import configdb; configdb()", "serve"]
LAUNCHER = """
import sys
from tuning_box import app as box, db
app = box.build_app()
app.config["SQLALCHEMY_DATABASE_URI"] = {url!r}
app.config["PROPAGATE_EXCEPTIONS"] = False
if "create" in sys.argv:
    with app.app_context():
        db.db.create_all()
"""


def document(size: int) -> dict[str, Any]:
    """Return settings of about ``size`` bytes as JSON, like a node's ``astute.yaml``: a block for each node of the
    environment, passwords, identities. It compresses as real ones do.
    """
    draw = random.Random(size)
    nodes: dict[str, Any] = {}
    whole: dict[str, Any] = {"network_metadata": {"nodes": nodes}, "changing": "#########"}
    while len(json.dumps(whole)) < size:
        uid = str(len(nodes) + 1)
        nodes[f"node-{uid}"] = {
            "fqdn": f"node-{uid}.domain.tld",
            "uid": uid,
            "network_roles": {f"role/{role}": f"192.168.{role}.{draw.randrange(250)}" for role in range(24)},
            "user_node_name": f"Untitled ({draw.randbytes(2).hex()})",
            "node_roles": ["controller", "ceph-osd"],
            "swap": None,
        }
        service = {"db_password": draw.randbytes(12).hex(), "debug": False, "workers": 8, "ratio": 0.75}
        whole[f"service_{uid}"] = service
    return whole


def text(size: int) -> bytes:
    """Return that as compact JSON, as the product's own client sends it."""
    return json.dumps(document(size), separators=(",", ":")).encode()


class Peer:
    """A running server with environments 1 (``NODES`` nodes) and 2 (``MANY``, if filled)."""

    def __init__(self, port: int, headers: dict[str, str]) -> None:
        self.port = port
        self._session = requests.Session()
        self._session.headers.update(headers)
        self.headers = "".join(f"{name}: {value}\r\n" for name, value in headers.items())

    def prepare(self) -> None:
        """Make the component, the environments and ``NODES`` documents of each size."""
        sources = [{"name": "small", "content": {}}, {"name": "big", "content": {}}]
        made = self._post("/components", {"name": "bench", "resource_definitions": sources})
        self.ids = {item["name"]: item["id"] for item in made["resource_definitions"]}
        for number in (1, 2):
            self._post("/environments", {"id": number, "components": ["bench"], "hierarchy_levels": ["nodes"]})
        for name, size in SIZES.items():
            self.fill(1, NODES, name, size)

    def fill(self, environment: int, count: int, name: str, size: int) -> None:
        """Put one document at each of so many nodes."""
        body = text(size)
        for path in self.paths(environment, count, name):
            answer = self._session.put(
                self._url(path), data=body, headers={"Content-Type": "application/json"}, timeout=60
            )
            answer.raise_for_status()

    def paths(self, environment: int, count: int, name: str) -> list[str]:
        """Return the documents' paths, by definition id, which no server redirects."""
        return [f"/environments/{environment}/nodes/{node}/resources/{self.ids[name]}/values" for node in range(count)]

    def put(self, name: str, size: int) -> Shape:
        """Return requests that change documents of environment 1."""
        return Shape("PUT", self.paths(1, NODES, name), text(size), self.headers)

    def get(self, name: str, environment: int = 1, count: int = NODES) -> Shape:
        """Return requests for effective data."""
        return Shape("GET", [f"{path}?effective" for path in self.paths(environment, count, name)], b"", self.headers)

    def _post(self, path: str, body: Any) -> Any:
        answer = self._session.post(self._url(path), json=body, timeout=60)
        answer.raise_for_status()
        return answer.json()

    @property
    def url(self) -> str:
        """The server's address."""
        return f"http://127.0.0.1:{self.port}"

    def _url(self, path: str) -> str:
        return f"{self.url}{path}"


@contextlib.contextmanager
def ours(url: str, folder: Path) -> Iterator[Peer]:
    """Run ``configdb serve`` with a token."""
    token = folder / "token"
    token.touch(0o600)
    token.write_text("a-token-for-the-benchmark")
    command = [
        *SERVE,
        "--listen",
        "127.0.0.1:0",
        "--configdb-database",
        url,
        "--token-file",
        str(token),
        "--workers",
        "2",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline().rpartition(":")[2])
        yield Peer(port, {"X-Auth-Token": token.read_text()})
    finally:
        process.terminate()
        process.wait(20)


@contextlib.contextmanager
def theirs(url: str, folder: Path) -> Iterator[Peer]:
    """Run tuning-box 0.1.0 under gunicorn with two workers."""
    python = tuning_box.python()
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    if subprocess.run([python, "-c", "import gunicorn"], check=False, capture_output=True, env=environ).returncode:
        command = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "gunicorn"]
        subprocess.run(command, check=True, timeout=120, env=environ)
    (folder / "launcher.py").write_text(LAUNCHER.format(url=url))
    subprocess.run([python, "-W", "ignore", "launcher.py", "create"], check=True, cwd=folder, env=environ, timeout=60)
    port = free_port()
    options = ["-w", "2", "-b", f"127.0.0.1:{port}", "--log-level", "error", "--no-control-socket"]
    server: list[str | Path] = [python, "-W", "ignore", "-m", "gunicorn", *options, "launcher:app"]
    process = subprocess.Popen(server, cwd=folder, env=environ)
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and process.poll() is None:
            with contextlib.suppress(requests.RequestException):
                if requests.get(f"http://127.0.0.1:{port}/components", timeout=5).ok:
                    break
            time.sleep(0.1)
        yield Peer(port, {})
    finally:
        process.terminate()
        process.wait(20)


def compare(one: tuple[Peer, Shape], other: tuple[Peer, Shape], *, full: bool) -> tuple[float, float, float]:
    """Return the medians of two rates, and of the second's part of the first.

    They take turns in slices that are short beside what else the machine does; each part is of two that are neighbours.
    """
    seconds, rounds = (1.0, 20) if full else (0.5, 6)
    a, b = rates([(peer.port, shape) for peer, shape in (one, other)], seconds, rounds)
    return statistics.median(a), statistics.median(b), statistics.median(map(operator.truediv, b, a))


def waits(below: str) -> float:
    """Return how long the disk of a folder takes to write something down, in seconds: every commit waits for that."""
    with tempfile.NamedTemporaryFile(dir=below) as file:
        times = []
        for _ in range(30):
            began = time.perf_counter()
            file.write(b"x" * 8192)
            file.flush()
            os.fsync(file.fileno())
            times.append(time.perf_counter() - began)
    return statistics.median(times)


def against(below: str, where: str, full: bool) -> Iterator[Measure]:
    """Yield the comparison on a PostgreSQL below a folder.

    Each PUT waits for the disk, more the more others use it, and the two servers wait differently: the ratio goes with
    the disk. In memory it is that of the work itself.
    """
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        cluster = stack.enter_context(postgresql.running(durable=True, below=below))
        mine = stack.enter_context(ours(cluster.create("ours"), folder))
        box = stack.enter_context(theirs(cluster.create("theirs"), folder))
        mine.prepare()
        box.prepare()
        for name, size in SIZES.items():
            for title, one, other in (
                ("PUT changed", mine.put(name, size), box.put(name, size)),
                ("GET effective", mine.get(name), box.get(name)),
            ):
                a, b, part = compare((mine, one), (box, other), full=full)
                note = f"{a:.0f} to {b:.0f} requests a second: {1 / part:.1f} times as many"
                note += f"; fsync {waits(below) * 1000:.1f} ms"
                yield Measure(f"{title} {size // 1000} KB ({where}), of tuning-box 0.1.0's time", part, "", 1 / 3, note)
        if where == MEMORY:
            return
        mine.fill(2, MANY, "small", 5_000)
        few, many, _ = compare((mine, mine.get("small")), (mine, mine.get("small", 2, MANY)), full=full)
        note = f"{few:.0f} and {many:.0f} requests a second"
        yield Measure(f"GET effective with {MANY} nodes stored, to {NODES}", few / many, "times", 1.3, note)


def measure(full: bool) -> Iterable[Measure]:
    """Yield the times of changed PUTs and GETs of effective data as parts of tuning-box's, and how they grow."""
    missing = postgresql.unavailable() or tuning_box.unavailable()
    if missing:
        yield Measure("not measured", 0, "", note=missing)
        return
    yield from against("/tmp", "disk", full)
    if os.access("/dev/shm", os.W_OK):
        yield from against("/dev/shm", MEMORY, full)


if __name__ == "__main__":
    run(measure)
