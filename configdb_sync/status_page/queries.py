"""What the status page shows, read from the product's own database, the registry and ConfigDB.

A *scope* is a tenant's ID: the answer is limited to what that tenant owns. An operator's scope is None.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import Connection

from configdb_sync.addresses import Addresses
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.model import DocumentAddress as Document
from configdb_sync.configdb.model import DocumentVersion
from configdb_sync.errors import ProductError
from configdb_sync.exits import Exit
from configdb_sync.hiera.arrangement import Arrangement
from configdb_sync.masking import Masker
from configdb_sync.setting_values import DEFAULT_LEVELS, Levels
from configdb_sync.store import tenant_schema
from configdb_sync.store.database import Database
from configdb_sync.store.runs import AT_WORK, DIED, FAILED, INTERRUPTED, PastRun, PastRuns, Problem, RunNode
from configdb_sync.store.schema import OPEN_PROBLEMS, RECORDS, RUN_NODES
from configdb_sync.store.states import Matrix, NodeRow, read_matrix, stamp_of
from configdb_sync.store.versions import VersionStore
from configdb_sync.sync.diff import LeafChange, changes
from configdb_sync.sync.history import histories
from configdb_sync.sync.standing_overrides import addresses_of
from configdb_sync.tenants.queries import Page, page_of
from configdb_sync.tenants.rows import LIVE, Holding, Resource, holding_of, resource_of
from configdb_sync.tenants.status import StatusCounts

TENANTS, HOLDINGS, RESOURCES = tenant_schema.TENANTS, tenant_schema.HOLDINGS, tenant_schema.RESOURCES
MOST_CHANGES = 200
"""Changes of one version that are listed; the rest is counted."""


T = TypeVar("T")


class StampedCache:
    """The newest ``most`` results, each valid while its stamp stays equal. Thread-safe."""

    def __init__(self, most: int = 16) -> None:
        self._most = most
        self._results: OrderedDict[Hashable, tuple[Any, Any]] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, key: Hashable, stamp: object, make: Callable[[], T]) -> T:
        """Return the result for a key: the cached one if its stamp is equal, else a new one."""
        with self._lock:
            cached = self._results.get(key)
            if cached is not None and cached[0] == stamp:
                self._results.move_to_end(key)
                value: T = cached[1]
                return value
        made = make()
        with self._lock:
            self._results[key] = (stamp, made)
            self._results.move_to_end(key)
            while len(self._results) > self._most:
                self._results.popitem(last=False)
        return made


@dataclass(frozen=True)
class History:
    """The product's own records: runs, versions, and a cache of what was computed from them.

    ``levels``: the hierarchy's levels with their templates from the settings, for environments that record none.
    ``arrangement``: which documents Hiera reads, by the settings.
    """

    database: Database
    past: PastRuns
    versions: VersionStore
    masker: Masker = field(repr=False)
    levels: Levels = DEFAULT_LEVELS
    arrangement: Arrangement = field(default_factory=Arrangement)
    cache: StampedCache = field(default_factory=StampedCache, repr=False, compare=False)

    def addresses(self, environment: int, client: Callable[[], ConfigDBClient] | None, stamp: object) -> Addresses:
        """Return where an environment's nodes are in ConfigDB: as runs recorded it there, else by the settings.

        The settings also decide while ConfigDB is unavailable. ``stamp`` changes when a run may have recorded
        something.
        """
        if client is not None:
            with contextlib.suppress(ProductError):
                found: Addresses = self.cache(
                    ("levels", environment), stamp, lambda: addresses_of(client(), environment, self.levels)
                )
                return found
        return Addresses(environment, self.levels)


@dataclass(frozen=True)
class EnvironmentSummary:
    """An environment: what each tenant has in it, by tenant ID, and its newest run."""

    environment: int
    holdings: tuple[tuple[str, Holding], ...]
    newest: PastRun | None = None

    @property
    def counts(self) -> StatusCounts:
        """Its data sources by status, of all its tenants here."""
        return sum((holding.counts for _, holding in self.holdings), StatusCounts())


@dataclass(frozen=True)
class SourceOwner:
    """A data source of an environment; ``tenant`` and ``resource`` are None if nobody owns it."""

    name: str
    tenant: str | None
    resource: Resource | None


@dataclass(frozen=True)
class NodeMatrix:
    """An environment's nodes by data sources, the sources in the matrix's order. ``stamp`` changes when the matrix
    may have changed."""

    sources: tuple[SourceOwner, ...]
    matrix: Matrix
    stamp: tuple[object, ...]


@dataclass(frozen=True)
class VersionChanges:
    """One version of a document and what it changed; ``changes`` is None if the previous version is no longer stored.
    ``more``: number of changes left out."""

    version: DocumentVersion
    changes: tuple[LeafChange, ...] | None
    more: int = 0


def environments(
    connection: Connection, scope: str | None, marker: int | None, limit: int, only: int | None = None
) -> Page[EnvironmentSummary]:
    """Return environments by number, without their runs; ``only``: just this one."""
    joined = HOLDINGS.join(TENANTS, TENANTS.c.number == HOLDINGS.c.tenant)
    wanted = [LIVE, TENANTS.c.deleted.is_(None)]
    if scope is not None:
        wanted.append(TENANTS.c.id == scope)
    if marker is not None:
        wanted.append(HOLDINGS.c.environment > marker)
    if only is not None:
        wanted.append(HOLDINGS.c.environment == only)
    numbers = sa.select(HOLDINGS.c.environment).select_from(joined).where(*wanted).distinct()
    found = list(connection.scalars(numbers.order_by(HOLDINGS.c.environment).limit(limit + 1)))
    page = page_of(found, limit, str)
    held: dict[int, list[tuple[str, Holding]]] = defaultdict(list)
    rows = sa.select(HOLDINGS, TENANTS.c.id.label("owner")).select_from(joined)
    for row in connection.execute(rows.where(*wanted, HOLDINGS.c.environment.in_(page.items)).order_by(TENANTS.c.id)):
        held[row.environment].append((row.owner, holding_of(row[:-1])))
    return Page([EnvironmentSummary(number, tuple(held[number])) for number in page.items], page.marker)


def sources(connection: Connection, environment: int, scope: str | None) -> dict[str, SourceOwner]:
    """Return an environment's owned data sources by name; operators also get those of tenants marked for deletion."""
    statement = (
        sa.select(RESOURCES, TENANTS.c.id.label("owner"))
        .join(HOLDINGS, HOLDINGS.c.number == RESOURCES.c.holding)
        .join(TENANTS, TENANTS.c.number == HOLDINGS.c.tenant)
        .where(RESOURCES.c.environment == environment)
    )
    if scope is not None:
        statement = statement.where(TENANTS.c.id == scope)
    return {row.name: SourceOwner(row.name, row.owner, resource_of(row[:-1])) for row in connection.execute(statement)}


def node_matrix(history: History, owned: dict[str, SourceOwner], environment: int, scope: str | None) -> NodeMatrix:
    """Return an environment's nodes by data sources. ``owned``: the result of ``sources``."""
    stamp = stamp_of(history.database, history.past, environment)
    names = tuple(sorted(owned))
    found = history.cache(
        ("matrix", environment, names, scope is None),
        stamp,
        lambda: read_matrix(history.database, history.past, environment, names, more=scope is None),
    )
    named = tuple(owned.get(name, SourceOwner(name, None, None)) for name in found.data_sources)
    if scope is not None:
        rows = tuple(_own(row, owned) for row in found.rows if any(one is not None for one in row.states))
        found = replace(found, rows=rows)
    return NodeMatrix(named, found, stamp)


def _own(row: NodeRow, owned: dict[str, SourceOwner]) -> NodeRow:
    """Return a node as a tenant may see it: a problem of the whole node may name other tenants' data sources."""
    problems = tuple(
        one if one.data_source is not None else Problem(None, "the node as a whole failed in its last run")
        for one in row.problems
        if one.data_source is None or one.data_source in owned
    )
    return row._replace(problems=problems)


def chosen_rows(found: Matrix, node: str, status: str) -> tuple[NodeRow, ...]:
    """Return the rows whose ID or FQDN contains ``node`` and that have a state ``status`` (``""``: any)."""
    rows = found.rows
    if node:
        part = node.casefold()
        rows = tuple(row for row in rows if part in row.node.casefold() or part in (row.fqdn or "").casefold())
    if status:
        wanted = None if status == "null" else status
        rows = tuple(row for row in rows if any((one and one.value) == wanted for one in row.states))
    return rows


def version_changes(
    history: History, client: ConfigDBClient, document: Document, kind: str, *, before: int | None, limit: int
) -> tuple[list[VersionChanges], int | None]:
    """Return versions of a document, newest first, each with its changes, and the marker for those that follow.

    ``before``: only versions below that number. Raises ``ConfigDBError``, ``StateError``.
    """
    past = histories(client, history.versions)
    listed = [version for version in past.history(document, kind) if before is None or version.number < before]
    chosen = listed[: limit + 1]
    contents = [past.version(document, kind, version.number) for version in chosen]
    found = []
    for index, version in enumerate(chosen[:limit]):
        changed: tuple[LeafChange, ...] | None = None
        if index + 1 < len(chosen):
            changed = changes(contents[index + 1], contents[index], history.masker)
        elif version.number == 1:
            changed = changes({}, contents[index], history.masker)
        listed_changes = None if changed is None else changed[:MOST_CHANGES]
        found.append(VersionChanges(version, listed_changes, max(0, len(changed or ()) - MOST_CHANGES)))
    return found, chosen[limit - 1].number if len(chosen) > limit else None


_UNENDED = frozenset({AT_WORK, DIED, INTERRUPTED})


@dataclass(frozen=True)
class EnvironmentRuns:
    """The runs of one environment: all of them, or what the owner of ``data_sources`` may see of them (T12).

    An owner sees runs that processed its nodes, and in each run only these nodes. They are the rows of the owner's
    matrix: nodes with a document, or a problem, of one of the data sources.
    """

    past: PastRuns
    database: Database
    environment: int
    data_sources: Collection[str] | None

    def newest(self, limit: int, before: int | None = None) -> list[PastRun]:
        """Return runs, newest first, as ``PastRuns.newest``; an owner's have counts and outcome of its nodes only."""
        if self.data_sources is None:
            return self.past.newest(self.environment, limit, before)
        return self._own(self.past.newest(self.environment, limit, before, nodes=self._nodes))

    def find(self, run: PastRun) -> tuple[PastRun, list[RunNode]] | None:
        """Return a run and what it did with nodes; None if it processed none of an owner's."""
        nodes = self.past.nodes_of(run.identity)
        if self.data_sources is None:
            return run, nodes
        own = set(self.database.read(lambda connection: list(connection.scalars(self._nodes))))
        nodes = [node for node in nodes if node.node in own]
        return (self._own([run])[0], nodes) if nodes else None

    def failed_nodes(self, runs: Sequence[PastRun]) -> dict[str, int]:
        """Return how many nodes failed in each of these runs."""
        if self.data_sources is None:
            return self.past.failed_nodes([run.identity for run in runs])
        found: dict[str, int] = Counter()
        for run, outcome, count in self._counts(runs):
            if outcome == FAILED:
                found[run] += count
        return found

    @property
    def _nodes(self) -> sa.Select[Any]:
        names = sorted(self.data_sources or ())
        found = [
            sa.select(table.c.node).where(table.c.environment == self.environment, table.c.data_source.in_(names))
            for table in (RECORDS, OPEN_PROBLEMS)
        ]
        return sa.select(sa.union(*found).subquery().c.node)

    def _own(self, runs: list[PastRun]) -> list[PastRun]:
        done: dict[str, int] = Counter()
        failed = self.failed_nodes(runs)
        for run, _, count in self._counts(runs):
            done[run] += count

        def outcome(run: PastRun) -> str:
            return run.outcome if run.outcome in _UNENDED else (Exit.PARTIAL if failed[run.identity] else Exit.OK).name

        return [replace(run, nodes=done[run.identity], outcome=outcome(run)) for run in runs]

    def _counts(self, runs: Sequence[PastRun]) -> list[tuple[str, str, int]]:
        query = (
            sa.select(RUN_NODES.c.run, RUN_NODES.c.outcome, sa.func.count())
            .where(RUN_NODES.c.run.in_([run.identity for run in runs]), RUN_NODES.c.node.in_(self._nodes))
            .group_by(RUN_NODES.c.run, RUN_NODES.c.outcome)
        )
        rows = self.database.read(lambda connection: connection.execute(query).all())
        return [(row[0], row[1], row[2]) for row in rows]
