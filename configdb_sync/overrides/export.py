"""What is overridden, leaf by leaf, as the entries of an overrides file (U28). Pure.

ConfigDB overrides whole top-level keys. Of such a block only what differs from the values becomes an entry; the rest of
it is only pinned.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from configdb_sync.configdb.edits import KeyPath
from configdb_sync.configdb.model import DocumentAddress
from configdb_sync.jsonvalues import ABSENT, Document, Json, Slot, same
from configdb_sync.masking import Masker
from configdb_sync.names import LevelPath
from configdb_sync.overrides.file import Reference, Wanted
from configdb_sync.overrides.notes import Note, of_key

_PREFIX = "OVERRIDE"


def level_text(levels: LevelPath) -> str:
    """Return a level as ``--level`` takes it, empty for the root."""
    return ",".join(f"{name}={value}" for name, value in levels)


def overridden(beneath: Document, overrides: Document) -> Iterator[tuple[KeyPath, Json]]:
    """Yield each leaf of the overrides that differs from what is beneath them, with its path.

    A mapping that lacks a key of the one beneath is one leaf: only as a whole it takes the key away.
    """
    for key, block in overrides.items():
        yield from _leaves((key,), beneath.get(key, ABSENT), block)


def _leaves(path: KeyPath, beneath: Slot, block: Json) -> Iterator[tuple[KeyPath, Json]]:
    known = {} if beneath is ABSENT else beneath
    if isinstance(block, dict) and block and isinstance(known, dict) and known.keys() <= block.keys():
        for key, child in block.items():
            yield from _leaves((*path, key), known.get(key, ABSENT), child)
    elif beneath is ABSENT or not same(beneath, block):
        yield path, block


def entries(
    place: DocumentAddress, level: str, documents: tuple[Document, Document], notes: Iterable[Note], now: datetime
) -> list[Wanted]:
    """Return a document of overrides as entries of a file, with what is noted of each; those that ended are left out.

    ``level``: the place's, as the entries name it. ``documents``: what is beneath the overrides, and they. ``notes``:
    all that there are.
    """
    beneath, overrides = documents
    here = (place.level_text, place.data_source)
    own = [note for note in notes if (note.place, note.data_source) == here and note.holds(overrides)]
    found = []
    for path, value in overridden(beneath, overrides):
        note = of_key(own, *here, path)
        if note is None or not note.expired(now):
            reason, end = (None, None) if note is None else (note.reason, note.until)
            until = None if end is None else end.isoformat(timespec="seconds")
            found.append(Wanted(level, place.data_source, path, value, reason, until))
    return found


def without_secrets(overrides: Iterable[Wanted], masker: Masker) -> tuple[list[Wanted], list[str]]:
    """Return the overrides with each secret replaced by a reference to a variable, and the variables' names.

    The names are made from level, data source and key, so they are the same at the next export.
    """
    found: list[Wanted] = []
    names: list[str] = []
    for one in sorted(overrides, key=lambda one: (one.level, one.data_source, one.path)):
        value = one.value
        if masker.shown(one.path, value) == value:
            found.append(one)
            continue
        names.append(_variable((*one.level.split(","), one.data_source, *one.path), names))
        found.append(replace(one, value=Reference("env", names[-1], "str" if isinstance(value, str) else "json")))
    return found, names


def _variable(parts: Sequence[str], taken: Sequence[str]) -> str:
    text = re.sub("[^A-Z0-9]+", "_", "_".join([_PREFIX, *parts]).upper()).strip("_")
    names = [text, *(f"{text}_{number}" for number in range(2, len(taken) + 3))]
    return next(name for name in names if name not in taken)
