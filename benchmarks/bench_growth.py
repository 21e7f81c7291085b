"""How a run grows with the number of nodes: time and memory, with files of 400 KB a node (embedded, one process).

``docs/decisions/growth.md`` says where the limits are, and what to do beyond them.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.measure import Measure, run
from benchmarks.serving import COMMAND
from benchmarks.trees import write_environment

ENV = 5
LISTED = 75
"""As many nodes in ``astute.yaml`` make 400 KB of files on each node."""


@dataclass(frozen=True)
class _Cost:
    seconds: float
    cpu: float
    peak: float

    @property
    def note(self) -> str:
        return f"{self.seconds:.1f} s, {self.cpu:.1f} s of CPU, {self.peak:.0f} MB"


def _cost(*arguments: str) -> _Cost:
    begin = time.perf_counter()
    child = subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, child.args)
    return _Cost(time.perf_counter() - begin, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def _runs(nodes: int) -> tuple[_Cost, _Cost]:
    """Return what a first and a second sync of so many nodes cost."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_environment(folder / "trees", nodes, ENV, listed=LISTED)
        arguments = ("sync", "--env", str(ENV), "--from", str(folder / "trees"), "--state", str(folder / "state"))
        return _cost(*arguments), _cost(*arguments)


def measure(full: bool) -> Iterator[Measure]:
    """Yield the measures; ``full``: from 100 to 1000 nodes, for which the limits are meant. Else from 5 to 20."""
    for found in _measures(*((100, 1000) if full else (5, 20))):
        yield found if full else replace(found, limit=None)


def _measures(few: int, many: int) -> Iterator[Measure]:
    for name, small, large in zip(("first", "second"), _runs(few), _runs(many), strict=True):
        title = f"{name} sync of 400 KB a node"
        growth = large.cpu / many / (small.cpu / few)
        yield Measure(f"{title}: CPU of one of {many} nodes / of {few}", growth, "times", 1.3, large.note)
        more = 1000 * (large.peak - small.peak) / (many - few)
        yield Measure(f"{title}: memory of one more node", more, "KB", 120, f"{small.note} for {few} nodes")


if __name__ == "__main__":
    run(measure)
