"""Values that Ruby's YAML has and JSON lacks, each with the text as which it travels (U19)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["symbol", "integer", "date", "time", "merge"]


@dataclass(frozen=True, slots=True)
class Special:
    """A Symbol, date or time anywhere, or an integer as a mapping's key.

    ``text`` is its JSON form: ``:name``, ``7``, ``2016-01-31``, ``2016-01-31T10:00:00.5Z`` (``Z`` is UTC, ``+02:00``
    a fixed offset, nothing the node's own zone). Equal specials are equal keys for Ruby.
    """

    kind: Kind
    text: str


class ScalarError(ValueError):
    """A scalar that Ruby can't read, or that JSON can't carry; the text says why, without the scalar."""


MERGE = Special("merge", "<<")
"""What ``<<`` is until its place shows whether it is a merge key or the string ``<<``."""
