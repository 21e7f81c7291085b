"""Why an override is there: reason, author, time and end, kept per key beside the overrides themselves (U27). Pure.

A note holds only for the value that it was made for, of which it keeps the digest. If somebody else changes or
removes the override, with whatever tool, its note no longer counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import TypeAlias

from configdb_sync.configdb import edits
from configdb_sync.configdb.edits import KeyPath
from configdb_sync.errors import SettingsError
from configdb_sync.jsonvalues import Document, Json, value_digest

_NOTES = "notes"
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_PLACE = re.compile(r"/(?:[^/]+/[^/]+/)*")
_DURATION = re.compile(r"([1-9][0-9]{0,4})([mhdw])", re.ASCII)


Edit: TypeAlias = tuple[Document, Document]


@dataclass(frozen=True)
class Note:
    """What is known of the override at ``path`` of a data source at a level (``place``: ``/`` or ``/nodes/46/``, all
    levels from the root's side).

    ``digest``: ``value_digest`` of the value. ``file``: the name of the overrides file that it came from, None if a
    person set it. Times have a zone.
    """

    place: str
    data_source: str
    path: KeyPath
    digest: str
    author: str
    time: datetime
    reason: str | None = None
    until: datetime | None = None
    file: str | None = None

    @property
    def address(self) -> tuple[str, str, KeyPath]:
        """The key that it is about."""
        return self.place, self.data_source, self.path

    def expired(self, now: datetime) -> bool:
        """Tell whether the override has come to its end."""
        return self.until is not None and self.until <= now

    @property
    def about(self) -> str:
        """Who made the override, when, until when it holds, and why, as people read it."""
        until = "" if self.until is None else f", until {time_text(self.until)}"
        return f"{self.author}, {time_text(self.time)}{until}{'' if self.reason is None else f': {self.reason}'}"

    def holds(self, overrides: Document) -> bool:
        """Tell whether these overrides still have the value that the note was made for."""
        return edits.has(overrides, self.path) and value_digest(edits.get(overrides, self.path)) == self.digest


def from_records(document: Document) -> tuple[Note, ...]:
    """Return the notes of an environment's root records; what is not one, since others can write there, is left out."""
    found = document.get(_NOTES)
    notes = (_note(one) for one in (found if isinstance(found, list) else []) if isinstance(one, dict))
    return tuple(note for note in notes if note is not None)


def to_records(document: Document, notes: Iterable[Note]) -> dict[str, Json]:
    """Return the root records with these notes in place of those that they hold."""
    rest = {key: value for key, value in document.items() if key != _NOTES}
    listed = [to_json(note) for note in sorted(notes, key=lambda note: note.address)]
    return {**rest, _NOTES: listed} if listed else rest


def to_json(note: Note) -> dict[str, Json]:
    """Return a note as JSON; times in UTC, what it lacks left out."""
    whole = {
        "place": note.place,
        "data_source": note.data_source,
        "key": list(note.path),
        "digest": note.digest,
        "author": note.author,
        "time": _text(note.time),
        "reason": note.reason,
        "until": None if note.until is None else _text(note.until),
        "file": note.file,
    }
    return {name: value for name, value in whole.items() if value is not None}


def after_change(
    notes: Iterable[Note],
    address: tuple[str, str],
    path: KeyPath | None,
    documents: Edit,
    new: Sequence[Note] = (),
    *,
    ended: Note | None = None,
) -> tuple[Note, ...]:
    """Return the notes after a change of the overrides of a data source at a level (``address``: place, data source).

    ``path`` is the key that was changed, None for all of them; ``documents`` are the overrides before and after it;
    ``new`` are the notes about it. Notes of the key and below it go; with ``ended`` that one alone. Those of a key
    above it go on: they hold for their key with the change in it.
    """
    found: dict[tuple[object, ...], Note] = {}
    for note in notes:
        here = (note.place, note.data_source) == address
        if note == ended or (ended is None and here and (path is None or note.path[: len(path)] == path)):
            continue
        over = here and path is not None and path[: len(note.path)] == note.path
        kept = _carried(note, documents) if over else note
        found[*kept.address, kept.digest] = kept
    return (*found.values(), *new)


def _carried(note: Note, documents: Edit) -> Note:
    before, after = documents
    if not note.holds(before) or not edits.has(after, note.path):
        return note
    return replace(note, digest=value_digest(edits.get(after, note.path)))


def with_announced(notes: Iterable[Note], announced: Iterable[Note]) -> tuple[Note, ...]:
    """Return the notes with those added that a change will make hold: until it is made, the old ones do."""
    found = {(*note.address, note.digest): note for note in notes}
    return (*(found | {(*note.address, note.digest): note for note in announced}).values(),)


def of_key(notes: Sequence[Note], place: str, data_source: str, path: KeyPath) -> Note | None:
    """Return the note, of those that hold, that covers a key: its own, else that of the nearest key above it."""
    covering = [
        note
        for note in notes
        if (note.place, note.data_source) == (place, data_source) and path[: len(note.path)] == note.path
    ]
    return max(covering, key=lambda note: len(note.path), default=None)


def time_text(moment: datetime) -> str:
    """Return a time as people read it, in UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def parse_end(until: str | None, duration: str | None, now: datetime, zone: tzinfo | None = None) -> datetime | None:
    """Return the time of ``--until`` or ``--for``, None without either.

    A date alone means its end, and a text without a zone means ``zone``; None is this machine's. Raises
    ``SettingsError`` for a text that is neither, for both at once, and for a time that is past.
    """
    if until is None and duration is None:
        return None
    if until is not None and duration is not None:
        raise SettingsError("--until and --for both say when the override ends", way_out="give one of them")
    if duration is not None:
        return now + parse_duration(duration, "--for")
    end = _moment((until or "").strip(), zone)
    if end is None:
        raise SettingsError(f"--until {until!r} is no time", way_out="like 2026-12-31 or 2026-12-31T18:00+01:00")
    if end <= now:
        raise SettingsError(f"--until {until!r} is in the past", way_out="name a later time")
    return end


def parse_duration(text: str, option: str) -> timedelta:
    """Return the duration that an option names. Raises ``SettingsError``."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise SettingsError(f"{option} {text!r} is no duration", way_out="like 30m, 8h, 7d or 2w")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def _moment(text: str, zone: tzinfo | None) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
        if re.fullmatch(r"[0-9]{4}-?[0-9]{2}-?[0-9]{2}", text, re.ASCII):
            found = datetime.combine(found + timedelta(days=1), time())
        if found.tzinfo is None and zone is not None:
            found = found.replace(tzinfo=zone)
        return found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _note(one: Mapping[str, Json]) -> Note | None:
    path, file, reason = one.get("key"), one.get("file"), one.get("reason")
    texts = [one.get(name) for name in ("place", "data_source", "digest", "author")]
    if not all(isinstance(text, str) for text in texts) or not isinstance(path, list) or not path:
        return None
    place, data_source, digest, author = map(str, texts)
    if not all(isinstance(part, str) for part in path) or not all(isinstance(x, str | None) for x in (file, reason)):
        return None
    if _PLACE.fullmatch(place) is None:
        return None
    try:
        made, end = _time(one.get("time")), None if one.get("until") is None else _time(one["until"])
    except (ValueError, TypeError, OverflowError):
        return None
    return Note(place, data_source, tuple(path), digest, author, made, reason, end, file)


def _time(text: Json) -> datetime:
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError("a time without a zone")
    return found.astimezone(UTC)


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds")
