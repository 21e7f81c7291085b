"""A change of one document in ConfigDB, and the place where that is (U16, U17)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from configdb_sync.configdb import edits
from configdb_sync.configdb.edits import KeyPath
from configdb_sync.jsonvalues import Json
from configdb_sync.names import LevelPath, place_of

VALUES = "values"
OVERRIDES = "overrides"


@dataclass(frozen=True)
class Place:
    """One data source at one level of one environment. ``innermost``: it is the level of a single node."""

    env: int
    levels: LevelPath
    data_source: str
    definition: int
    innermost: bool

    @property
    def level_text(self) -> str:
        """``/`` or ``/nodes/46/``."""
        return place_of(self.levels)


@dataclass(frozen=True)
class Change:
    """A document before and after a change; equal when there was nothing to do.

    ``kind`` is ``VALUES`` or ``OVERRIDES``; ``reason`` says why where the user gave no comment.
    """

    place: Place
    kind: str
    before: dict[str, Json] = field(repr=False)
    after: dict[str, Json] = field(repr=False)
    reason: str | None = None

    @property
    def leaves(self) -> list[KeyPath]:
        """The keys that changed."""
        return edits.changed_leaves(self.before, self.after)


OnChange: TypeAlias = Callable[[Change], None]
"""Is told of a change that was made."""
