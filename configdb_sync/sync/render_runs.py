"""Lists of past runs, and single ones, as text and JSON (U14, U17)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from configdb_sync.names import one_line
from configdb_sync.store.runs import PastRun, RunNode
from configdb_sync.sync.wording import count


def runs_lines(runs: Sequence[PastRun], environment: int | None) -> Iterator[str]:
    """Yield a line for each run, newest first: of an environment, or of all if it is None."""
    if not runs:
        yield (
            "No run is remembered yet."
            if environment is None
            else f"No run of environment {environment} is remembered."
        )
    for run in runs:
        yield (
            f"{run.identity[:12]}  {_time(run)}  env {run.environment}  {_kind(run):<9}  {run.outcome:<11}"
            f"  {_counts(run)}  {one_line(run.author, 40)}"
        )


def run_lines(run: PastRun, nodes: Sequence[RunNode], report: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield the lines about one run: who and where, then its report, else the nodes that it was done with."""
    yield f"Run {run.identity}: {run.outcome}"
    yield (
        f"  {_kind(run)} of environment {run.environment}, {one_line(run.place)}, begun {_time(run)} by"
        f" {one_line(run.author)} on {one_line(run.host)} (process {run.pid})"
    )
    if run.digest:
        yield f"  plan digest {run.digest}"
    yield ""
    if report is not None:
        yield from report["text"]
        return
    yield f"It left no report. Done with {count(len(nodes), 'node')}:"
    for node in nodes:
        yield f"  node {one_line(node.node)}: {node.outcome}, {node.uploads} uploaded, {node.writes} written"


def run_json(run: PastRun) -> dict[str, Any]:
    """Return a run as JSON values."""
    facts = asdict(run)
    for name in ("started", "finished"):
        facts[name] = None if facts[name] is None else facts[name].isoformat(timespec="seconds")
    return facts


def _time(run: PastRun) -> str:
    return run.started.strftime("%Y-%m-%d %H:%M:%S")


def _kind(run: PastRun) -> str:
    return run.kind if run.stage is None else f"{run.kind} {run.stage}"


def _counts(run: PastRun) -> str:
    if run.nodes is None or run.finished is None:
        return "ended early" if run.finished else "no report"
    seconds = (run.finished - run.started).total_seconds()
    problems = f", {count(run.problems, 'problem')}" if run.problems else ""
    return f"{count(run.nodes, 'node')}, {run.uploads} uploaded, {run.writes} written{problems}, {seconds:.1f} s"
