"""Columns whose contents can be encrypted (*sealed*), and whether those of a database are (U30).

The database itself says whether new contents are sealed: by a row for each set of tables (``MARKERS``), and by triggers
that refuse everything else. A process that was started before a change learns of it by the refusal. Each stored value
tells whether it is sealed and with which key, so both kinds can be read at any time.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Dialect
from sqlalchemy.sql import operators
from sqlalchemy.types import TypeDecorator

from configdb_sync.store.keyring import ID_DIGITS, MAGIC, Key, Keyring, is_sealed, missing, sealed_with

REFUSED = "configdb-sync: this database says otherwise of what is encrypted"
"""The message of the triggers."""

_TEXT = "sealed:"
_ATTRIBUTE = "configdb_sync_sealing"


class Sealing:
    """How one database's sealed columns are read and written. ``on``: what is written is sealed.

    ``what`` names the database in errors.
    """

    def __init__(self, what: str, keyring: Keyring | None = None) -> None:
        self.what = what
        self.keyring = keyring
        self.on = False

    def of(self, dialect: Dialect) -> None:
        """Belong to an engine, by its dialect."""
        vars(dialect)[_ATTRIBUTE] = self

    def seal(self, content: bytes) -> bytes:
        """Return a content as it is to be stored."""
        if not self.on:
            return content
        assert self.keyring is not None
        return self.keyring.seal(content)

    def open(self, stored: bytes) -> bytes:
        """Return a content. Raises ``EncryptionKeyError``."""
        if not is_sealed(stored):
            return stored
        if self.keyring is None:
            raise missing(self.what, sealed_with(stored), None)
        return self.keyring.open(stored, self.what)

    def address(self, plain: str) -> str:
        """Return the address under which a content is to be stored: where contents are sealed, an HMAC of the sha256
        of its text. An address that is an HMAC already stays."""
        if not self.on or is_keyed(plain):
            return plain
        assert self.keyring is not None
        return self.keyring.address(plain)


_NONE = Sealing("a database")


def sealing_of(dialect: Dialect) -> Sealing:
    """Return how an engine's sealed columns are read and written."""
    found: Sealing = vars(dialect).get(_ATTRIBUTE, _NONE)
    return found


_KEYED = "k"


def is_keyed(address: str) -> bool:
    """Tell whether an address was made with a key."""
    return address.startswith(_KEYED)


_COMPARED = {operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge, operators.in_op}


class _Uncompared(TypeDecorator.Comparator[Any]):
    """The same content is sealed differently each time."""

    def operate(self, op: Any, *other: Any, **kwargs: Any) -> Any:
        if op in _COMPARED:
            raise TypeError("a sealed column can't be compared in SQL")
        return super().operate(op, *other, **kwargs)


class Sealed(TypeDecorator[bytes]):
    """Bytes that are sealed where the database says so."""

    impl = sa.LargeBinary
    cache_ok = True
    comparator_factory = _Uncompared

    def process_bind_param(self, value: bytes | None, dialect: Dialect) -> bytes | None:
        """Seal a value."""
        return None if value is None else sealing_of(dialect).seal(value)

    def process_result_value(self, value: Any | None, dialect: Dialect) -> bytes | None:
        """Open a stored value."""
        return None if value is None else sealing_of(dialect).open(value)


class SealedText(TypeDecorator[str]):
    """An ASCII text, a digest, that is sealed where the database says so."""

    impl = sa.Text
    cache_ok = True
    comparator_factory = _Uncompared

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Seal a text."""
        sealing = sealing_of(dialect)
        if value is None or not sealing.on:
            return value
        return _TEXT + sealing.seal(value.encode("ascii"))[len(MAGIC) :].hex()

    def process_result_value(self, value: Any | None, dialect: Dialect) -> str | None:
        """Open a stored text."""
        if value is None or not value.startswith(_TEXT):
            return value
        return sealing_of(dialect).open(MAGIC + bytes.fromhex(value[len(_TEXT) :])).decode("ascii")


def prefix_of(column: sa.ColumnElement[Any], key: Key | None) -> str | bytes:
    """Return what a column's sealed values begin with: those of a key, or all."""
    if isinstance(column.type, SealedText):
        return _TEXT + (key.id if key else "")
    return key.prefix if key else MAGIC


def key_id_of(start: str | bytes) -> str | None:
    """Return the id of the key that the beginning of a stored value names, None for a plain one."""
    if isinstance(start, str):
        return start[len(_TEXT) :] if start.startswith(_TEXT) else None
    return bytes(start)[len(MAGIC) :].hex() if is_sealed(bytes(start)) else None


@dataclass(frozen=True)
class SealedTable:
    """A table with sealed columns.

    ``readdress``: where rows are found by an address (the whole key), it has references follow to a new one.
    """

    table: sa.Table
    readdress: Callable[[Connection, str, str], None] | None = None

    @property
    def key(self) -> tuple[str, ...]:
        """The columns of its primary key."""
        return tuple(column.name for column in self.table.primary_key)

    @property
    def name(self) -> str:
        """Its name in the database."""
        return self.table.name

    @property
    def sealed(self) -> Sequence[sa.ColumnElement[Any]]:
        """Its sealed columns."""
        return [column for column in self.table.c if isinstance(column.type, (Sealed, SealedText))]

    def addressed(self, *, keyed: bool) -> Sequence[sa.ColumnElement[bool]]:
        """Return the condition for rows whose address is (not) made with a key; none for a table without addresses."""
        if self.readdress is None:
            return []
        start = sa.func.substr(self.table.c[self.key[0]], 1, 1)
        return [start == _KEYED if keyed else start != _KEYED]


def start_of(column: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """Return the expression for the beginning of a stored value, up to the key's id."""
    plain = sa.Text() if isinstance(column.type, SealedText) else sa.LargeBinary()
    length = len(_TEXT) + ID_DIGITS if isinstance(column.type, SealedText) else len(MAGIC) + ID_DIGITS // 2
    return sa.type_coerce(sa.func.substr(sa.type_coerce(column, plain), 1, length), plain)


MARKERS = sa.Table(
    "configdb_sync_keys",
    sa.MetaData(),
    sa.Column("tables", sa.String(64), primary_key=True),
    sa.Column("sealed", sa.Boolean, nullable=False),
    sa.Column("key", sa.String(ID_DIGITS), nullable=False),
)
"""For each set of tables (``TableSet.table``): whether what is written is sealed, and the key."""


@dataclass(frozen=True)
class Marker:
    """A row of ``MARKERS``."""

    sealed: bool
    key: str


def marker_of(connection: Connection, tables: str) -> Marker | None:
    """Return the marker of a set of tables, None if nothing in them was ever sealed."""
    if not sa.inspect(connection).has_table(MARKERS.name):
        return None
    row = connection.execute(sa.select(MARKERS).where(MARKERS.c.tables == tables)).first()
    return None if row is None else Marker(row.sealed, row.key)


def mark(connection: Connection, tables: str, marker: Marker, sealed: Sequence[SealedTable]) -> None:
    """Set the marker of a set of tables, and make the triggers that have all writers obey it."""
    MARKERS.create(connection, checkfirst=True)
    connection.execute(sa.delete(MARKERS).where(MARKERS.c.tables == tables))
    row = {"tables": tables, "sealed": marker.sealed, "key": marker.key}
    connection.execute(sa.insert(MARKERS), row)
    for one in sealed:
        guard(connection, one, sealed=marker.sealed)


def guard(connection: Connection, table: SealedTable, *, sealed: bool) -> None:
    """Make the triggers that refuse contents that aren't sealed, or are. Updates of other columns pass."""
    postgresql = connection.dialect.name == "postgresql"
    if postgresql:
        connection.exec_driver_sql(
            "CREATE OR REPLACE FUNCTION configdb_sync_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            f" RAISE EXCEPTION '{REFUSED}' USING ERRCODE = 'check_violation'; END $$"
        )
    conditions = [
        (column.name, event, f"substr(NEW.{column.name}, 1, {len(prefix)}) {'<>' if sealed else '='} {literal}")
        for column in table.sealed
        for prefix in [prefix_of(column, None)]
        for literal in [_literal(prefix, postgresql=postgresql)]
        for event in ("INSERT", f"UPDATE OF {column.name}")
    ]
    if table.readdress is not None and sealed:
        conditions.append((table.key[0], "INSERT", f"substr(NEW.{table.key[0]}, 1, 1) <> '{_KEYED}'"))
    for column_name, event, when in conditions:
        name = f"sealed_{table.name}_{column_name}_{event[:6].lower()}"
        action = f"BEGIN SELECT RAISE(ABORT, '{REFUSED}'); END"
        if postgresql:
            action = "EXECUTE FUNCTION configdb_sync_refuse()"
        _drop(connection, table, name)
        connection.exec_driver_sql(
            f"CREATE TRIGGER {name} BEFORE {event} ON {table.name} FOR EACH ROW WHEN ({when}) {action}"
        )
    if table.readdress is not None and not sealed:
        # A content that is used again while everything is decrypted still has its keyed address.
        _drop(connection, table, f"sealed_{table.name}_{table.key[0]}_insert")


def _drop(connection: Connection, table: SealedTable, trigger: str) -> None:
    where = f" ON {table.name}" if connection.dialect.name == "postgresql" else ""
    connection.exec_driver_sql(f"DROP TRIGGER IF EXISTS {trigger}{where}")


def _literal(prefix: str | bytes, *, postgresql: bool) -> str:
    if isinstance(prefix, str):
        return f"'{prefix}'"
    return f"'\\x{prefix.hex()}'::bytea" if postgresql else f"X'{prefix.hex()}'"


def settle(sealing: Sealing, marker: Marker | None) -> None:
    """Have contents written as a marker says. Raises ``EncryptionKeyError`` if the key for it isn't there."""
    if marker is None or not marker.sealed:
        sealing.on = False
        return
    if sealing.keyring is None:
        raise missing(sealing.what, marker.key, None)
    if sealing.keyring.key(marker.key) is None:
        raise missing(sealing.what, marker.key, sealing.keyring.path)
    sealing.on = True
