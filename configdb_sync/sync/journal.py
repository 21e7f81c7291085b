"""What one run writes down about itself while it works: who, where, which nodes are done, what is wrong (U14, U17, S8).

A node's line is written within a second or two of its end, so that the run after a killed one knows where to go on.
"""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from configdb_sync.clock import Clock
from configdb_sync.database import Database
from configdb_sync.exits import Exit
from configdb_sync.nodes.plain_names import natural_key
from configdb_sync.sync.report import NodeReport, Report
from configdb_sync.sync.tables import OPEN_PROBLEMS, RUN_NODES, RUN_REPORTS, RUNS, next_number

DONE = "done"
FAILED = "failed"
DIED = "DIED"
INTERRUPTED = "INTERRUPTED"
_FLUSHED = 1.0
_LONGEST = 1000


@dataclass(frozen=True)
class About:
    """Who runs what, where: the facts that a run's line begins with. ``stage`` is Fuel's, None without it."""

    identity: str
    environment: int
    place: str
    author: str
    host: str
    pid: int
    kind: str = "sync"
    stage: str | None = None


class Journal:
    """The line of one run. Safe for several threads. ``whole``: the run is for all nodes of the environment."""

    def __init__(self, database: Database, about: About, clock: Clock, *, whole: bool = True) -> None:
        self._database = database
        self._about = about
        self._clock = clock
        self._whole = whole
        self._waiting: list[NodeReport] = []
        self._flushed = clock.monotonic()
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Write the line. The caller holds the environment's lock, so whatever is still open there has died."""
        about = self._about
        open_runs = sa.and_(RUNS.c.environment == about.environment, RUNS.c.outcome.is_(None))

        def work(connection: Connection) -> None:
            connection.execute(sa.update(RUNS).where(open_runs).values(outcome=DIED))
            number = next_number(connection, RUNS.c.number)
            started = self._clock.now().timestamp()
            connection.execute(sa.insert(RUNS).values(**asdict(about), number=number, started=started))

        self._database.write(work)

    def order(self, identities: Sequence[str]) -> list[str]:
        """Return the nodes in the order in which to work: those longest not done first (F5), else as they came."""
        about = self._about
        query = (
            sa.select(RUN_NODES.c.node, sa.func.max(RUNS.c.number))
            .join_from(RUN_NODES, RUNS, RUN_NODES.c.run == RUNS.c.identity)
            .where(RUNS.c.environment == about.environment, RUNS.c.place == about.place, RUN_NODES.c.outcome == DONE)
            .group_by(RUN_NODES.c.node)
        )
        rows = self._database.read(lambda connection: connection.execute(query).all())
        last: dict[str, int] = {row[0]: row[1] for row in rows}
        return sorted(identities, key=lambda identity: last.get(identity, 0))

    def node_done(self, report: NodeReport) -> None:
        """Take note of what was done with a node."""
        with self._lock:
            self._waiting.append(report)
            now = self._clock.monotonic()
            if now - self._flushed < _FLUSHED:
                return
            self._flushed = now
            waiting, self._waiting = self._waiting, []
            self._database.write(lambda connection: self._write_nodes(connection, waiting))

    def finish(self, report: Report, shown: Mapping[str, Any], there: Iterable[str], keep: int) -> None:
        """Write the end, with the report as it is to be shown later; drop what is older than the ``keep`` newest runs.

        ``there`` are all nodes of the place: what was wrong with others is no more.
        """
        values = {
            "outcome": report.exit.name,
            "exit": int(report.exit),
            "nodes": len(report.nodes),
            "uploads": report.uploads,
            "writes": report.writes,
            "problems": len(report.problems),
            "bytes": report.bytes,
            "digest": report.plan_digest,
        }
        known = set(there)

        def work(connection: Connection) -> None:
            self._write_nodes(connection, self._waiting)
            if self._whole:
                self._forget_others(connection, known)
            self._end(connection, values)
            self._keep(connection, shown)
            self._prune(connection, keep)

        with self._lock:
            self._database.write(work)
            self._waiting = []

    def stopped(self, outcome: str, code: Exit, shown: Mapping[str, Any]) -> None:
        """Write the end of a run that an error ended before any node was begun, or that its user ended."""

        def work(connection: Connection) -> None:
            self._write_nodes(connection, self._waiting)
            self._end(connection, {"outcome": outcome, "exit": int(code)})
            self._keep(connection, shown)

        with self._lock:
            self._database.write(work)
            self._waiting = []

    def _end(self, connection: Connection, values: Mapping[str, Any]) -> None:
        finished = self._clock.now().timestamp()
        connection.execute(
            sa.update(RUNS).where(RUNS.c.identity == self._about.identity).values(finished=finished, **values)
        )

    def _keep(self, connection: Connection, shown: Mapping[str, Any]) -> None:
        body = zlib.compress(json.dumps(shown, separators=(",", ":")).encode("ascii"))
        connection.execute(sa.delete(RUN_REPORTS).where(RUN_REPORTS.c.run == self._about.identity))
        connection.execute(sa.insert(RUN_REPORTS).values(run=self._about.identity, body=body))

    def _write_nodes(self, connection: Connection, reports: Sequence[NodeReport]) -> None:
        if not reports:
            return
        run, names = self._about.identity, [report.plan.node for report in reports]
        connection.execute(sa.delete(RUN_NODES).where(RUN_NODES.c.run == run, RUN_NODES.c.node.in_(names)))
        connection.execute(
            sa.insert(RUN_NODES),
            [
                {
                    "run": run,
                    "node": report.plan.node,
                    "outcome": FAILED if report.problems else DONE,
                    "uploads": len(report.uploaded),
                    "writes": len(report.written),
                    "problems": len(report.problems),
                }
                for report in reports
            ],
        )
        connection.execute(sa.delete(OPEN_PROBLEMS).where(self._here(), OPEN_PROBLEMS.c.node.in_(names)))
        rows = [
            {
                "environment": self._about.environment,
                "place": self._about.place,
                "node": report.plan.node,
                "number": number,
                "data_source": problem.data_source,
                "what": problem.what[:_LONGEST],
                "run": run,
            }
            for report in reports
            for number, problem in enumerate(report.problems)
        ]
        if rows:
            connection.execute(sa.insert(OPEN_PROBLEMS), rows)

    def _forget_others(self, connection: Connection, there: Collection[str]) -> None:
        found = connection.execute(sa.select(OPEN_PROBLEMS.c.node).where(self._here()).distinct())
        gone = sorted({node for (node,) in found} - set(there), key=natural_key)
        if gone:
            connection.execute(sa.delete(OPEN_PROBLEMS).where(self._here(), OPEN_PROBLEMS.c.node.in_(gone)))

    def _prune(self, connection: Connection, keep: int) -> None:
        here = RUNS.c.environment == self._about.environment
        old = sa.select(RUNS.c.identity).where(here).order_by(RUNS.c.number.desc()).offset(max(keep, 1))
        for table, run in ((RUN_NODES, RUN_NODES.c.run), (RUN_REPORTS, RUN_REPORTS.c.run), (RUNS, RUNS.c.identity)):
            connection.execute(sa.delete(table).where(run.in_(old)))

    def _here(self) -> sa.ColumnElement[bool]:
        about = self._about
        return sa.and_(OPEN_PROBLEMS.c.environment == about.environment, OPEN_PROBLEMS.c.place == about.place)
