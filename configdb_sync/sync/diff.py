"""What changes between two documents, leaf by leaf, without their secrets (U20). Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from configdb_sync.jsonvalues import ABSENT, Document, Json, Slot
from configdb_sync.masking import Masker, Path, is_secret_path
from configdb_sync.sync.three_way_merge import equal

LONGEST_SHOWN = 100


@dataclass(frozen=True)
class LeafChange:
    """One leaf or block that changes: its path and how each side shows, None where that side has nothing.

    The texts are compact JSON, masked, cut where long: made to be read, never to be parsed back.
    """

    path: Path
    before: str | None
    after: str | None

    @property
    def sign(self) -> str:
        """``+`` for what comes, ``-`` for what goes, ``~`` for what changes."""
        if self.before is None:
            return "+"
        return "-" if self.after is None else "~"


def change_json(change: LeafChange) -> dict[str, Json]:
    """Return a change as JSON values."""
    return {"key": list(change.path), "before": change.before, "after": change.after}


def changes(before: Document, after: Document, masker: Masker) -> tuple[LeafChange, ...]:
    """Return what differs, in the order of ``after``, then what is gone."""
    return tuple(_changes((), dict(before), dict(after), masker))


def _changes(path: Path, before: dict[str, Json], after: dict[str, Json], masker: Masker) -> Iterator[LeafChange]:
    for key in _keys(after, before):
        one, other = before.get(key, ABSENT), after.get(key, ABSENT)
        if equal(one, other):
            continue
        here = (*path, key)
        if isinstance(one, dict) and isinstance(other, dict):
            yield from _changes(here, one, other, masker)
        else:
            yield LeafChange(here, shown_value(here, one, masker), shown_value(here, other, masker))


def _keys(first: Iterable[str], second: Iterable[str]) -> list[str]:
    return list(dict.fromkeys([*first, *second]))


def shown_value(path: Path, value: Slot, masker: Masker) -> str | None:
    """Return how one side of a change shows, None for ``ABSENT``."""
    if value is ABSENT:
        return None
    if isinstance(value, dict) and value:
        return f"{{{len(value)} {'key' if len(value) == 1 else 'keys'}}}"
    if is_secret_path(path) and isinstance(value, list) and value:
        return masker.token(value)
    text = json.dumps(masker.shown(path, value), ensure_ascii=False)
    if len(text) > LONGEST_SHOWN:
        text = f"{text[: LONGEST_SHOWN - 1]}…"
    return "".join(character if character.isprintable() else f"\\u{ord(character):04x}" for character in text)
