"""What there is to show, gathered once for all that show it: the API's answers, the pages, and the file.

A *scope* is a tenant's ID: only what that tenant owns is told then, and nothing of anyone else; None is an operator's.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

import sqlalchemy as sa
from sqlalchemy import Connection

from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.model import DocumentAddress as Document
from configdb_sync.configdb.model import DocumentVersion
from configdb_sync.names import LevelPath
from configdb_sync.store import schema
from configdb_sync.store.runs import PastRun
from configdb_sync.store.states import Matrix, NodeRow, Problem, read_matrix, stamp_of
from configdb_sync.sync.diff import Change, changes
from configdb_sync.sync.history import histories
from configdb_sync.tenants.listing import Page
from configdb_sync.tenants.page.chronicle import Chronicle
from configdb_sync.tenants.rows import Holding, Resource, holding_of, resource_of
from configdb_sync.tenants.status import Counts, Status

TENANTS, HOLDINGS, RESOURCES = schema.TENANTS, schema.HOLDINGS, schema.RESOURCES
_LIVE = sa.and_(sa.or_(HOLDINGS.c.home, HOLDINGS.c.size > 0), TENANTS.c.deleted.is_(None))
MOST_CHANGES = 200
"""Changes of one version that are told one by one; the rest is counted."""


@dataclass(frozen=True)
class Standing:
    """An environment: what each tenant has in it, by tenant ID, and its newest run."""

    environment: int
    holdings: tuple[tuple[str, Holding], ...]
    newest: PastRun | None = None

    @property
    def counts(self) -> Counts:
        """Its data sources by status, of all its tenants here."""
        return sum((holding.counts for _, holding in self.holdings), Counts())


@dataclass(frozen=True)
class Source:
    """A data source of an environment; ``tenant`` and ``resource`` are None if nobody owns it."""

    name: str
    tenant: str | None
    resource: Resource | None

    @property
    def status(self) -> Status | None:
        """Its status, None if nobody says."""
        return None if self.resource is None else self.resource.status


@dataclass(frozen=True)
class Stand:
    """How an environment stands: its data sources, and each of its nodes (``Matrix``); the sources in the matrix's
    order. ``stamp`` changes when the matrix may."""

    sources: tuple[Source, ...]
    matrix: Matrix
    stamp: tuple[object, ...]


@dataclass(frozen=True)
class Step:
    """One version of a document with what it changed; ``changes`` is None if the version before isn't kept any more.
    ``more``: changes that are left out."""

    version: DocumentVersion
    changes: tuple[Change, ...] | None
    more: int = 0


def environments(
    connection: Connection, scope: str | None, marker: int | None, limit: int, only: int | None = None
) -> Page[Standing]:
    """Return environments by number, without their runs; ``only``: this one alone."""
    joined = HOLDINGS.join(TENANTS, TENANTS.c.number == HOLDINGS.c.tenant)
    wanted = [_LIVE]
    if scope is not None:
        wanted.append(TENANTS.c.id == scope)
    if marker is not None:
        wanted.append(HOLDINGS.c.environment > marker)
    if only is not None:
        wanted.append(HOLDINGS.c.environment == only)
    numbers = sa.select(HOLDINGS.c.environment).select_from(joined).where(*wanted).distinct()
    found = list(connection.scalars(numbers.order_by(HOLDINGS.c.environment).limit(limit + 1)))
    more, found = len(found) > limit, found[:limit]
    held: dict[int, list[tuple[str, Holding]]] = defaultdict(list)
    rows = sa.select(HOLDINGS, TENANTS.c.id.label("owner")).select_from(joined)
    for row in connection.execute(rows.where(*wanted, HOLDINGS.c.environment.in_(found)).order_by(TENANTS.c.id)):
        held[row.environment].append((row.owner, holding_of(row[:-1])))
    items = tuple(Standing(number, tuple(held[number])) for number in found)
    return Page(items, str(found[-1]) if more else None)


def with_runs(chronicle: Chronicle, page: Page[Standing]) -> Page[Standing]:
    """Return the page with each environment's newest run."""
    newest = chronicle.past.newest_of([one.environment for one in page.items])
    return Page(tuple(replace(one, newest=newest.get(one.environment)) for one in page.items), page.marker)


def sources(connection: Connection, environment: int, scope: str | None) -> dict[str, Source]:
    """Return an environment's owned data sources by name; those of tenants that are marked for deletion too, for an
    operator."""
    statement = (
        sa.select(RESOURCES, TENANTS.c.id.label("owner"))
        .join(HOLDINGS, HOLDINGS.c.number == RESOURCES.c.holding)
        .join(TENANTS, TENANTS.c.number == HOLDINGS.c.tenant)
        .where(RESOURCES.c.environment == environment)
    )
    if scope is not None:
        statement = statement.where(TENANTS.c.id == scope)
    return {row.name: Source(row.name, row.owner, resource_of(row[:-1])) for row in connection.execute(statement)}


def stand(chronicle: Chronicle, owned: dict[str, Source], environment: int, scope: str | None) -> Stand:
    """Return how an environment stands. ``owned``: its data sources (``sources``)."""
    stamp = stamp_of(chronicle.database, chronicle.past, environment)
    names = tuple(sorted(owned))
    found = chronicle.kept(
        ("matrix", environment, names, scope is None),
        stamp,
        lambda: read_matrix(chronicle.database, chronicle.past, environment, names, more=scope is None),
    )
    told = tuple(owned.get(name, Source(name, None, None)) for name in found.data_sources)
    if scope is not None:
        rows = tuple(_own(row, owned) for row in found.rows if any(one is not None for one in row.states))
        found = replace(found, rows=rows)
    return Stand(told, found, stamp)


def _own(row: NodeRow, owned: dict[str, Source]) -> NodeRow:
    """Return what a tenant may know of a node: what is wrong with it as a whole may name others' data sources."""
    problems = tuple(
        one if one.data_source is not None else Problem(None, "the node as a whole failed in its last run")
        for one in row.problems
        if one.data_source is None or one.data_source in owned
    )
    return row._replace(problems=problems)


def chosen_rows(found: Matrix, node: str, status: str) -> tuple[NodeRow, ...]:
    """Return the rows whose identity or FQDN holds ``node``, and of which some state is ``status`` (``""``: any)."""
    rows = found.rows
    if node:
        part = node.casefold()
        rows = tuple(row for row in rows if part in row.node.casefold() or part in (row.fqdn or "").casefold())
    if status:
        wanted = None if status == "null" else status
        rows = tuple(row for row in rows if any((one and one.value) == wanted for one in row.states))
    return rows


def steps(
    chronicle: Chronicle,
    client: ConfigDBClient,
    document: Document,
    kind: str,
    *,
    before: int | None,
    limit: int,
) -> tuple[list[Step], int | None]:
    """Return versions of a document, newest first, each with its changes, and the marker for those that follow.

    ``before``: only versions below that number. Raises ``ConfigDBError``, ``StateError``.
    """
    past = histories(client, chronicle.versions)
    listed = [version for version in past.history(document, kind) if before is None or version.number < before]
    chosen = listed[: limit + 1]
    contents = [past.version(document, kind, version.number) for version in chosen]
    found = []
    for place, version in enumerate(chosen[:limit]):
        if place + 1 < len(chosen):
            told: tuple[Change, ...] | None = changes(contents[place + 1], contents[place], chronicle.masker)
        else:
            told = changes({}, contents[place], chronicle.masker) if version.number == 1 else None
        cut = told if told is None else told[:MOST_CHANGES]
        found.append(Step(version, cut, 0 if told is None else max(0, len(told) - MOST_CHANGES)))
    return found, chosen[limit - 1].number if len(chosen) > limit else None


def document_of(environment: int, levels: LevelPath, resource: Resource, definition: int) -> Document:
    """Return the place of a data source's documents at a level."""
    return Document(environment, levels, resource.name, definition, innermost=bool(levels))
