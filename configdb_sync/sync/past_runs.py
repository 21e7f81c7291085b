"""Past runs and the ones at work, as the database tells them (U14, U17)."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from configdb_sync.clock import Clock
from configdb_sync.database import Database
from configdb_sync.errors import SettingsError
from configdb_sync.nodes.plain_names import natural_key
from configdb_sync.sync.journal import DIED, FAILED
from configdb_sync.sync.lease import LASTS
from configdb_sync.sync.tables import LEASES, RUN_NODES, RUN_REPORTS, RUNS, now_of

AT_WORK = "AT WORK"


@dataclass(frozen=True)
class PastNode:
    """What a run did with one node. ``outcome``: ``done`` or ``failed``."""

    node: str
    outcome: str
    uploads: int
    writes: int
    problems: int


@dataclass(frozen=True)
class PastRun:
    """One run; a later one has a higher ``number``, whatever the clocks say.

    ``outcome`` is an exit code's name, ``AT WORK``, ``DIED`` or ``INTERRUPTED``; counts are None without a report.
    """

    identity: str
    environment: int
    place: str
    author: str
    host: str
    pid: int
    kind: str
    stage: str | None
    number: int
    started: datetime
    finished: datetime | None
    outcome: str
    exit: int | None
    nodes: int | None
    uploads: int | None
    writes: int | None
    problems: int | None
    bytes: int | None
    digest: str | None

    @property
    def seconds(self) -> float | None:
        """How long it took; None while it has no end."""
        return None if self.finished is None else (self.finished - self.started).total_seconds()


@dataclass(frozen=True)
class Alive:
    """Tells whether a process of this host is there."""

    host: str
    there: Callable[[int], bool]

    def may_work(self, host: str, pid: int) -> bool:
        """Tell whether the process may still be at work; of other hosts only their lease tells."""
        return host != self.host or self.there(pid)


class PastRuns:
    """Reads runs. A run without an end is at work as long as it holds its lease, else it died."""

    def __init__(self, database: Database, clock: Clock, alive: Alive) -> None:
        self._database = database
        self._clock = clock
        self._alive = alive

    def newest(
        self,
        environment: int | None = None,
        limit: int = 20,
        before: int | None = None,
        *,
        nodes: sa.Select[Any] | None = None,
    ) -> list[PastRun]:
        """Return the newest runs, of one environment or all, newest first.

        ``before``: only those before the run of that number. ``nodes``: only those that were done with any of these
        nodes.
        """
        query = sa.select(RUNS).order_by(RUNS.c.number.desc(), RUNS.c.identity).limit(limit)
        if environment is not None:
            query = query.where(RUNS.c.environment == environment)
        if nodes is not None:
            done = sa.exists().where(RUN_NODES.c.run == RUNS.c.identity, RUN_NODES.c.node.in_(nodes))
            query = query.where(done)
        if before is not None:
            query = query.where(RUNS.c.number < before)
        return self._runs(query)

    def newest_of(self, environments: Collection[int]) -> dict[int, PastRun]:
        """Return the newest run of each of these environments that had one."""
        other = RUNS.alias("other")
        newest = sa.select(sa.func.max(other.c.number)).where(other.c.environment == RUNS.c.environment)
        query = sa.select(RUNS).where(
            RUNS.c.environment.in_(sorted(environments)), RUNS.c.number == newest.scalar_subquery()
        )
        return {run.environment: run for run in self._runs(query)}

    def failed_nodes(self, runs: Collection[str]) -> dict[str, int]:
        """Return how many nodes failed in each of these runs; a run without any is not in it."""
        query = (
            sa.select(RUN_NODES.c.run, sa.func.count())
            .where(RUN_NODES.c.run.in_(sorted(runs)), RUN_NODES.c.outcome == FAILED)
            .group_by(RUN_NODES.c.run)
        )
        rows = self._database.read(lambda connection: connection.execute(query).all())
        return {row[0]: row[1] for row in rows}

    def outcomes(self, run: str) -> dict[str, str]:
        """Return what came of each node that a run was done with: ``done`` or ``failed``, by identity."""
        query = sa.select(RUN_NODES.c.node, RUN_NODES.c.outcome).where(RUN_NODES.c.run == run)
        rows = self._database.read(lambda connection: connection.execute(query).all())
        return {row[0]: row[1] for row in rows}

    def at_work(self, environment: int) -> PastRun | None:
        """Return the run that works on the environment now."""
        query = sa.select(RUNS).where(RUNS.c.environment == environment, RUNS.c.outcome.is_(None))
        return next((run for run in self._runs(query) if run.outcome == AT_WORK), None)

    def find(self, name: str, environment: int | None = None) -> PastRun:
        """Return the run of that identity or of which it is the beginning; ``last`` is the newest.

        Raises ``SettingsError`` if there is none, or several.
        """
        if name == "last":
            found = self.newest(environment, 1)
        else:
            start = name if name.startswith("req-") else f"req-{name}"
            query = sa.select(RUNS).where(RUNS.c.identity.startswith(start, autoescape=True)).limit(2)
            found = self._runs(query)
        if len(found) != 1:
            what = f"several runs begin with {name[:60]!r}" if found else f"no run {name[:60]!r} is remembered"
            raise SettingsError(what, way_out="`configdb-sync runs` lists them")
        return found[0]

    def nodes_of(self, run: str) -> list[PastNode]:
        """Return what a run did with each node that it was done with."""
        query = sa.select(RUN_NODES).where(RUN_NODES.c.run == run)
        rows = self._database.read(lambda connection: connection.execute(query).all())
        found = [PastNode(row.node, row.outcome, row.uploads, row.writes, row.problems) for row in rows]
        return sorted(found, key=lambda node: natural_key(node.node))

    def report_of(self, run: str) -> Mapping[str, Any] | None:
        """Return the report that a run left: ``json``, ``text`` and ``markdown`` of it; None if it left none."""
        query = sa.select(RUN_REPORTS.c.body).where(RUN_REPORTS.c.run == run)
        body = self._database.read(lambda connection: connection.execute(query).scalar())
        if body is None:
            return None
        report: dict[str, Any] = json.loads(zlib.decompress(body))
        return report

    def _runs(self, query: sa.Select[Any]) -> list[PastRun]:
        def work(connection: Connection) -> list[PastRun]:
            working = self._working(connection)
            return [self._run(row, working) for row in connection.execute(query)]

        return self._database.read(work)

    def _working(self, connection: Connection) -> frozenset[str]:
        # A lease that ends later than any can was taken under another clock; one at work is renewed under this one.
        now = now_of(connection, self._clock)
        holds = LEASES.c.until.between(now, now + LASTS)
        return frozenset(connection.execute(sa.select(LEASES.c.run).where(holds)).scalars())

    def _run(self, row: Row[Any], working: frozenset[str]) -> PastRun:
        facts = dict(row._mapping)  # noqa: SLF001 SQLAlchemy's own name for it
        if facts["outcome"] is None:
            lives = row.identity in working and self._alive.may_work(row.host, row.pid)
            facts["outcome"] = AT_WORK if lives else DIED
        for name in ("started", "finished"):
            facts[name] = None if facts[name] is None else datetime.fromtimestamp(facts[name], UTC)
        return PastRun(**facts)
