"""A first sync against a bare client that does the least that could do, and the memory that a run takes."""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import yaml

from benchmarks.bench_server import theirs
from benchmarks.measure import Measure, run
from benchmarks.serving import COMMAND, serving
from benchmarks.trees import write_environment
from tests.peers import postgresql, tuning_box

ENV = 5
PARALLEL = "4"


def timed(*command: str) -> float:
    """Return the seconds that a command takes."""
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - begin


def measure(full: bool) -> Iterator[Measure]:
    """Yield the measures; ``full``: 50 nodes three times, and 200 nodes for the memory. Limits are meant for that."""
    for found in _measures(full):
        yield found if full else replace(found, limit=None)


def _measures(full: bool) -> Iterator[Measure]:
    with tempfile.TemporaryDirectory() as name:
        yield from _first_sync(Path(name), 50 if full else 10, 3 if full else 1)
    with tempfile.TemporaryDirectory() as name:
        yield from _second_sync(Path(name), 50 if full else 10, 3 if full else 1)
    with tempfile.TemporaryDirectory() as name:
        yield from _large(Path(name), 200 if full else 20)
    if not (tuning_box.unavailable() or postgresql.unavailable()):
        with tempfile.TemporaryDirectory() as name:
            yield from _other_server(Path(name), 20 if full else 4)


def _sync(trees: Path, state: Path, *more: str) -> tuple[str, ...]:
    options = ("--env", str(ENV), "--from", str(trees), "--state", str(state), "--parallel", PARALLEL, *more)
    return ("sync", *options)


def _first_sync(folder: Path, nodes: int, rounds: int) -> Iterator[Measure]:
    trees = folder / "trees"
    write_environment(trees, nodes, ENV)
    ours, bare = [], []
    for number in range(rounds):
        recorded = folder / f"requests-{number}"
        states = [folder / f"state-{number}-{letter}" for letter in "abc"]
        with serving(states[0]) as where:
            timed(sys.executable, "-m", "benchmarks.recording", str(recorded), *_sync(trees, states[0], *where))
        with serving(states[1]) as where:
            ours.append(timed(*COMMAND, *_sync(trees, states[1], *where)))
        with serving(states[2]) as where:
            client = (sys.executable, "-m", "benchmarks.bare_client", str(trees), str(recorded), where[1], where[3])
            bare.append(timed(*client, PARALLEL))
    ratio = statistics.median(one / other for one, other in zip(ours, bare, strict=True))
    note = f"{min(ours):.2f} s against {min(bare):.2f} s"
    yield Measure(f"first sync of {nodes} nodes / bare client", ratio, "", 1.5, note)


def _seconds(*arguments: str) -> float:
    """Return how long a run took by its own report: without the start of the interpreter."""
    done = subprocess.run([*COMMAND, *arguments, "--format", "json"], check=True, capture_output=True)
    found: float = json.loads(done.stdout)["seconds"]
    return found


def _second_sync(folder: Path, nodes: int, rounds: int) -> Iterator[Measure]:
    trees = folder / "trees"
    write_environment(trees, nodes, ENV)
    ratios = []
    for number in range(rounds):
        arguments = _sync(trees, folder / f"state-{number}")
        first = _seconds(*arguments)
        ratios.append(min(_seconds(*arguments) for _ in range(3)) / first)
    name = f"second sync of {nodes} nodes, nothing changed / first (embedded)"
    yield Measure(name, statistics.median(ratios), "", 0.08, "by the reports")


def _other_server(folder: Path, nodes: int) -> Iterator[Measure]:
    """Count and time the requests to a server that has no digests, against the necessary ones one after another.

    The counts have limits. The times only inform: tuning-box 0.1.0 reads the documents of all nodes for each GET of
    effective data, so nearly all of the time is the server's.
    """
    trees, needed, token, no_trees = (folder / name for name in ("trees", "needed", "token", "none"))
    write_environment(trees, nodes, ENV)
    token.write_text("none")
    server = f"{nodes} nodes, tuning-box 0.1.0"
    with postgresql.running() as cluster:
        with theirs(cluster.create("recorded"), folder) as peer:
            arguments = _sync(trees, folder / "recorded", "--configdb", peer.url)
            sent = []
            for name in ("first", "second"):
                timed(sys.executable, "-m", "benchmarks.recording", str(folder / name), *arguments)
                sent.append([json.loads(line) for line in (folder / name).read_text().splitlines()])
        documents = [one for one in sent[0] if one[0] == "PUT" and "/nodes/" in one[1]]
        note = f"{len(documents)} documents"
        yield Measure(f"requests of a first sync of {server}", len(sent[0]), "", 2 * len(documents) + 10, note)
        asked = {path.partition("?")[0] for _, path, _ in sent[1] if "/nodes/" in path}
        note = f"{len(asked)} documents, {len(asked) - len(documents)} of them of files that don't exist"
        yield Measure(f"requests of a second sync of {server}", len(sent[1]), "", len(asked) + 10, note)
        made = [one for one in sent[0] if one[0] == "POST"]
        pairs = [both for put in documents for both in (put, ["GET", f"{put[1]}?effective", None])]
        needed.write_text("".join(json.dumps(one) + "\n" for one in [*made, *pairs]))
        with theirs(cluster.create("bare"), folder) as peer:
            client = (sys.executable, "-m", "benchmarks.bare_client", str(no_trees), str(needed), peer.url)
            bare = timed(*client, str(token), "1")
        with theirs(cluster.create("ours"), folder) as peer:
            arguments = _sync(trees, folder / "ours", "--configdb", peer.url)
            first, second = timed(*COMMAND, *arguments), timed(*COMMAND, *arguments)
    note = f"{first:.1f} s against {bare:.1f} s"
    yield Measure(f"first sync of {server} / a PUT and a GET of each document", first / bare, "", None, note)
    yield Measure(f"second sync of {server} / first", second / first, "", None, f"{second:.1f} s")


def _large(folder: Path, nodes: int) -> Iterator[Measure]:
    trees, state = folder / "trees", folder / "state"
    write_environment(trees, nodes, ENV)
    options = ("--env", str(ENV), "--from", str(trees), "--state", str(state), "--parallel", PARALLEL)
    timed(*COMMAND, "sync", *options)
    yield Measure(f"peak memory of a first sync of {nodes} nodes", _peak(), "MB", 120)
    plan = timed(*COMMAND, "plan", *options)
    yield Measure(f"peak memory of that and a plan of {nodes} nodes", _peak(), "MB", 150)
    for question in (("find", "*_password"), ("compare", "--key", "debug")):
        took = timed(*COMMAND, *question, "--env", str(ENV), "--state", str(state))
        yield Measure(f"{question[0]} over {nodes} nodes (embedded)", took, "s", 2)
    sample = sorted(trees.glob("node-*/etc/hiera/**/*.yaml"))
    sample = sample[:: max(1, len(sample) // 60)]
    begin = time.perf_counter()
    for path in sample:
        yaml.load(path.read_bytes(), yaml.CSafeLoader)
    took = (time.perf_counter() - begin) / sum(path.stat().st_size for path in sample)
    whole = took * sum(path.stat().st_size for path in trees.glob("node-*/etc/hiera/**/*.yaml"))
    note = f"{plan:.2f} s, the start of Python included, against {whole:.1f} s"
    yield Measure(f"plan of {nodes} nodes in step / parsing with CSafeLoader", 100 * plan / whole, "%", 8, note)


def _peak() -> float:
    # Of all children so far the largest.
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


if __name__ == "__main__":
    run(measure)
