"""What it takes to start: the CPU time of commands on single values, against one that loads nothing."""

from __future__ import annotations

import resource
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import Measure, run
from benchmarks.serving import COMMAND
from benchmarks.trees import write_environment

ENV = 5
VALUE = ("--level", "nodes=1", "--resource", "globals", "--key", "use_syslog")


def cpu(*arguments: str, rounds: int) -> float:
    """Return the CPU seconds of a command, the least of some rounds."""
    took = []
    for _ in range(rounds):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([*COMMAND, *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(took)


def measure(full: bool) -> Iterator[Measure]:
    """Yield the CPU time of commands as multiples of ``--version``.

    SQLAlchemy alone takes nearly three times that long to load, werkzeug once as long.
    """
    rounds = 7 if full else 3
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_environment(folder / "trees", 2, ENV)
        where = ("--env", str(ENV), "--state", str(folder / "state"))
        cpu("sync", "--from", str(folder / "trees"), *where, rounds=1)
        nothing = cpu("--version", rounds=rounds)
        for title, limit, arguments in (
            ("get", 7.5, ("get", *VALUE, *where)),
            ("lookup", 9.0, ("lookup", "use_syslog", "--node", "1", *where)),
            ("get --help", 2.0, ("get", "--help")),
        ):
            took = cpu(*arguments, rounds=rounds)
            yield Measure(
                f"CPU of {title} / --version", took / nothing, "times", limit, f"{took:.2f} s, {nothing:.3f} s"
            )


if __name__ == "__main__":
    run(measure)
