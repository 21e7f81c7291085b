"""Stored documents: reading their halves, and the one way to change one. All in the caller's transaction."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from configdb_sync.configdb import level_merge
from configdb_sync.configdb_server import schema
from configdb_sync.configdb_server.contents import EMPTY, DocumentContent, columns_of, digests_of, sweep
from configdb_sync.configdb_server.document_paths import ROOT, DocumentPlace, Kind
from configdb_sync.configdb_server.messages import Authorship, ConfigDBRequest
from configdb_sync.jsonvalues import EMPTY_DIGEST, combine_digests
from configdb_sync.names import place_of
from configdb_sync.store.database import Database, insert_of
from configdb_sync.web.refusals import refuse
from configdb_sync.web.requests import Preconditions

_PRUNE_EVERY = 8
"""Pruning costs a third of a change, so it is done in one go for several; ``history`` shows only those that count."""

_DOCUMENTS = schema.documents
_CONTENTS = schema.contents
_VERSIONS = schema.versions


@dataclass(frozen=True)
class Half:
    """The values or the overrides of one document: ``version`` 0 is never written, ``body`` None is ``{}``."""

    version: int = 0
    digest: str = EMPTY_DIGEST
    address: str | None = None
    body: bytes | None = field(default=None, repr=False)

    @property
    def empty(self) -> bool:
        """Tell whether it is ``{}``, written or not."""
        return self.digest == EMPTY_DIGEST


@dataclass(frozen=True)
class Both:
    """One document: values and overrides."""

    values: Half = Half()
    overrides: Half = Half()

    def half(self, kind: Kind) -> Half:
        """Return the one asked for."""
        return self.values if kind == "values" else self.overrides


def _columns() -> list[Any]:
    return [column for column in _DOCUMENTS.c if column.name != "environment_id"]


_VALUES = _CONTENTS.alias("values_content_row")
_OVERRIDES = _CONTENTS.alias("overrides_content_row")


ENVIRONMENT = sa.bindparam("environment", type_=sa.BigInteger)


def at_place(number: int) -> tuple[Any, ...]:
    """Return the conditions for the documents at one place of a chain, whose parameters are ``chain_parameters``."""
    return (
        _DOCUMENTS.c.environment_id == ENVIRONMENT,
        _DOCUMENTS.c.level == sa.bindparam(f"level_{number}", type_=sa.Text),
        _DOCUMENTS.c.level_value == sa.bindparam(f"value_{number}", type_=sa.Text),
    )


def chain_parameters(environment: int, chain: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Return the parameters of a statement about the places of a chain."""
    told: dict[str, Any] = {"environment": environment}
    for number, (level, value) in enumerate(chain):
        told |= {f"level_{number}": level, f"value_{number}": value}
    return told


@functools.lru_cache(64)
def _chain(depth: int, *, bodies: bool) -> sa.CompoundSelect[Any]:
    # One exact look into the index for each place, whatever the planner believes of the table: by lists of levels
    # and values a database without statistics reads all documents of the data source.
    joined = _DOCUMENTS.outerjoin(_VALUES, _VALUES.c.address == _DOCUMENTS.c.values_content).outerjoin(
        _OVERRIDES, _OVERRIDES.c.address == _DOCUMENTS.c.overrides_content
    )
    with_bodies = sa.select(
        *_columns(), _VALUES.c.body.label("values_body"), _OVERRIDES.c.body.label("overrides_body")
    ).select_from(joined)
    one = with_bodies if bodies else sa.select(*_columns())
    return sa.union_all(*(one.where(*at_place(number), _OF_DEFINITION) for number in range(depth)))


_OF_DEFINITION = _DOCUMENTS.c.definition_id == sa.bindparam("definition", type_=sa.BigInteger)
_LOCKED = sa.select(*_columns()).where(*at_place(0), _OF_DEFINITION).with_for_update()
_BODY = sa.select(_CONTENTS.c.body).where(_CONTENTS.c.address == sa.bindparam("address", type_=sa.Text))


def both_of(row: Any) -> Both:
    """Return the halves of a row of documents, with bodies if it has them."""
    bodies = row._mapping  # noqa: SLF001  # the public name of a row's mapping
    return Both(
        Half(row.values_version, row.values_digest, row.values_content, bodies.get("values_body")),
        Half(row.overrides_version, row.overrides_digest, row.overrides_content, bodies.get("overrides_body")),
    )


def read_chain(connection: Connection, place: DocumentPlace, *, bodies: bool) -> list[Both]:
    """Return the documents along a place's levels, the root's first, empty ones for those not stored."""
    chain = [ROOT, *place.levels]
    rows = _rows(connection, place, chain, bodies=bodies)
    found = {(row.level, row.level_value): both_of(row) for row in rows}
    return [found.get(key, Both()) for key in chain]


def read_one(connection: Connection, place: DocumentPlace) -> Both:
    """Return the document of a place, with bodies."""
    rows = _rows(connection, place, [place.own], bodies=True)
    return next((both_of(row) for row in rows), Both())


def _rows(
    connection: Connection, place: DocumentPlace, chain: Sequence[tuple[str, str]], *, bodies: bool
) -> Iterable[Any]:
    return connection.execute(_chain(len(chain), bodies=bodies), _parameters(place, chain))


def _parameters(place: DocumentPlace, chain: Sequence[tuple[str, str]]) -> dict[str, Any]:
    return {**chain_parameters(place.environment, chain), "definition": place.definition}


def effective_digest(connection: Connection, chain: Sequence[Both]) -> str:
    """Return the digest of the effective data of a chain; no document is read for it."""
    halves = filled_halves(chain)
    return merged_digest(halves, key_digests(connection, (half.address for half in halves)) if len(halves) > 1 else {})


def filled_halves(chain: Iterable[Both]) -> list[Half]:
    """Return the values and overrides that aren't empty, in the order of the merge."""
    return [half for both in chain for half in (both.values, both.overrides) if not half.empty]


def merged_digest(halves: Sequence[Half], digests: Mapping[str | None, Mapping[str, str]]) -> str:
    """Return the digest of what halves merge to; ``digests`` are of their keys, used only if they are several."""
    if len(halves) <= 1:
        return halves[0].digest if halves else EMPTY_DIGEST
    merged = level_merge.effective((digests[half.address], {}) for half in halves)
    return combine_digests(merged.items())


def key_digests(connection: Connection, addresses: Iterable[str | None]) -> dict[str | None, dict[str, str]]:
    """Return address -> key -> digest of contents; that of None is empty."""
    wanted = sorted({address for address in addresses if address is not None})
    found: dict[str | None, dict[str, str]] = {None: {}}
    for start in range(0, len(wanted), 500):
        part = wanted[start : start + 500]
        rows = connection.execute(
            sa.select(_CONTENTS.c.address, _CONTENTS.c.key_digests).where(_CONTENTS.c.address.in_(part))
        )
        found.update((row.address, digests_of(row.key_digests)) for row in rows)
    return found


@dataclass(frozen=True)
class Changed:
    """What a change left: the half's version and digest."""

    version: int
    digest: str


def change(
    request: ConfigDBRequest,
    connection: Connection,
    place: DocumentPlace,
    kind: Kind,
    *,
    preconditions: Preconditions,
    authorship: Authorship,
    new: Callable[[Half], DocumentContent],
    must_exist: bool = False,
) -> Changed:
    """Replace one half by what ``new`` makes of it; an equal document changes nothing, not even the history.

    The row is locked from the look at the present state to the end. ``new`` gets the half with its body only if
    ``must_exist``. Raises ``RefusalError``: 412 if a condition fails, 404 if it must exist and doesn't.
    """
    row = _lock(request.database, connection, place, create=not must_exist)
    if row is None:
        where = f"{place_of(place.levels)} of environment {place.environment}"
        raise refuse(404, f"nothing is stored for resource definition {place.definition} at {where}")
    present = both_of(row).half(kind)
    if not preconditions.hold(present.digest, exists=present.version > 0):
        raise refuse(412, f"the {kind} aren't what the condition names", ("ETag", f'"{present.digest}"'))
    if must_exist and present.address is not None:
        body = connection.execute(_BODY, {"address": present.address}).scalar_one()
        present = Half(present.version, present.digest, present.address, body)
    content = new(present)
    if present.version > 0 and content.digest == present.digest:
        return Changed(present.version, present.digest)
    version = present.version + 1
    address = request.database.sealing.address(content.address)
    told = {
        **columns_of(content),
        "address": address,
        "document_id": row.id,
        "kind": kind,
        "number": version,
        "content": address,
        "time": authorship.time,
        "author": authorship.author,
        "run": authorship.run,
        "comment": authorship.comment,
    }
    for statement in _writes(request.database.dialect, kind):
        connection.execute(statement, told)
    if version > request.limits.versions and not version % _PRUNE_EVERY:
        _prune(connection, row.id, kind, version - request.limits.versions)
    return Changed(version, content.digest)


@functools.cache
def _writes(dialect: str, kind: str) -> Sequence[Any]:
    content = insert_of(dialect)(_CONTENTS).values({column.name: sa.bindparam(column.name) for column in _CONTENTS.c})
    content = content.on_conflict_do_nothing()
    version = sa.insert(_VERSIONS).values({column.name: sa.bindparam(column.name) for column in _VERSIONS.c})
    document = (
        sa.update(_DOCUMENTS)
        .where(_DOCUMENTS.c.id == sa.bindparam("document_id"))
        .values(
            {
                f"{kind}_version": sa.bindparam("number"),
                f"{kind}_digest": sa.bindparam("digest"),
                f"{kind}_content": sa.bindparam("content"),
            }
        )
    )
    if dialect == "sqlite":
        return content, version, document
    # One way to the server and back instead of three.
    return (document.add_cte(content.cte("new_content"), version.cte("new_version")),)


def _lock(database: Database, connection: Connection, place: DocumentPlace, *, create: bool) -> Any:
    level, value = place.own
    key = _parameters(place, [place.own])
    found = connection.execute(_LOCKED, key).first()
    if found is not None or not create:
        return found
    connection.execute(
        database.insert(_DOCUMENTS).on_conflict_do_nothing(),
        {
            "environment_id": place.environment,
            "definition_id": place.definition,
            "level": level,
            "level_value": value,
            "values_digest": EMPTY.digest,
            "overrides_digest": EMPTY.digest,
        },
    )
    return connection.execute(_LOCKED, key).one()


def _prune(connection: Connection, document: int, kind: Kind, upto: int) -> None:
    gone = connection.execute(
        sa.delete(_VERSIONS)
        .where(_VERSIONS.c.document_id == document, _VERSIONS.c.kind == kind, _VERSIONS.c.number <= upto)
        .returning(_VERSIONS.c.content)
    ).scalars()
    sweep(connection, sorted(set(gone)))
