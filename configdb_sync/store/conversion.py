"""Encrypts what a database holds, encrypts it with another key, or decrypts it, while it is in use (U30).

First the database's marker says how everything is written from now on; then the rows are converted, batch by batch.
Each row tells itself how it is stored, so a call that was killed at any point is continued by the next one.
"""

from __future__ import annotations

import hashlib
import zlib
from collections import Counter
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from configdb_sync import failpoints
from configdb_sync.store import encryption
from configdb_sync.store.database import Database
from configdb_sync.store.encryption import Marker, SealedTable, is_keyed, key_id_of, prefix_of, start_of
from configdb_sync.store.keyring import EncryptionKeyError, Key
from configdb_sync.store.opening import TableSet, alone

_BATCH = 100


def convert(database: Database, tables: TableSet, *, clear: bool = False) -> int:
    """Encrypt everything with the first key, or with ``clear`` decrypt it; return how many rows were changed.

    Raises ``EncryptionKeyError`` if there are no keys, or not those that a row was encrypted with.
    """
    keyring = database.sealing.keyring
    if keyring is None:
        raise EncryptionKeyError("no key file is set", way_out="name one by the setting key_file; `keys make` makes it")
    key = keyring.primary
    marker = Marker(sealed=not clear, key=key.id)

    def set_marker(connection: Connection) -> None:
        alone(connection)
        if encryption.marker_of(connection, tables.table) != marker:
            encryption.mark(connection, tables.table, marker, tables.sealed)

    database.write(set_marker)
    assert database.settle is not None
    database.settle()
    failpoints.here("database-marked")
    rows = 0
    # A transaction that began before may have written the other way after its table was converted.
    while changed := sum(_convert(database, table, None if clear else key) for table in tables.sealed):
        rows += changed
    _clean(database)
    failpoints.here("database-converted")
    return rows


def usage(database: Database, tables: TableSet) -> Mapping[str | None, int]:
    """Return how many stored values were encrypted with each key, by its id; None stands for plain values."""

    def work(connection: Connection) -> Counter[str | None]:
        found: Counter[str | None] = Counter()
        there = set(sa.inspect(connection).get_table_names())
        for table in tables.sealed:
            for column in table.sealed if table.name in there else ():
                start = start_of(column)
                query = sa.select(start.label("start"), sa.func.count()).where(column.is_not(None)).group_by("start")
                for begin, count in connection.execute(query):
                    found[key_id_of(begin)] += count
        marker = encryption.marker_of(connection, tables.table)
        if marker is not None and marker.sealed:
            found[marker.key] += 0
        return found

    return database.read(work, snapshot=True)


def check_unused(connection: Connection, tables: TableSet, key: Key) -> bool:
    """Tell whether nothing is encrypted with a key; nothing will be until the transaction ends."""
    if connection.dialect.name == "postgresql":
        names = ", ".join(table.name for table in tables.sealed)
        connection.exec_driver_sql(f"LOCK TABLE {names} IN SHARE ROW EXCLUSIVE MODE")
    marker = encryption.marker_of(connection, tables.table)
    if marker is not None and marker.sealed and marker.key == key.id:
        return False
    return not any(
        connection.execute(
            sa.select(sa.literal(1)).select_from(table.table).where(start_of(column) == prefix_of(column, key)).limit(1)
        ).first()
        for table in tables.sealed
        for column in table.sealed
    )


def _convert(database: Database, table: SealedTable, key: Key | None) -> int:
    after: tuple[Any, ...] | None = None
    changed = 0
    while True:
        found = database.write(lambda connection: _batch(connection, table, key, after))  # noqa: B023  # called at once
        if not found:
            return changed
        changed += len(found)
        after = found[-1]
        failpoints.here("rows-converted")


def _batch(
    connection: Connection, table: SealedTable, key: Key | None, after: tuple[Any, ...] | None
) -> list[tuple[Any, ...]]:
    """Convert some rows after a place in the order of the primary key; return their keys."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("PRAGMA secure_delete=ON")
    keys = [table.table.c[name] for name in table.key]
    query = sa.select(*keys, *table.sealed).where(sa.or_(*_left(table, key))).order_by(*keys).limit(_BATCH)
    if after is not None:
        query = query.where(sa.tuple_(*keys) > after)
    rows = connection.execute(query.with_for_update()).all()
    for row in rows:
        values = {column.name: getattr(row, column.name) for column in table.sealed}
        if table.readdress is not None and is_keyed(row[0]) == (key is None):
            _move(connection, table, row[0], values)
        else:
            here = (column == value for column, value in zip(keys, row, strict=False))
            connection.execute(sa.update(table.table).where(*here).values(values))
    return [tuple(row[: len(keys)]) for row in rows]


def _left(table: SealedTable, key: Key | None) -> list[sa.ColumnElement[bool]]:
    """Return the conditions for the rows that are still to be converted."""
    if key is not None:
        others = [start_of(column) != prefix_of(column, key) for column in table.sealed]
        return [*others, *table.addressed(keyed=False)]
    sealed = [
        sa.func.substr(start, 1, len(mark)) == sa.literal(mark, type_=start.type)
        for column in table.sealed
        for start, mark in [(start_of(column), prefix_of(column, None))]
    ]
    return [*sealed, *table.addressed(keyed=True)]


def _move(connection: Connection, table: SealedTable, old: str, values: Mapping[str, Any]) -> None:
    """Give a content its other address: the plain one is a digest of what it holds."""
    plain = hashlib.sha256(zlib.decompress(values["body"])).hexdigest()
    new = encryption.sealing_of(connection.dialect).address(plain)
    name = table.key[0]
    column = table.table.c[name]
    if connection.execute(sa.select(column).where(column == new)).first() is None:
        connection.execute(sa.insert(table.table).values({name: new, **values}))
    assert table.readdress is not None
    table.readdress(connection, old, new)
    connection.execute(sa.delete(table.table).where(column == old))


def _clean(database: Database) -> None:
    """Remove old contents from SQLite's file and its log. PostgreSQL has tools of its own for it."""
    if database.postgresql:
        return
    with database.reading() as connection:
        connection.exec_driver_sql("VACUUM")
        busy = connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").one()[0]
    if busy:
        raise EncryptionKeyError(
            f"{database.what} is converted, but its log still holds the old contents: others read it all the time",
            way_out="run `configdb-sync keys convert` again",
        )
