"""The tables of the product's own database, as queries name them (``migrations``)."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from configdb_sync.clock import Clock
from configdb_sync.database.sealing import Sealed, SealedTable, SealedText

RUNS = sa.table(
    "runs",
    *(sa.column(name, sa.Text) for name in ("identity", "place", "author", "host", "kind", "stage", "outcome")),
    *(sa.column(name, sa.Integer) for name in ("environment", "pid", "exit", "nodes", "uploads", "writes", "problems")),
    sa.column("bytes", sa.BigInteger),
    sa.column("number", sa.BigInteger),
    sa.column("digest", sa.Text),
    sa.column("started", sa.Double),
    sa.column("finished", sa.Double),
)

RUN_NODES = sa.table(
    "run_nodes",
    *(sa.column(name, sa.Text) for name in ("run", "node", "outcome")),
    *(sa.column(name, sa.Integer) for name in ("uploads", "writes", "problems")),
)

RUN_REPORTS = sa.table("run_reports", sa.column("run", sa.Text), sa.column("body", Sealed()))

OPEN_PROBLEMS = sa.table(
    "open_problems",
    *(sa.column(name, sa.Text) for name in ("place", "node", "data_source", "what", "run")),
    *(sa.column(name, sa.Integer) for name in ("environment", "number")),
)

LEASES = sa.table(
    "leases",
    sa.column("environment", sa.Integer),
    sa.column("run", sa.Text),
    sa.column("host", sa.Text),
    sa.column("until", sa.Double),
)

WITHHELD = sa.table(
    "withheld",
    *(sa.column(name, sa.Text) for name in ("digest", "run", "author", "spent")),
    *(sa.column(name, sa.Integer) for name in ("environment", "runs")),
    sa.column("noted", sa.Double),
    sa.column("approved", sa.Double),
    sa.column("changes", Sealed()),
)

VERSIONS = sa.table(
    "document_versions",
    *(sa.column(name, sa.Text) for name in ("server", "level", "data_source", "kind")),
    *(sa.column(name, sa.Text) for name in ("author", "run", "comment", "content")),
    sa.column("digest", SealedText()),
    sa.column("environment", sa.BigInteger),
    sa.column("number", sa.Integer),
    sa.column("time", sa.Double),
)

BLOBS = sa.table("document_blobs", sa.column("address", sa.Text), sa.column("body", Sealed()))


def next_number(connection: Connection, column: sa.ColumnClause[int]) -> int:
    """Return a number above all that a table has: an order of rows that no clock can turn around."""
    last = connection.execute(sa.select(sa.func.max(column))).scalar()
    return 1 if last is None else last + 1


def now_of(connection: Connection, clock: Clock) -> float:
    """Return seconds since the epoch by the clock that all masters share: the database server's where there is one."""
    if connection.dialect.name == "sqlite":
        return clock.now().timestamp()
    return float(connection.execute(sa.select(sa.extract("epoch", sa.func.clock_timestamp()))).scalar_one())


RECORDS = sa.table(
    "records",
    *(sa.column(name, sa.Text) for name in ("place", "node", "data_source", "run")),
    sa.column("environment", sa.Integer),
    sa.column("number", sa.BigInteger),
    sa.column("body", Sealed()),
)

NODES = sa.table(
    "nodes",
    *(sa.column(name, sa.Text) for name in ("place", "node", "fqdn", "run")),
    sa.column("environment", sa.Integer),
)

QUIET = sa.table(
    "quiet",
    *(sa.column(name, sa.Text) for name in ("place", "node")),
    sa.column("environment", sa.Integer),
    sa.column("body", Sealed()),
)


def _readdress(connection: Connection, old: str, new: str) -> None:
    connection.execute(sa.update(VERSIONS).where(VERSIONS.c.content == old).values(content=new))


SEALED = (
    SealedTable(RECORDS, ("place", "environment", "node", "data_source")),
    SealedTable(QUIET, ("place", "environment", "node")),
    SealedTable(RUN_REPORTS, ("run",)),
    SealedTable(WITHHELD, ("digest",)),
    SealedTable(BLOBS, ("address",), _readdress),
    SealedTable(VERSIONS, ("server", "environment", "level", "data_source", "kind", "number")),
)
"""Those whose contents can be sealed (U30)."""
