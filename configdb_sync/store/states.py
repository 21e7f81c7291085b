"""The states of an environment's data sources, by node or over all nodes, from what runs recorded (S2, S8)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from functools import cache
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy import Connection

from configdb_sync.names import natural_key, one_line
from configdb_sync.store.database import Database
from configdb_sync.store.runs import AT_WORK, DIED, FAILED, PastRun, PastRuns, Problem
from configdb_sync.store.schema import NODES, OPEN_PROBLEMS, RECORDS, RUN_NODES

_SHOWN = 3
_LONGEST = 500
_LOOKED_BACK = 20
"""Runs that are searched for the last one that was done with a node."""


class SyncState(Enum):
    """Whether files and ConfigDB agree on a data source: ACTIVE, not yet (BUILD), or not (ERROR)."""

    BUILD = "BUILD"
    ACTIVE = "ACTIVE"
    ERROR = "ERROR"


@dataclass(frozen=True)
class SourceState:
    """A data source's state, with the run at work or the problems. No secret is in it."""

    state: SyncState
    details: str = ""


def source_states(database: Database, past: PastRuns, environment: int) -> dict[str, SourceState]:
    """Return the state of every data source that runs have a record or an open problem of.

    BUILD while a run is at work on the environment. Else ERROR if some node's document of it, or such a node as a
    whole, failed when it was last worked on, or the last run died; else ACTIVE: files and ConfigDB agreed.
    """
    working = past.at_work(environment)
    _, documents, problems = database.read(lambda connection: _known(connection, environment))
    nodes: dict[str, set[str]] = defaultdict(set)
    for node in sorted({*documents, *problems}, key=natural_key):
        for name in (*documents.get(node, ()), *(one.data_source for one in problems.get(node, ()))):
            if name is not None:
                nodes[name].add(node)
    if working is not None:
        return dict.fromkeys(sorted(nodes), SourceState(SyncState.BUILD, f"run {working.identity} is at work"))
    newest = past.newest(environment, 1)
    died = f"run {newest[0].identity} died" if newest and newest[0].outcome == DIED else ""
    found = {}
    for name in sorted(nodes):
        lines = [died] if died else []
        lines += [
            f"node {node}: {problem.what}"
            for node in sorted(problems, key=natural_key)
            for problem in problems[node]
            if problem.data_source == name or (problem.data_source is None and node in nodes[name])
        ]
        more = f" ... ({len(lines)})" if len(lines) > _SHOWN else ""
        details = one_line("; ".join(lines[:_SHOWN]) + more, _LONGEST)
        found[name] = SourceState(SyncState.ERROR if lines else SyncState.ACTIVE, details)
    return found


class NodeRow(NamedTuple):
    """One node: the state of each data source in the matrix's order (None: no such file of it is known), the last run
    that was done with it, and what is wrong."""

    node: str
    fqdn: str | None
    states: tuple[SyncState | None, ...]
    run: str | None = None
    time: datetime | None = None
    failed: bool = False
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True)
class Matrix:
    """An environment's nodes by data sources. ``newest``: its newest run, which may be at work."""

    environment: int
    data_sources: tuple[str, ...]
    rows: tuple[NodeRow, ...] = field(repr=False)
    newest: PastRun | None = None


@dataclass(frozen=True)
class MatrixRecords:
    """What runs recorded: names of nodes, their data sources, open problems; and the runs, newest first, with the nodes
    that each was done with."""

    names: Mapping[str, str | None]
    documents: Mapping[str, tuple[str, ...]]
    problems: Mapping[str, Sequence[Problem]]
    runs: Sequence[tuple[PastRun, Mapping[str, str]]]


def stamp_of(database: Database, past: PastRuns, environment: int) -> tuple[object, ...]:
    """Return a value that changes when the environment's matrix may.

    Only runs change what the matrix is made of, or drop it with nodes that are gone. So the value has the newest run,
    how far it is, and the number of records of each kind.
    """
    newest = past.newest(environment, 1)
    counted = [
        sa.select(sa.func.count()).select_from(table).where(table.c.environment == environment)
        for table in (RECORDS, NODES, OPEN_PROBLEMS)
    ]
    done = sa.select(sa.func.count()).select_from(RUN_NODES)
    counted.append(done.where(RUN_NODES.c.run == (newest[0].identity if newest else "")))
    whole = sa.select(*(query.scalar_subquery() for query in counted))
    return (*newest, *database.read(lambda connection: tuple(connection.execute(whole).one())))


def read_matrix(
    database: Database, past: PastRuns, environment: int, data_sources: Collection[str], *, more: bool
) -> Matrix:
    """Return the matrix of an environment with these data sources, and with ``more`` all others that have records."""
    names, documents, problems = database.read(lambda connection: _known(connection, environment))
    known = MatrixRecords(names, documents, problems, _runs(past, environment, set(names)))
    return matrix(environment, known, data_sources, more=more)


def matrix(environment: int, known: MatrixRecords, data_sources: Collection[str] = (), *, more: bool = True) -> Matrix:
    """Return the matrix of what is known. Pure.

    BUILD while a run is at work that is not done with the node yet; ERROR if the document, or the node as a whole,
    failed when it was last worked on, or if the newest run died before it was done with the node; else ACTIVE.
    """
    found = set(data_sources)
    if more:
        found |= {name for documents in set(known.documents.values()) for name in documents}
        found |= {one.data_source for several in known.problems.values() for one in several if one.data_source}
    sources = tuple(sorted(found))
    newest = known.runs[0] if known.runs else None

    @cache  # most nodes look alike
    def look(documents: tuple[str, ...], broken: frozenset[str | None], whole: SyncState | None) -> _States:
        there = {*documents, *broken}
        return tuple(
            None if name not in there else whole or (SyncState.ERROR if name in broken else SyncState.ACTIVE)
            for name in sources
        )

    rows = [_row(node, known, look, newest) for node in sorted(known.names, key=natural_key)]
    return Matrix(environment, sources, tuple(rows), None if newest is None else newest[0])


_States = tuple[SyncState | None, ...]
_NOTHING: frozenset[str | None] = frozenset()


def _row(
    node: str,
    known: MatrixRecords,
    look: Callable[[tuple[str, ...], frozenset[str | None], SyncState | None], _States],
    newest: tuple[PastRun, Mapping[str, str]] | None,
) -> NodeRow:
    documents, problems = known.documents.get(node, ()), tuple(known.problems.get(node, ()))
    whole = None
    if newest is not None and node not in newest[1]:
        if newest[0].outcome == AT_WORK:
            whole = SyncState.BUILD
        elif newest[0].outcome == DIED:
            whole = SyncState.ERROR
            problems += (Problem(None, f"run {newest[0].identity} died before it was done with this node"),)
    broken = frozenset(one.data_source for one in problems) if problems else _NOTHING
    if whole is None and None in broken:
        whole = SyncState.ERROR
    states = look(documents, broken, whole)
    for run, outcomes in known.runs:
        if node in outcomes:
            failed = outcomes[node] == FAILED
            return NodeRow(node, known.names[node], states, run.identity, run.started, failed, problems)
    return NodeRow(node, known.names[node], states, problems=problems)


def _known(
    connection: Connection, environment: int
) -> tuple[dict[str, str | None], dict[str, tuple[str, ...]], dict[str, list[Problem]]]:
    documents: dict[str, list[str]] = defaultdict(list)
    problems: dict[str, list[Problem]] = defaultdict(list)
    seen = sa.select(NODES.c.node, NODES.c.fqdn).where(NODES.c.environment == environment).order_by(NODES.c.place)
    names: dict[str, str | None] = {row.node: row.fqdn for row in connection.execute(seen).all()}
    # These columns are in the key: no record's body is read.
    records = sa.select(RECORDS.c.node, RECORDS.c.data_source).where(RECORDS.c.environment == environment)
    for node, name in connection.execute(records).all():
        documents[node].append(name)
    wrong = sa.select(OPEN_PROBLEMS).where(OPEN_PROBLEMS.c.environment == environment).order_by(OPEN_PROBLEMS.c.number)
    for row in connection.execute(wrong).all():
        problems[row.node].append(Problem(row.data_source, row.what))
    for node in (*documents, *problems):
        names.setdefault(node, None)
    return names, {node: tuple(found) for node, found in documents.items()}, problems


def _runs(past: PastRuns, environment: int, nodes: set[str]) -> list[tuple[PastRun, Mapping[str, str]]]:
    """Return the newest run, and as many before it as are needed to have one for each node."""
    found: list[tuple[PastRun, Mapping[str, str]]] = []
    left = set(nodes)
    for run in past.newest(environment, _LOOKED_BACK):
        if found and not left:
            break
        outcomes = past.outcomes(run.identity)
        if not found or not left.isdisjoint(outcomes):
            found.append((run, outcomes))
            left -= outcomes.keys()
    return found
