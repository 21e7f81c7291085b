"""Runs: what a run records while it works, and the list of active and past runs (U14, U17, S8).

A node's row is written within a second or two after the node is done, so the run after a killed one continues there.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from configdb_sync.clock import Clock
from configdb_sync.errors import SettingsError
from configdb_sync.exits import Exit
from configdb_sync.jsonvalues import packed, unpacked
from configdb_sync.names import natural_key
from configdb_sync.store.database import Database
from configdb_sync.store.lease import LASTS, process_exists
from configdb_sync.store.schema import LEASES, OPEN_PROBLEMS, RUN_NODES, RUN_REPORTS, RUNS, next_number, now_of

DONE = "done"
FAILED = "failed"
DIED = "DIED"
INTERRUPTED = "INTERRUPTED"
AT_WORK = "AT WORK"
_FLUSHED = 1.0
_LONGEST = 1000


@dataclass(frozen=True)
class About:
    """Who runs what, where: what is known when a run begins. ``stage`` is Fuel's, None without it."""

    identity: str
    environment: int
    place: str
    author: str
    host: str
    pid: int
    kind: str = "sync"
    stage: str | None = None


@dataclass(frozen=True)
class Problem:
    """What was wrong with a node, or with one data source of it, when it was last worked on. No secret is in it."""

    data_source: str | None
    what: str


@dataclass(frozen=True)
class RunNode:
    """What a run did with one node. ``outcome``: ``done`` or ``failed``."""

    node: str
    outcome: str
    uploads: int
    writes: int
    problems: int


class Journal:
    """Writes one run down. Safe for several threads. ``whole``: the run is for all nodes of the environment."""

    def __init__(self, database: Database, about: About, clock: Clock, *, whole: bool = True) -> None:
        self._database = database
        self._about = about
        self._clock = clock
        self._whole = whole
        self._waiting: list[tuple[RunNode, Sequence[Problem]]] = []
        self._flushed = clock.monotonic()
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Write the beginning. The caller holds the environment's lock, so other runs without an end have died."""
        about = self._about
        open_runs = sa.and_(RUNS.c.environment == about.environment, RUNS.c.outcome.is_(None))

        def work(connection: Connection) -> None:
            connection.execute(sa.update(RUNS).where(open_runs).values(outcome=DIED))
            number = next_number(connection, RUNS.c.number)
            started = self._clock.now().timestamp()
            connection.execute(sa.insert(RUNS).values(**asdict(about), number=number, started=started))

        self._database.write(work)

    def order(self, identities: Sequence[str]) -> list[str]:
        """Return the nodes in the order of work: first those that were not done for longest (F5), else as given."""
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

    def node_done(self, done: RunNode, problems: Sequence[Problem]) -> None:
        """Take note of what was done with a node."""
        with self._lock:
            self._waiting.append((done, problems))
            now = self._clock.monotonic()
            if now - self._flushed < _FLUSHED:
                return
            self._flushed = now
            waiting, self._waiting = self._waiting, []
            self._database.write(lambda connection: self._write_nodes(connection, waiting))

    def finish(
        self, code: Exit, totals: Mapping[str, Any], shown: Mapping[str, Any], there: Iterable[str], keep: int
    ) -> None:
        """Write the end, with the report as it is to be shown later; drop all but the ``keep`` newest runs.

        ``totals``: columns of ``RUNS``. ``there`` are all nodes of the place: problems of others are dropped.
        """
        known = set(there)

        def work(connection: Connection) -> None:
            self._write_nodes(connection, self._waiting)
            if self._whole:
                self._forget_others(connection, known)
            self._end(connection, {"outcome": code.name, "exit": int(code), **totals}, shown)
            self._prune(connection, keep)

        with self._lock:
            self._database.write(work)
            self._waiting = []

    def stopped(self, outcome: str, code: Exit, shown: Mapping[str, Any]) -> None:
        """Write the end of a run that an error ended before any node was begun, or that its user ended."""

        def work(connection: Connection) -> None:
            self._write_nodes(connection, self._waiting)
            self._end(connection, {"outcome": outcome, "exit": int(code)}, shown)

        with self._lock:
            self._database.write(work)
            self._waiting = []

    def _end(self, connection: Connection, values: Mapping[str, Any], shown: Mapping[str, Any]) -> None:
        run, finished = self._about.identity, self._clock.now().timestamp()
        connection.execute(sa.update(RUNS).where(RUNS.c.identity == run).values(finished=finished, **values))
        connection.execute(sa.delete(RUN_REPORTS).where(RUN_REPORTS.c.run == run))
        connection.execute(sa.insert(RUN_REPORTS).values(run=run, body=packed(shown)))

    def _write_nodes(self, connection: Connection, done: Sequence[tuple[RunNode, Sequence[Problem]]]) -> None:
        if not done:
            return
        about, names = self._about, [one.node for one, _ in done]
        connection.execute(sa.delete(RUN_NODES).where(RUN_NODES.c.run == about.identity, RUN_NODES.c.node.in_(names)))
        connection.execute(sa.insert(RUN_NODES), [{"run": about.identity, **asdict(one)} for one, _ in done])
        connection.execute(sa.delete(OPEN_PROBLEMS).where(self._here(), OPEN_PROBLEMS.c.node.in_(names)))
        rows = [
            {
                "environment": about.environment,
                "place": about.place,
                "node": one.node,
                "number": number,
                "data_source": problem.data_source,
                "what": problem.what[:_LONGEST],
                "run": about.identity,
            }
            for one, problems in done
            for number, problem in enumerate(problems)
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


@dataclass(frozen=True, kw_only=True)
class PastRun(About):
    """One run; a later one has a higher ``number``, whatever the clocks say.

    ``outcome`` is an exit code's name, ``AT WORK``, ``DIED`` or ``INTERRUPTED``; counts are None without a report.
    """

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
class LocalProcesses:
    """The processes of this host."""

    host: str = field(default_factory=socket.gethostname)
    exists: Callable[[int], bool] = process_exists

    def may_work(self, host: str, pid: int) -> bool:
        """Tell whether the process may still be at work; of other hosts only their lease tells."""
        return host != self.host or self.exists(pid)


class PastRuns:
    """Reads runs. A run without an end is at work as long as it holds its lease, else it died."""

    def __init__(self, database: Database, clock: Clock, processes: LocalProcesses | None = None) -> None:
        self._database = database
        self._clock = clock
        self._processes = processes or LocalProcesses()

    def newest(
        self,
        environment: int | None = None,
        limit: int = 20,
        before: int | None = None,
        *,
        nodes: sa.Select[Any] | None = None,
        since: datetime | None = None,
    ) -> list[PastRun]:
        """Return the newest runs, of one environment or all, newest first.

        ``before``: only those before the run of that number. ``nodes``: only those that were done with any of these
        nodes. ``since``: only those that began then or later.
        """
        query = sa.select(RUNS).order_by(RUNS.c.number.desc(), RUNS.c.identity).limit(limit)
        if environment is not None:
            query = query.where(RUNS.c.environment == environment)
        if nodes is not None:
            done = sa.exists().where(RUN_NODES.c.run == RUNS.c.identity, RUN_NODES.c.node.in_(nodes))
            query = query.where(done)
        if before is not None:
            query = query.where(RUNS.c.number < before)
        if since is not None:
            query = query.where(RUNS.c.started >= since.timestamp())
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
        return {row[0]: row[1] for row in self._rows(query)}

    def environments(self) -> list[int]:
        """Return the environments of which runs are remembered."""
        query = sa.select(RUNS.c.environment).distinct().order_by(RUNS.c.environment)
        return [row[0] for row in self._rows(query)]

    def last_done(self, environment: int) -> dict[str, datetime]:
        """Return when the last run began that was done with a node, by identity."""
        query = (
            sa.select(RUN_NODES.c.node, sa.func.max(RUNS.c.started))
            .join(RUNS, RUNS.c.identity == RUN_NODES.c.run)
            .where(RUNS.c.environment == environment, RUN_NODES.c.outcome == DONE)
            .group_by(RUN_NODES.c.node)
        )
        return {row[0]: datetime.fromtimestamp(row[1], UTC) for row in self._rows(query)}

    def outcomes(self, run: str) -> dict[str, str]:
        """Return the outcome of each node that a run was done with: ``done`` or ``failed``, by identity."""
        query = sa.select(RUN_NODES.c.node, RUN_NODES.c.outcome).where(RUN_NODES.c.run == run)
        return {row[0]: row[1] for row in self._rows(query)}

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
            where = "" if environment is None else f" of environment {environment}"
            what = f"several runs begin with {name[:60]!r}" if found else f"no run {name[:60]!r}{where} is remembered"
            raise SettingsError(what, way_out="`configdb-sync runs` lists them")
        return found[0]

    def nodes_of(self, run: str) -> list[RunNode]:
        """Return what a run did with each node that it was done with."""
        query = sa.select(*(RUN_NODES.c[one.name] for one in fields(RunNode))).where(RUN_NODES.c.run == run)
        found = [RunNode(*row) for row in self._rows(query)]
        return sorted(found, key=lambda node: natural_key(node.node))

    def report_of(self, run: str) -> Mapping[str, Any] | None:
        """Return the report that a run left: ``json``, ``text`` and ``markdown`` of it; None if it left none."""
        query = sa.select(RUN_REPORTS.c.body).where(RUN_REPORTS.c.run == run)
        body = self._database.read(lambda connection: connection.execute(query).scalar())
        return None if body is None else unpacked(body)

    def _rows(self, query: sa.Select[Any]) -> Sequence[Any]:
        return self._database.read(lambda connection: connection.execute(query).all())

    def _runs(self, query: sa.Select[Any]) -> list[PastRun]:
        def work(connection: Connection) -> list[PastRun]:
            working = self._working(connection)
            return [self._run(row, working) for row in connection.execute(query)]

        return self._database.read(work)

    def _working(self, connection: Connection) -> frozenset[str]:
        # A lease that ends later than any can was taken under another clock; one at work is renewed under this one.
        now = now_of(connection, self._clock)
        holds = LEASES.c.until.between(now, now + LASTS)
        return frozenset(connection.execute(sa.select(LEASES.c.holder).where(holds)).scalars())

    def _run(self, row: Row[Any], working: frozenset[str]) -> PastRun:
        facts = dict(row._mapping)  # noqa: SLF001 SQLAlchemy's own name for it
        if facts["outcome"] is None:
            lives = row.identity in working and self._processes.may_work(row.host, row.pid)
            facts["outcome"] = AT_WORK if lives else DIED
        for name in ("started", "finished"):
            facts[name] = None if facts[name] is None else datetime.fromtimestamp(facts[name], UTC)
        return PastRun(**facts)
