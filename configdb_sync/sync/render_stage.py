"""What a run says to Fuel's log, open to all: a few plain lines, no values, the last one what to do (F3, F5)."""

from __future__ import annotations

from collections.abc import Iterator

from configdb_sync.errors import ProductError
from configdb_sync.exits import Exit
from configdb_sync.names import one_line
from configdb_sync.sync.report import Report
from configdb_sync.sync.stage import Verdict
from configdb_sync.sync.wording import count, some

SHOWN_PROBLEMS = 10
LONGEST = 300


def stage_lines(report: Report, verdict: Verdict) -> Iterator[str]:
    """Yield the lines about a run."""
    yield (
        f"configdb-sync {report.stage}: environment {report.environment}, run {report.run}:"
        f" {count(len(report.nodes), 'node')}, {count(report.uploads, 'document')} uploaded,"
        f" {count(report.writes, 'file')} written in {report.seconds:.0f} s"
    )
    for problem in report.problems[:SHOWN_PROBLEMS]:
        yield one_line(str(problem), LONGEST)
    if len(report.problems) > SHOWN_PROBLEMS:
        yield f"... and {len(report.problems) - SHOWN_PROBLEMS} more: configdb-sync runs {report.run}"
    if report.not_attempted:
        yield f"not worked on: {one_line(some(report.not_attempted), LONGEST)}"
    yield f"{_word(verdict)}: {_what_to_do(report)}"


def error_lines(error: ProductError, verdict: Verdict) -> Iterator[str]:
    """Yield the lines about an error that ended a run before any node was worked on."""
    yield f"{_word(verdict)}: {one_line(str(error), LONGEST)}"


def _word(verdict: Verdict) -> str:
    if verdict.warning:
        return "warning"
    return "ok" if verdict.exit is Exit.OK else "failed"


def _what_to_do(report: Report) -> str:
    if report.exit is Exit.OK:
        return "all in step, nothing to do"
    if report.unsafe_digest:
        return (
            f"changes were withheld as unsafe; look at `configdb-sync plan --env {report.environment}`, let exactly"
            f" these through by `configdb-sync approve {report.unsafe_digest}`, and deploy again"
        )
    failed = one_line(some(node.plan.node for node in report.nodes if node.problems), LONGEST)
    way = {
        Exit.ACCESS: "ConfigDB refused the credentials: correct them in the plugin's settings, and deploy again",
        Exit.CONFIGDB: "ConfigDB can't be reached or answers nonsense: see that it runs, and deploy again",
        Exit.BUSY: "another run is at work: wait until it is done, and deploy again",
        Exit.OUT_OF_TIME: "the time was up: the next try goes on with the nodes that were left",
        Exit.CHANGED: "something changed after the plan was made: look at `configdb-sync plan` again",
    }.get(report.exit, f"nodes {failed} have problems: mend what the lines above name, and deploy again")
    return f"{way} (all of it: configdb-sync runs {report.run})"
