"""Whether a change was stored whose connection was lost at its COMMIT: a row that went with it says so (R2).

Without it there would be two ways out, both wrong: to say that it failed, though it is there, or to do it again, maybe
over what another has written since. Transaction ids can't tell: a promoted standby gives them out again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from sqlalchemy import (
    Column,
    Connection,
    DateTime,
    Integer,
    MetaData,
    String,
    Table,
    delete,
    func,
    insert,
    select,
    text,
)

Result = TypeVar("Result")

TABLE = Table(
    "configdb_sync_commits",
    MetaData(),
    Column("token", String(40), primary_key=True),
    Column("attempt", Integer, nullable=False),
    Column("time", DateTime(timezone=True), nullable=False, server_default=func.now(), index=True),
)
"""Beside the tables of every room that keeps a database on PostgreSQL."""

_ADD = insert(TABLE)
_OLD = delete(TABLE).where(TABLE.c.time < text("now() - interval '1 day'"))


class OutcomeUnknownError(Exception):
    """The connection was lost at COMMIT."""


@dataclass
class Change(Generic[Result]):
    """One change through all its attempts, under one token: of two attempts that overlap (the first one's server may
    still be at work) the second waits for the first and then fails."""

    work: Callable[[Connection], Result]
    token: str
    results: list[Result] = field(default_factory=list)
    unknown: bool = False

    def attempt(self, connection: Connection) -> None:
        """Do the work in a transaction that is open."""
        self.results.append(self.work(connection))
        told: dict[str, Any] = {"token": self.token, "attempt": len(self.results) - 1}
        connection.execute(_ADD, told)

    def stored(self, connection: Connection) -> bool:
        """Tell whether an attempt was committed; its result is then the last one."""
        found = connection.execute(select(TABLE.c.attempt).where(TABLE.c.token == self.token)).scalar()
        if found is None:
            return False
        del self.results[found + 1 :]
        return True


def forget_old(connection: Connection) -> None:
    """Drop the rows that nobody asks for any more."""
    connection.execute(_OLD)
