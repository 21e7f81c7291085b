"""A query that nearly every request makes: compiled once, then asked of the driver itself.

What SQLAlchemy does around one statement takes several times what SQLite takes to find a row by its key, and that was
most of a request. Nothing is kept between two calls but the statement's text: each sees what is committed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from configdb_sync.database.database import Database
from configdb_sync.database.sealing import Sealed, SealedText

Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class _Compiled:
    """A statement in a driver's own words: ``known`` are the values of all its parameters, ``order`` their order where
    the driver takes no names."""

    text: str
    known: dict[str, Any]
    order: tuple[str, ...] | None

    def given(self, values: dict[str, Any]) -> tuple[Any, ...] | dict[str, Any]:
        told = self.known | values
        return told if self.order is None else tuple(map(told.__getitem__, self.order))


@dataclass(frozen=True)
class Lookup:
    """A SELECT. Values come as the driver has them: texts for enumerations, SQLite's numbers for booleans."""

    statement: sa.Select[Any]
    _compiled: dict[str, _Compiled] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # The driver's own values: what is sealed would come out sealed.
        assert not any(isinstance(one.type, (Sealed, SealedText)) for one in self.statement.selected_columns)

    def rows(self, database: Database, **values: Any) -> Rows:
        """Return all rows; ``values`` are the statement's parameters. Raises as ``Database.read``."""
        compiled = self._compiled.get(database.dialect) or self._compile(database)
        found = database.fetch(compiled.text, compiled.given(values))
        if found is not None:
            return found
        # The driver complained. The ordinary way tells a lost connection from a fault, and says it as ever.
        return database.read(lambda one: [tuple(row) for row in one.execute(self.statement, values)])

    def _compile(self, database: Database) -> _Compiled:
        made = database.compiled(self.statement)
        order = tuple(made.positiontup or ()) if made.positional else None
        self._compiled[database.dialect] = _Compiled(str(made), dict(made.params), order)
        return self._compiled[database.dialect]
