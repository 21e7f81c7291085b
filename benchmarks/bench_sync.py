"""A first sync against a bare client that does the least that could do, and the memory that a run takes."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import Measure, run
from benchmarks.serving import COMMAND, serving
from benchmarks.trees import write_environment

ENV = 5
PARALLEL = "4"


def timed(*command: str) -> float:
    """Return the seconds that a command takes."""
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - begin


def measure(full: bool) -> Iterator[Measure]:
    """Yield the measures; ``full``: 50 nodes three times, and 200 nodes for the memory."""
    with tempfile.TemporaryDirectory() as name:
        yield from _first_sync(Path(name), 50 if full else 10, 3 if full else 1)
    with tempfile.TemporaryDirectory() as name:
        yield _memory(Path(name), 200 if full else 20)


def _sync(trees: Path, state: Path, *more: str) -> tuple[str, ...]:
    options = ("--env", str(ENV), "--from", str(trees), "--state", str(state), "--parallel", PARALLEL, *more)
    return ("sync", *options)


def _first_sync(folder: Path, nodes: int, rounds: int) -> Iterator[Measure]:
    trees = folder / "trees"
    write_environment(trees, nodes, ENV)
    ours, bare, again = [], [], []
    for number in range(rounds):
        recorded = folder / f"requests-{number}"
        states = [folder / f"state-{number}-{letter}" for letter in "abc"]
        with serving(states[0]) as where:
            timed(sys.executable, "-m", "benchmarks.recording", str(recorded), *_sync(trees, states[0], *where))
        with serving(states[1]) as where:
            ours.append(timed(*COMMAND, *_sync(trees, states[1], *where)))
            again.append(timed(*COMMAND, *_sync(trees, states[1], *where)))
        with serving(states[2]) as where:
            client = (sys.executable, "-m", "benchmarks.bare_client", str(trees), str(recorded), where[1], where[3])
            bare.append(timed(*client, PARALLEL))
    ratio = statistics.median(one / other for one, other in zip(ours, bare, strict=True))
    note = f"{min(ours):.2f} s against {min(bare):.2f} s"
    yield Measure(f"first sync of {nodes} nodes / bare client", ratio, "", 1.5, note)
    unchanged = statistics.median(one / other for one, other in zip(again, ours, strict=True))
    yield Measure(
        f"second sync with nothing changed / first, {nodes} nodes", unchanged, "", None, f"{min(again):.2f} s"
    )


def _memory(folder: Path, nodes: int) -> Measure:
    trees, state = folder / "trees", folder / "state"
    write_environment(trees, nodes, ENV)
    with serving(state) as where:
        timed(*COMMAND, *_sync(trees, state, *where))
    # Of all children so far the largest: the server's workers are no children of ours.
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return Measure(f"peak memory of a first sync of {nodes} nodes", peak, "MB", 150)


if __name__ == "__main__":
    run(measure)
