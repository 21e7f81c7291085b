"""How each data source of an environment stands, by what runs recorded (S8): for the tenants' status."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

import sqlalchemy as sa
from sqlalchemy import Connection

from configdb_sync.database import Database
from configdb_sync.nodes.plain_names import natural_key
from configdb_sync.sync.journal import DIED
from configdb_sync.sync.past_runs import PastRuns
from configdb_sync.sync.tables import OPEN_PROBLEMS
from configdb_sync.sync.wording import one_line

_RECORDS = sa.table("records", sa.column("environment"), sa.column("node"), sa.column("data_source"))
_SHOWN = 3
_LONGEST = 500


class State(Enum):
    """What can be said of a data source."""

    BUILD = "BUILD"
    ACTIVE = "ACTIVE"
    ERROR = "ERROR"


@dataclass(frozen=True)
class SourceState:
    """A data source's state, with what goes on or went wrong. No secret is in it."""

    state: State
    details: str = ""


def source_states(database: Database, past: PastRuns, environment: int) -> dict[str, SourceState]:
    """Return the state of every data source that runs have a record or an open problem of.

    BUILD while a run is at work on the environment. Else ERROR if some node's document of it, or such a node as a
    whole, failed when it was last worked on, or the last run died; else ACTIVE: files and ConfigDB agreed.
    """
    working = past.at_work(environment)
    nodes, problems = database.read(lambda connection: _known(connection, environment))
    if working is not None:
        return dict.fromkeys(nodes, SourceState(State.BUILD, f"run {working.identity} is at work"))
    newest = past.newest(environment, 1)
    died = f"run {newest[0].identity} died" if newest and newest[0].outcome == DIED else ""
    found = {}
    for name in nodes:
        lines = [died] if died else []
        lines += [
            f"node {node}: {what}"
            for node, data_source, what in problems
            if data_source == name or (data_source is None and node in nodes[name])
        ]
        more = f" ... ({len(lines)})" if len(lines) > _SHOWN else ""
        details = one_line("; ".join(lines[:_SHOWN]) + more, _LONGEST)
        found[name] = SourceState(State.ERROR if lines else State.ACTIVE, details)
    return found


def _known(
    connection: Connection, environment: int
) -> tuple[Mapping[str, frozenset[str]], list[tuple[str, str | None, str]]]:
    """Return each data source's nodes, and the open problems as (node, data source, what)."""
    nodes: dict[str, set[str]] = defaultdict(set)
    records = sa.select(_RECORDS.c.data_source, _RECORDS.c.node).where(_RECORDS.c.environment == environment)
    for name, node in connection.execute(records):
        nodes[name].add(node)
    query = sa.select(OPEN_PROBLEMS).where(OPEN_PROBLEMS.c.environment == environment)
    problems = [(row.node, row.data_source, row.what) for row in connection.execute(query)]
    for node, name, _ in problems:
        if name is not None:
            nodes[name].add(node)
    problems.sort(key=lambda problem: natural_key(problem[0]))
    return {name: frozenset(found) for name, found in sorted(nodes.items())}, problems
