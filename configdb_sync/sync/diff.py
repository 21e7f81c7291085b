"""What changes between two documents, leaf by leaf, without their secrets (U20). Pure."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from configdb_sync.jsonvalues import ABSENT, Document, Json, Slot
from configdb_sync.masking import Masker, Path, is_secret_path
from configdb_sync.overrides.notes import Note, of_key, to_json
from configdb_sync.sync.three_way_merge import equal

LONGEST_SHOWN = 100


@dataclass(frozen=True)
class LeafChange:
    """One leaf that changes, or one block of ``new_keys``: its path and how each side shows.

    A side is None where it has nothing. The texts are compact JSON, masked, cut where long: made to be read, never to
    be parsed back. ``note``: that of the override which makes the change, if it has one.
    """

    path: Path
    before: str | None
    after: str | None
    note: Note | None = None

    @property
    def sign(self) -> str:
        """``+`` for what comes, ``-`` for what goes, ``~`` for what changes."""
        if self.before is None:
            return "+"
        return "-" if self.after is None else "~"


def change_json(change: LeafChange) -> dict[str, Json]:
    """Return a change as JSON values."""
    found: dict[str, Json] = {"key": list(change.path), "before": change.before, "after": change.after}
    if change.note is not None:
        note = to_json(change.note)
        about = {name: note[name] for name in ("author", "time", "reason", "until") if name in note}
        found["override"] = {"level": change.note.place, **about}
    return found


def changes(before: Document, after: Document, masker: Masker) -> tuple[LeafChange, ...]:
    """Return what differs, in the order of ``after``, then what is gone.

    A mapping that comes or goes is shown by its leaves; lists are leaves.
    """
    return tuple(_changes((), dict(before), dict(after), masker))


def noted(
    found: Iterable[LeafChange],
    notes: Iterable[Note],
    data_source: str,
    levels: Iterable[tuple[str, Document, Document]],
) -> tuple[LeafChange, ...]:
    """Return changes of a node's file with the notes on the overrides that make them.

    ``levels``: place, values and overrides of the data source, from the root to the node; the innermost that has a
    top-level key gives it.
    """
    here = [note for note in notes if note.data_source == data_source]
    by_key: dict[str, str | None] = {}
    holding: list[Note] = []
    for place, values, overrides in levels if here else ():
        by_key |= dict.fromkeys(values) | dict.fromkeys(overrides, place)
        holding += [note for note in here if note.place == place and note.holds(overrides)]
    places = ((change, by_key.get(change.path[0])) for change in found)
    return tuple(
        change if place is None else replace(change, note=of_key(holding, place, data_source, change.path))
        for change, place in places
    )


def new_keys(document: Document, masker: Masker) -> tuple[LeafChange, ...]:
    """Return the keys of a document that is new as a whole, each top-level block as one change."""
    return tuple(_new_key(key, shown_value((key,), value, masker)) for key, value in document.items())


@functools.lru_cache(maxsize=4096)
def _new_key(key: str, shown: str | None) -> LeafChange:
    # A run's report keeps the changes of all nodes, and most blocks are the same on each.
    return LeafChange((key,), None, shown)


def _changes(path: Path, before: Slot, after: Slot, masker: Masker) -> Iterator[LeafChange]:
    if equal(before, after):
        return
    old, new = _block(before), _block(after)
    if not old and not new:
        yield LeafChange(path, shown_value(path, before, masker), shown_value(path, after, masker))
        return
    if before is not ABSENT and not isinstance(before, dict):
        yield LeafChange(path, shown_value(path, before, masker), None)
    for key in dict.fromkeys([*new, *old]):
        yield from _changes((*path, key), old.get(key, ABSENT), new.get(key, ABSENT), masker)
    if after is not ABSENT and not isinstance(after, dict):
        yield LeafChange(path, None, shown_value(path, after, masker))


def _block(slot: Slot) -> dict[str, Json]:
    return slot if isinstance(slot, dict) else {}


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
