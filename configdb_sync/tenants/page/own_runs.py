"""Runs as a tenant may see them (T12): those that were done with its nodes, and of each these nodes alone.

A tenant's nodes of an environment are those with a document, or a problem, of a data source that it owns: the rows
of its matrix.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from configdb_sync.exits import Exit
from configdb_sync.store.database import Database
from configdb_sync.store.runs import AT_WORK, DIED, FAILED, INTERRUPTED, PastNode, PastRun, PastRuns
from configdb_sync.store.schema import OPEN_PROBLEMS, RECORDS, RUN_NODES

_UNENDED = frozenset({AT_WORK, DIED, INTERRUPTED})


@dataclass(frozen=True)
class OwnRuns:
    """The runs of one environment, for who owns these data sources."""

    past: PastRuns
    database: Database
    environment: int
    data_sources: Collection[str]

    def newest(self, limit: int, before: int | None = None) -> list[PastRun]:
        """Return the newest runs, newest first, as ``PastRuns.newest``; counts and outcome tell of own nodes alone."""
        return self._own(self.past.newest(self.environment, limit, before, nodes=self._nodes))

    def find(self, run: PastRun) -> tuple[PastRun, list[PastNode]] | None:
        """Return a run and what it did with own nodes; None if it was done with none of them."""
        rows = self.database.read(lambda connection: list(connection.scalars(self._nodes)))
        mine = set(rows)
        nodes = [node for node in self.past.nodes_of(run.identity) if node.node in mine]
        return (self._own([run])[0], nodes) if nodes else None

    def failed_nodes(self, runs: Sequence[PastRun]) -> dict[str, int]:
        """Return how many own nodes failed in each of these runs."""
        found: dict[str, int] = Counter()
        for run, outcome, count in self._counts(runs):
            if outcome == FAILED:
                found[run] += count
        return found

    @property
    def _nodes(self) -> sa.Select[Any]:
        found = [
            sa.select(table.c.node).where(
                table.c.environment == self.environment, table.c.data_source.in_(sorted(self.data_sources))
            )
            for table in (RECORDS, OPEN_PROBLEMS)
        ]
        return sa.select(sa.union(*found).subquery().c.node)

    def _own(self, runs: list[PastRun]) -> list[PastRun]:
        done: dict[str, int] = Counter()
        failed: dict[str, int] = Counter()
        for run, outcome, count in self._counts(runs):
            done[run] += count
            failed[run] += count * (outcome == FAILED)
        return [
            replace(
                run,
                nodes=done[run.identity],
                outcome=run.outcome if run.outcome in _UNENDED else self._outcome(failed[run.identity]),
            )
            for run in runs
        ]

    def _outcome(self, failed: int) -> str:
        return (Exit.PARTIAL if failed else Exit.OK).name

    def _counts(self, runs: Sequence[PastRun]) -> list[tuple[str, str, int]]:
        query = (
            sa.select(RUN_NODES.c.run, RUN_NODES.c.outcome, sa.func.count())
            .where(RUN_NODES.c.run.in_([run.identity for run in runs]), RUN_NODES.c.node.in_(self._nodes))
            .group_by(RUN_NODES.c.run, RUN_NODES.c.outcome)
        )
        rows = self.database.read(lambda connection: connection.execute(query).all())
        return [(row[0], row[1], row[2]) for row in rows]
