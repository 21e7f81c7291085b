"""Why an override is there and until when: the options of ``override``, and how ``overrides`` shows it (U27)."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

import click

from configdb_sync.clock import SystemClock
from configdb_sync.configdb import edits
from configdb_sync.configdb.edits import KeyPath, shown_key
from configdb_sync.errors import SettingsError
from configdb_sync.jsonvalues import Json, dumps, value_digest
from configdb_sync.names import one_line, place_of
from configdb_sync.overrides.notes import Note, parse_duration, parse_end, to_json

if TYPE_CHECKING:
    from configdb_sync.configdb.model import DocumentAddress, OverrideNote
    from configdb_sync.masking import Masker
    from configdb_sync.overrides.note_store import NoteStore

_SHOWN = 60


@dataclass(frozen=True)
class OverrideReason:
    """Why an override is made: ``text`` is for the history, ``reason`` stays with the key; and its end."""

    text: str | None
    reason: str | None
    until: datetime | None

    def refuse_end(self, option: str, way_out: str) -> None:
        """Raise ``SettingsError`` if there is an end, which does not go with an option."""
        if self.until is not None:
            raise SettingsError(f"--until and --for do not go with {option}", way_out=way_out)

    def notes(self, place: DocumentAddress, path: KeyPath | None, value: Json, author: str) -> list[Note]:
        """Return the notes of an override: that of its key, or of each top-level key if ``path`` is None."""
        values: dict[KeyPath, Json] = {path: value} if path is not None else {}
        if path is None and isinstance(value, dict):
            values = {(key,): one for key, one in value.items()}
        now = SystemClock().now().replace(microsecond=0)
        where = (place.level_text, place.data_source)
        return [
            Note(*where, key, value_digest(one), author, now, reason=self.reason, until=self.until)
            for key, one in values.items()
        ]


def reason_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command with ``--comment`` the options of an ``OverrideReason``, which it gets as ``about``."""

    @functools.wraps(function)
    def wrapped(
        *args: Any, comment: str | None, reason: str | None, until: str | None, duration: str | None, **kwargs: Any
    ) -> Any:
        end = parse_end(until, duration, SystemClock().now())
        about = OverrideReason(comment or reason, _storable(reason or comment), end)
        return function(*args, about=about, **kwargs)

    for option in (
        click.option("--for", "duration", metavar="DURATION", help="Like --until, from now on: 30m, 8h, 7d, 2w."),
        click.option("--until", metavar="TIME", help="When the override ends: 2026-12-31 or 2026-12-31T18:00."),
        click.option("--reason", metavar="TEXT", help="Why the key is overridden; `overrides` shows it."),
    ):
        wrapped = option(wrapped)
    return wrapped


def _storable(text: str | None) -> str | None:
    """Return a text without bytes that aren't UTF-8 and without NUL, which no database stores."""
    return None if text is None else text.encode("utf-8", "replace").decode().replace("\0", "?")


@dataclass(frozen=True)
class ListedOverride:
    """The overrides of one data source at one place, with the notes that hold for them and the values that they are
    about, secrets masked."""

    document: OverrideNote
    notes: tuple[Note, ...]
    values: Mapping[KeyPath, Json] = field(repr=False)

    @property
    def of_noted_keys(self) -> Self:
        """The same without the keys that have no note."""
        noted = {note.path[0] for note in self.notes}
        keys = tuple(key for key in self.document.keys if key.key in noted)
        return dataclasses.replace(self, document=dataclasses.replace(self.document, keys=keys))

    @property
    def json(self) -> dict[str, Json]:
        """The same as JSON."""
        hidden = ("place", "data_source", "digest")
        notes = [
            {"key": list(one.path), "value": self.values[one.path]}
            | {name: value for name, value in to_json(one).items() if name not in hidden}
            for one in self.notes
        ]
        document = dataclasses.asdict(self.document)
        return {"level": document.pop("place"), **document, "keys": [*document["keys"]], "notes": notes}

    @property
    def rows(self) -> list[dict[str, Json]]:
        """The same in rows: one for each key with a note, and for each top-level key without any."""
        whole = self.json
        shared = {name: whole[name] for name in ("level", "data_source", "author", "time", "run", "comment")}
        rows = []
        for key in self.document.keys:
            noted = [note for note in whole["notes"] if note["key"][0] == key.key]
            rows += [shared | {"effect": key.effect} | note for note in noted or [{"key": [key.key]}]]
        return rows

    def lines(self, key: str) -> list[str]:
        """Return a line for each note of a top-level key or of a key below it."""
        return [_line(note, self.values[note.path]) for note in self.notes if note.path[0] == key]


def ending_before(expiring: str) -> datetime:
    """Return the time until which overrides end that ``--expiring`` asks for. Raises ``SettingsError``."""
    return SystemClock().now() + parse_duration(expiring, "--expiring")


def listed_overrides(
    store: NoteStore, environment: int, before: datetime | None, masker: Masker
) -> list[ListedOverride]:
    """Return the overrides of an environment with their notes; with ``before`` those that end until then.

    Of a server that lists no overrides only those with notes are known. Raises ``UnsupportedError`` if it has none.
    """
    from configdb_sync.configdb.model import KeyEffect, OverrideNote
    from configdb_sync.overrides.note_store import documents_with

    wanted = [one for one in store.read(environment) if before is None or one.expired(before)]
    known: dict[tuple[str, str], tuple[dict[str, Json], list[Note]]] = {}
    for place, overrides, held in documents_with(store, environment, wanted):
        if held:
            # A document is that of its innermost level.
            known[place_of(place.levels[-1:]), place.data_source] = overrides, held
    if store.client.keeps_versions or (not known and before is None):
        documents = store.client.overrides_of(environment)
    else:
        documents = [
            OverrideNote(name, place, 0, None, None, None, None, _keys(overrides, KeyEffect))
            for (place, name), (overrides, _) in sorted(known.items())
        ]
    found = []
    for one in documents:
        overrides, held = known.get((one.place, one.data_source), ({}, []))
        values = {note.path: masker.shown(note.path, edits.get(overrides, note.path)) for note in held}
        found.append(ListedOverride(one, tuple(held), values))
    return found if before is None else [one.of_noted_keys for one in found if one.notes]


def _keys(overrides: dict[str, Json], effect: Callable[[str, str, str | None, int], Any]) -> tuple[Any, ...]:
    return tuple(effect(key, "unknown", None, 0) for key in overrides)


def _line(note: Note, value: Json) -> str:
    return f"{shown_key(note.path)} = {one_line(dumps(value), _SHOWN)}, {note.about}"
