"""An overrides file against ConfigDB: what differs, document by document, and how it is carried out (U28)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import Enum

from configdb_sync import failpoints
from configdb_sync.configdb import changes, edits
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.edits import KeyPath
from configdb_sync.configdb.model import OVERRIDES, DocumentAddress, DocumentEdit
from configdb_sync.errors import SettingsError
from configdb_sync.jsonvalues import ABSENT, Document, Json, Slot, same, value_digest
from configdb_sync.overrides.file import Wanted
from configdb_sync.overrides.note_store import NoteStore
from configdb_sync.overrides.notes import Edit, Note, after_change, of_key, parse_end, with_announced

_BATCH = 50
"""Documents whose notes are written together: all notes of an environment are one document."""

_EVER = datetime.min.replace(tzinfo=UTC)


class Action(Enum):
    """What is done with a key."""

    SET = "set"
    NOTE = "note"
    """Only its reason or end changes."""
    REMOVE = "remove"


@dataclass(frozen=True)
class KeyChange:
    """What is to be done with one key. ``before`` and ``after``: what is effective there, ``ABSENT`` if nothing is."""

    action: Action
    path: KeyPath
    before: Slot = field(repr=False)
    after: Slot = field(repr=False)


@dataclass(frozen=True)
class Applier:
    """Who applies the file ``name`` when, and whether it removes what the file no longer has."""

    name: str
    author: str
    now: datetime
    prune: bool = False


@dataclass(frozen=True)
class DocumentPlan:
    """What a file wants of one document of overrides, and what is to be done for that.

    ``notes``: those to be made. ``kept``: what the file no longer has, left because a person set a key in it.
    """

    place: DocumentAddress
    wanted: tuple[Wanted, ...]
    changes: tuple[KeyChange, ...]
    notes: tuple[Note, ...] = ()
    kept: tuple[KeyPath, ...] = ()

    def named(self, path: KeyPath) -> str:
        """Return what a message calls a key of the document."""
        return f"{edits.shown_key(path)} of {self.place.data_source} at {self.place.level_text}"

    @property
    def removed(self) -> tuple[KeyPath, ...]:
        """The keys whose override goes."""
        return tuple(change.path for change in self.changes if change.action is Action.REMOVE)


def end_of(one: Wanted) -> datetime | None:
    """Return when an override ends, None if it doesn't. Raises ``SettingsError`` for what is no time."""
    try:
        end = parse_end(one.until, None, _EVER)
    except SettingsError:
        raise SettingsError(
            f"{one.named}: until {one.until!r} is no time", way_out="like 2026-12-31 or 2026-12-31T18:00+01:00"
        ) from None
    return None if end is None else end.replace(microsecond=0)


def ended(one: Wanted, now: datetime) -> bool:
    """Tell whether an override has come to its end. Raises as ``end_of``."""
    end = end_of(one)
    return end is not None and end <= now


def put_all(document: Document, beneath: Callable[[], Document], wanted: Iterable[Wanted]) -> dict[str, Json]:
    """Return a document of overrides with all that is wanted in it; pure. ``beneath``: what is there without them.

    Raises ``edits.NoSuchKeyError`` where a value is in the way of a key.
    """
    found = dict(document)
    for one in wanted:
        if not _holds(found, one):
            needed = len(one.path) > 1 and one.path[0] not in found
            found = edits.put(found, beneath() if needed else {}, one.path, one.value)
    return found


def _holds(document: Document, one: Wanted) -> bool:
    return edits.has(document, one.path) and same(edits.get(document, one.path), one.value)


def freed(document: Document, beneath: Document, paths: Collection[KeyPath]) -> dict[str, Json]:
    """Return a document of overrides without those of some keys, which may be gone already; pure."""
    found = dict(document)
    for path in paths:
        with contextlib.suppress(edits.NotOverriddenError):
            found = edits.free(found, beneath, path)
    # A block that only repeats the values was made for keys that were overridden by what they were.
    tops = {path[0] for path in paths if len(path) > 1 and path[0] in found and path[0] in beneath}
    return {key: value for key, value in found.items() if not (key in tops and same(value, beneath[key]))}


def planned(
    place: DocumentAddress,
    documents: tuple[Document, Document],
    wanted: Sequence[Wanted],
    notes: Iterable[Note],
    by: Applier,
) -> DocumentPlan:
    """Return what is to be done with one document; pure. ``documents``: what is beneath the overrides, and they.

    ``notes``: all that there are. Raises as ``put_all``, and as ``end_of``.
    """
    beneath, overrides = documents
    here = (place.level_text, place.data_source)
    own = [note for note in notes if (note.place, note.data_source) == here and note.holds(overrides)]
    removed, kept = _left_over(own, [one.path for one in wanted], by) if by.prune else ([], [])
    put_all(freed(overrides, beneath, removed), lambda: beneath, wanted)
    effective = {**beneath, **overrides}
    found = [KeyChange(Action.REMOVE, path, _at(effective, path), _at(beneath, path)) for path in removed]
    made = []
    for one in wanted:
        old = of_key(own, *here, one.path)
        new = _note(here, one, old, by)
        gone = _within(one.path, removed) or (old is not None and old.expired(by.now))
        if gone or not _holds(overrides, one):
            new = Note(*here, one.path, new.digest, by.author, by.now, one.reason, end_of(one), by.name)
            found.append(KeyChange(Action.SET, one.path, _at(effective, one.path), one.value))
        elif (None if old is None else (old.reason, old.until)) == (new.reason, new.until) or (
            old is None and new.reason is None and new.until is None
        ):
            continue
        else:
            found.append(KeyChange(Action.NOTE, one.path, one.value, one.value))
        made.append(new)
    return DocumentPlan(place, tuple(wanted), tuple(found), tuple(made), tuple(kept))


def _note(here: tuple[str, str], one: Wanted, old: Note | None, by: Applier) -> Note:
    """Return the note of an override that is there already. What a person set stays theirs."""
    digest, end = value_digest(one.value), end_of(one)
    if old is None:
        return Note(*here, one.path, digest, by.author, by.now, one.reason, end)
    if old.file == by.name:
        return replace(old, path=one.path, digest=digest, reason=one.reason, until=end)
    return replace(old, path=one.path, digest=digest, reason=one.reason or old.reason, until=end or old.until)


def _left_over(notes: Sequence[Note], wanted: Sequence[KeyPath], by: Applier) -> tuple[list[KeyPath], list[KeyPath]]:
    """Return the keys that only an earlier apply set: those to remove, and those in which somebody else set a key."""
    removed: list[KeyPath] = []
    kept: list[KeyPath] = []
    for note in notes:
        if note.file == by.name and not _within(note.path, wanted):
            inner = any(other.file != by.name and _within(other.path, [note.path]) for other in notes)
            (kept if inner else removed).append(note.path)
    return sorted(removed), sorted(kept)


def _within(path: KeyPath, others: Iterable[KeyPath]) -> bool:
    return any(path[: len(other)] == other for other in others)


def _at(document: Document, path: KeyPath) -> Slot:
    return edits.get(document, path) if edits.has(document, path) else ABSENT


def examine(
    client: ConfigDBClient, place: DocumentAddress, wanted: Sequence[Wanted], notes: Iterable[Note], by: Applier
) -> DocumentPlan:
    """Return what is to be done with one document; changes nothing. Raises as ``planned``."""
    return planned(place, (changes.beneath(client, place), changes.read(client, place, OVERRIDES)), wanted, notes, by)


def left_over_documents(notes: Iterable[Note], by: Applier) -> Iterator[Note]:
    """Yield one note of each document in which an earlier apply of this file has set something."""
    seen = set()
    for note in notes:
        if by.prune and note.file == by.name and (note.place, note.data_source) not in seen:
            seen.add((note.place, note.data_source))
            yield note


def carry_out(notes: NoteStore, plans: Sequence[DocumentPlan]) -> Iterator[DocumentEdit]:
    """Write the documents with their notes, and yield each one once it is written: all that is wanted of it or nothing.

    The reasons of what changes go to the history.
    """
    for start in range(0, len(plans), _BATCH):
        yield from _carry_out([_Writer(notes.client, plan) for plan in plans[start : start + _BATCH]], notes)


def _carry_out(writers: Sequence[_Writer], notes: NoteStore) -> Iterator[DocumentEdit]:
    # The new notes come first, so that no override is there without its end even if the process is killed.
    written = [(writer, writer.preview()) for writer in writers]
    if not written:
        return
    env = writers[0].plan.place.env
    notes.change(env, lambda found: with_announced(found, _kept(found, written)))
    failpoints.here("override-noted")
    written.clear()
    try:
        for writer in writers:
            change = writer.write()
            failpoints.here("override-changed")
            written.append((writer, (change.before, change.after)))
            yield change
    finally:
        notes.change(env, lambda found: _kept(found, written))


def _kept(notes: Iterable[Note], written: Iterable[tuple[_Writer, Edit]]) -> tuple[Note, ...]:
    for writer, documents in written:
        notes = writer.keep(notes, documents)
    return tuple(notes)


@dataclass(frozen=True)
class _Writer:
    """Carries out the plan of one document."""

    client: ConfigDBClient
    plan: DocumentPlan

    def _made(self, document: dict[str, Json]) -> dict[str, Json]:
        # Read after the document: what is beneath is never older than what is written against the ETag.
        beneath = changes.beneath(self.client, self.plan.place)
        return put_all(freed(document, beneath, self.plan.removed), lambda: beneath, self.plan.wanted)

    def preview(self) -> Edit:
        """Return the overrides before and after; changes nothing."""
        before = changes.read(self.client, self.plan.place, OVERRIDES)
        return before, self._made(before)

    def write(self) -> DocumentEdit:
        """Write the overrides. Raises as ``changes.rewrite``."""
        changed = {change.path for change in self.plan.changes}
        reasons = dict.fromkeys(one.reason for one in self.plan.wanted if one.reason and one.path in changed)
        reason = "; ".join(reasons) or None
        return changes.rewrite(self.client, self.plan.place, self._made, kind=OVERRIDES, reason=reason)

    def keep(self, notes: Iterable[Note], documents: Edit) -> tuple[Note, ...]:
        """Return the notes after the change."""
        address = self.plan.place.level_text, self.plan.place.data_source
        for path in self.plan.removed:
            notes = after_change(notes, address, path, documents)
        for note in self.plan.notes:
            notes = after_change(notes, address, note.path, documents, (note,))
        return tuple(notes)
