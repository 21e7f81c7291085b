"""Runs modules of benchmarks, each in its own process, and shows their measures in one table."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.measure import Measure, load

HERE = Path(__file__).resolve().parent


def names() -> list[str]:
    """Return the names of all benchmarks, in order."""
    return sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))


def measure(name: str, *, full: bool) -> list[Measure] | None:
    """Run one benchmark; None if it failed (its own words are on standard error)."""
    command = [sys.executable, "-m", f"benchmarks.bench_{name}", "--json", *(["--full"] if full else [])]
    done = subprocess.run(command, cwd=HERE.parent, stdout=subprocess.PIPE, text=True, check=False)
    lines = done.stdout.strip().splitlines()
    return load(lines[-1]) if done.returncode == 0 and lines else None


def main() -> int:
    """Return the exit code: 1 if a benchmark failed, or a limit was passed and ``--check`` given."""
    parser = argparse.ArgumentParser(prog="script/bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of: {', '.join(names()) or 'none yet'}")
    parser.add_argument("--full", action="store_true", help="the sizes that the limits are meant for")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a limit is passed")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.names) - set(names()))
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}; there are: {', '.join(names())}")
    table = Table("benchmark", "measure", "value", "limit", "", box=None)
    failed = passed = False
    for name in arguments.names or names():
        measures = measure(name, full=arguments.full)
        failed = failed or measures is None
        for each in measures or [Measure("did not run to its end", float("nan"), "")]:
            passed = passed or not each.within
            limit = "" if each.limit is None else f"{each.limit:g} {each.unit}"
            verdict = each.note if each.within else f"OVER THE LIMIT {each.note}"
            table.add_row(name, each.name, f"{each.value:.4g} {each.unit}", limit, verdict.strip())
    Console(width=None if sys.stdout.isatty() else 160).print(table)
    return 1 if failed or (passed and arguments.check) else 0


if __name__ == "__main__":
    sys.exit(main())
