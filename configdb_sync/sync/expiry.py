"""Overrides that have come to their end: a run removes them before it looks at the nodes, a plan shows that (U27)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from configdb_sync.configdb import changes
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.edits import KeyPath, NotOverriddenError
from configdb_sync.configdb.model import OVERRIDES, DocumentAddress
from configdb_sync.configdb.preview import PreviewClient
from configdb_sync.jsonvalues import Json, same
from configdb_sync.overrides.note_store import NoteStore, documents_with
from configdb_sync.overrides.notes import Note, after_change

_COMMENT = "expired"


@dataclass(frozen=True)
class EndedOverride:
    """An override whose end has come, as plans and reports show it. ``level``: ``/`` or ``/nodes/46/``."""

    data_source: str
    level: str
    key: KeyPath
    until: str
    author: str
    reason: str | None


def preview(
    store: NoteStore, environment: int, found: Iterable[Note], now: datetime
) -> tuple[ConfigDBClient, tuple[EndedOverride, ...]]:
    """Return a client that sees ConfigDB without the overrides that have ended, and these; nothing is changed.

    ``found``: the notes on the environment's overrides.
    """
    shown: dict[DocumentAddress, dict[str, Json]] = {}
    ended = []
    for place, overrides, notes in documents_with(store, environment, _expired(found, now)):
        document = overrides
        for note in notes:
            freed = _freed(store.client, place, note, document)
            if not same(freed, document):
                ended.append(_shown(note))
            document = freed
        shown[place] = document
    return (PreviewClient(store.client, shown) if ended else store.client), tuple(ended)


def remove_ended(
    store: NoteStore, environment: int, now: datetime, may_change: Callable[[Collection[str]], bool]
) -> tuple[EndedOverride, ...]:
    """Remove the overrides that have ended, with their notes, and return them.

    ``may_change`` tells whether data sources may be worked on. An override that somebody changed since its note was
    made stays. Raises the errors of ``changes.rewrite``.
    """
    expired = [note for note in _expired(store.read(environment), now) if may_change([note.data_source])]
    if not expired:
        return ()
    removed: list[EndedOverride] = []
    for place, _, notes in documents_with(store, environment, expired):
        for note in notes:
            make = partial(_freed, store.client, place, note)
            change = changes.rewrite(store.client, place, make, kind=OVERRIDES, reason=_COMMENT)
            address, documents = (note.place, note.data_source), (change.before, change.after)
            store.change(
                environment, partial(after_change, address=address, path=note.path, documents=documents, ended=note)
            )
            if change.leaves:
                removed.append(_shown(note))
    store.change(environment, lambda found: [note for note in found if note not in expired])
    return tuple(removed)


def _expired(notes: Iterable[Note], now: datetime) -> list[Note]:
    return [note for note in notes if note.expired(now)]


def _freed(client: ConfigDBClient, place: DocumentAddress, note: Note, overrides: dict[str, Json]) -> dict[str, Json]:
    if not note.holds(overrides):
        return overrides
    try:
        return changes.freeing(client, place, note.path)(overrides)
    except NotOverriddenError:
        return overrides  # It is as it would be without the override.


def _shown(note: Note) -> EndedOverride:
    assert note.until is not None
    until = note.until.astimezone(UTC).isoformat(timespec="seconds")
    return EndedOverride(note.data_source, note.place, note.path, until, note.author, note.reason)
