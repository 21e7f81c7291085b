"""``script/bench``: every benchmark in a process of its own, one table, an exit code where a limit is passed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 60
BENCHMARK = """
from benchmarks.measure import Measure, run

def measure(full):
    print("noise")
    return [Measure("ratio", 2.0 if full else 1.0, "times", 1.5, "of the floor"), Measure("peak", 12.5, "MB")]

if __name__ == "__main__":
    run(measure)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "benchmarks").mkdir()
    for name in ("__init__.py", "__main__.py", "measure.py"):
        shutil.copy(ROOT / "benchmarks" / name, tmp_path / "benchmarks" / name)
    (tmp_path / "benchmarks/bench_walk.py").write_text(BENCHMARK, encoding="utf-8")
    return tmp_path


def bench(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False, timeout=LIMIT_S)


def test_measures_stand_in_a_table(project: Path) -> None:
    done = bench(project, "--check")
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["walk", "ratio", "1", "times", "1.5", "times", "of", "the", "floor"] in rows
    assert ["walk", "peak", "12.5", "MB"] in rows


def test_a_passed_limit_is_shown_and_fails_a_check(project: Path) -> None:
    done = bench(project, "walk", "--full")
    assert (done.returncode, "OVER THE LIMIT" in done.stdout) == (0, True)
    assert bench(project, "walk", "--full", "--check").returncode == 1


def test_a_benchmark_that_fails_is_a_failure(project: Path) -> None:
    (project / "benchmarks/bench_fall.py").write_text("raise SystemExit(3)", encoding="utf-8")
    done = bench(project)
    assert done.returncode == 1
    assert "did not run to its end" in done.stdout
    assert "ratio" in done.stdout


def test_an_unknown_benchmark_is_named(project: Path) -> None:
    done = bench(project, "run")
    assert done.returncode == 2
    assert "no benchmark run; there are: walk" in done.stderr
