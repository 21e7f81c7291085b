"""The one rule of locks for structure and contents; ``docs/decisions/locks.md`` says why.

Structure is what says where a document's place is: components and resource definitions (the *catalog*), environments,
their levels and their list of components. Contents are the documents in these places. There are two locks, always
taken in this order, before anything else in the transaction:

====================================================  =========  ===================
a transaction that changes                            catalog    environment
====================================================  =========  ===================
the contents of an environment                        shared     shared
levels or components of an environment, or deletes it shared     exclusive
components, definitions, the set of environments      exclusive
====================================================  =========  ===================

So a writer finds its place and writes there before the place is changed, or finds the place as the change left it.
SQLite has one writer at a time anyway. Every change goes through one of the three functions here, and each bears
being run again from the start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection, TextClause, text

from configdb_sync.store.database import Database

Result = TypeVar("Result")
Work = Callable[[Connection], Result]

_CATALOG, _ENVIRONMENT = 0x636F6E66, 0x636F6E67
"""PostgreSQL's first key of advisory locks: any numbers, the same in all processes."""

_CONTENTS = text(
    "SELECT pg_advisory_xact_lock_shared(:catalog, 0), pg_advisory_xact_lock_shared(:environment, :number)"
).bindparams(catalog=_CATALOG, environment=_ENVIRONMENT)
_PLACES = text(
    "SELECT pg_advisory_xact_lock_shared(:catalog, 0), pg_advisory_xact_lock(:environment, :number)"
).bindparams(catalog=_CATALOG, environment=_ENVIRONMENT)
_ALL = text("SELECT pg_advisory_xact_lock(:catalog, 0)").bindparams(catalog=_CATALOG)


def change_contents(database: Database, environment: int, work: Work[Result]) -> Result:
    """Return what ``work`` does to documents of an environment, whose structure stays as it is meanwhile."""
    # A content that another transaction's sweep takes away at this moment breaks the version's foreign key.
    return _locked(database, work, _CONTENTS, meeting=True, number=_key(environment))


def change_places(database: Database, environment: int, work: Work[Result]) -> Result:
    """Return what ``work`` does to one environment; nothing is written in it meanwhile."""
    return _locked(database, work, _PLACES, number=_key(environment))


def change_catalog(database: Database, work: Work[Result]) -> Result:
    """Return what ``work`` does to components, definitions or the set of environments; it is alone meanwhile."""
    return _locked(database, work, _ALL)


def _locked(
    database: Database, work: Work[Result], locks: TextClause, *, meeting: bool = False, **values: int
) -> Result:
    def locked(connection: Connection) -> Result:
        if database.postgresql:
            connection.execute(locks, values)
        return work(connection)

    return database.write(locked, meeting=meeting)


def _key(environment: int) -> int:
    # Ids have 63 bits, keys 32 with a sign. Two environments of one key only wait for each other.
    return environment % 2**31
