"""A Puppet run's lookups on one node: through ConfigDB against the YAML files, by the same Hiera 3 in one Ruby process.

What the served ConfigDB was asked is counted where it goes through. Times are of the processor, so that the load of
others doesn't count.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import yaml

from benchmarks.measure import Measure, run
from benchmarks.serving import COMMAND, serving
from benchmarks.trees import write_environment

ROOT = Path(__file__).resolve().parents[1]
LIBRARY = ROOT / "deployment_scripts/puppet/configdb/lib"
ENVIRONMENT = 5
LOOKUPS = 500
FULL = 200
QUICK = 50
LEVELS = (
    *("plugins/backup", "override/node/%{::fqdn}", "override/plugins", "override/common"),
    *("override/configuration/%{::fqdn}", "override/configuration/role", "override/configuration/cluster"),
    *("override/configuration/default_route", "deleted_nodes", "nodes", "globals", "astute"),
)
# A run of its own each: a process that begins with nothing in memory.
SCRIPT = """
require 'json'
require 'hiera'
def YAML.load(text, **)
  unsafe_load(text)
end
asked = JSON.parse($stdin.read)
start = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
hiera = Hiera.new(:config => asked['config'])
keys = asked['keys'].cycle.first(asked['lookups'])
found = keys.count { |key| hiera.lookup(key, nil, asked['scope'], nil, :priority) != nil }
puts JSON.generate([Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) - start, found])
"""


class Counting:
    """A way to a server that lists the requests, each with whether it had a condition and the answer's status."""

    def __init__(self, target: str) -> None:
        self.asked: list[tuple[bool, int]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                kept = ("x-auth-token", "if-none-match")
                headers = {name: value for name, value in self.headers.items() if name.lower() in kept}
                try:
                    answer = urlopen(Request(target + self.path, headers=headers), timeout=60)
                except HTTPError as error:
                    answer = error
                with answer:
                    body = answer.read()
                    outer.asked.append(("If-None-Match" in self.headers, answer.status))
                    self.send_response(answer.status)
                    for name in ("ETag", "Server-Product"):
                        if name in answer.headers:
                            self.send_header(name, answer.headers[name])
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def taken(self) -> list[tuple[bool, int]]:
        """Return the requests since the last call."""
        found, self.asked = self.asked, []
        return found


@contextmanager
def counting(target: str) -> Iterator[Counting]:
    """Serve one."""
    found = Counting(target)
    thread = threading.Thread(target=found.server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield found
    finally:
        found.server.shutdown()
        thread.join()
        found.server.server_close()


class Node:
    """Node 1 of an environment, with a Hiera for its files and one for ConfigDB."""

    def __init__(self, folder: Path, url: str, token: Path) -> None:
        self._folder = folder
        self._settings = folder / "settings.yaml"
        self._settings.touch(0o600)
        self._server = {"url": url, "auth": "token", "token_file": str(token), "cache": str(folder / "cache")}
        hiera = folder / "trees/node-1/etc/hiera"
        documents = [yaml.load(path.read_bytes(), yaml.CSafeLoader) for path in sorted(hiera.rglob("*.yaml"))]
        self._keys = sorted({key for document in documents for key in document})
        self._scope = {"::fqdn": next(one["fqdn"] for one in documents if "fqdn" in one)}
        for backend in ("yaml", "configdb"):
            whole = {
                ":backends": [backend],
                ":hierarchy": list(LEVELS),
                ":yaml": {":datadir": str(hiera)},
                ":configdb": {":config": str(self._settings)},
            }
            (folder / f"{backend}.yaml").write_text(yaml.safe_dump(whole))
        self.live(300)

    def live(self, seconds: int) -> None:
        """Set the time to live."""
        whole = {"environment": ENVIRONMENT, "levels": "nodes=1", "ttl": seconds, **self._server}
        self._settings.write_text(yaml.safe_dump(whole))

    def forget(self) -> None:
        """Take the cache away."""
        shutil.rmtree(self._folder / "cache", ignore_errors=True)

    def run(self, backend: str, lookups: int = LOOKUPS) -> float:
        """Look up in a process of its own; return the seconds of the lookups, without Ruby's start."""
        config = str(self._folder / f"{backend}.yaml")
        asked = {"config": config, "keys": self._keys, "scope": self._scope, "lookups": lookups}
        done = subprocess.run(
            ["ruby", "-I", str(LIBRARY), "-e", SCRIPT],
            input=json.dumps(asked),
            check=True,
            capture_output=True,
            text=True,
        )
        seconds, found = json.loads(done.stdout)
        assert found > 0.9 * lookups, f"{found} of {lookups} were found"
        return float(seconds)


def _data_sources(url: str, token: str) -> int:
    """Return how many data sources the environment has."""
    headers = {"X-Auth-Token": token}

    def ask(path: str) -> Any:
        with urlopen(Request(url + path, headers=headers), timeout=60) as answer:
            return json.load(answer)

    ids = ask(f"/environments/{ENVIRONMENT}")["components"]
    listed = [one["resource_definitions"] for one in ask("/components") if one["id"] in ids]
    return sum(1 for definitions in listed for one in definitions if one["name"] != "records")


def measure(full: bool) -> Iterable[Measure]:
    """Yield the times as parts of the files', and the numbers of requests."""
    if shutil.which("ruby") is None or shutil.which("hiera") is None:
        yield Measure("not measured", 0, "", note="hiera is not installed here")
        return
    nodes = FULL if full else QUICK
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_environment(folder / "trees", nodes, ENVIRONMENT)
        for other in range(2, nodes + 1):
            shutil.rmtree(folder / f"trees/node-{other}")
        state = folder / "state"
        with serving(state) as server, counting(server[1]) as way:
            sync = (*COMMAND, "sync", "--env", str(ENVIRONMENT), "--from", str(folder / "trees"), "--state", str(state))
            subprocess.run([*sync, *server], check=True, stdout=subprocess.DEVNULL)
            token = state / "configdb.token"
            yield from _of(Node(folder, way.url, token), way, _data_sources(server[1], token.read_text().strip()), full)


def _of(node: Node, way: Counting, sources: int, full: bool) -> Iterator[Measure]:
    cold, warm, files = [], [], []
    counts: list[int] = []
    for _ in range(5 if full else 3):
        node.forget()
        files.append(node.run("yaml"))
        cold.append(node.run("configdb"))
        counts.append(len(way.taken()))
        warm.append(node.run("configdb"))
        counts.append(len(way.taken()))
    floor = statistics.median(files)
    for name, found in (("first run", cold), ("within the time to live", warm)):
        value = statistics.median(found)
        note = f"{value * 1000:.0f} ms against {floor * 1000:.0f} ms"
        yield Measure(f"{LOOKUPS} lookups, {name}, of the files' time", value / floor, "times", 1.5, note)
    yield Measure("requests of a first run", max(counts[::2]), "requests", sources, f"{sources} data sources")
    yield Measure("requests within the time to live", max(counts[1::2]), "requests", 0)
    node.live(1)
    time.sleep(1.5)
    way.taken()
    node.run("configdb", 1)
    asked = way.taken()
    plain = sum(1 for condition, status in asked if not (condition and status == 304))
    yield Measure("requests after it that aren't conditional", plain, "requests", 0, f"{len(asked)} in all")


if __name__ == "__main__":
    run(measure)
