"""The overrides of an environment with their notes, values and effect, for people to look at (U17, U25, U27)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Self, TypeAlias

from configdb_sync.configdb import changes, edits
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.edits import KeyPath, shown_key
from configdb_sync.configdb.model import OVERRIDES, KeyEffect, OverrideNote, ServerKind
from configdb_sync.hiera.arrangement import NodeSettings
from configdb_sync.jsonvalues import Json, dumps
from configdb_sync.masking import Masker
from configdb_sync.names import LevelPath, levels_of, one_line, place_of
from configdb_sync.overrides import checks
from configdb_sync.overrides.note_store import NoteStore, documents_with
from configdb_sync.overrides.notes import Note, to_json

_SHOWN = 60
SettingsOf: TypeAlias = Callable[[Collection[tuple[str, str]] | None], Iterable[NodeSettings]]


def effect_text(key: KeyEffect) -> str:
    """Return why an override of a key has no effect, or not everywhere; empty if it has."""
    hidden = f"{key.hidden_by} deeper {'level has' if key.hidden_by == 1 else 'levels have'} the same key"
    why: dict[tuple[str, str | None], str] = {
        ("none", "equal"): "no effect: the value below it is the same",
        ("none", "hidden"): f"no effect: {hidden}",
        ("partial", "hidden"): hidden,
        ("none", "other data source"): f"no effect: Puppet reads it from {key.data_source}",
        ("partial", "other data source"): f"no effect on some nodes: Puppet reads it from {key.data_source}",
    }
    return why.get((key.effect, key.reason), "")


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


def listed_overrides(
    store: NoteStore, environment: int, before: datetime | None, masker: Masker
) -> list[ListedOverride]:
    """Return the overrides of an environment with their notes; with ``before`` those that end until then.

    Of a server that lists no overrides only those with notes are known. Raises ``UnsupportedError`` if it has none.
    """
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
            OverrideNote(name, place, 0, None, None, None, None, _keys(overrides))
            for (place, name), (overrides, _) in sorted(known.items())
        ]
    found = []
    for one in documents:
        overrides, held = known.get((one.place, one.data_source), ({}, []))
        values = {note.path: masker.shown(note.path, edits.get(overrides, note.path)) for note in held}
        found.append(ListedOverride(one, tuple(held), values))
    return found if before is None else [one.of_noted_keys for one in found if one.notes]


def _keys(overrides: dict[str, Json]) -> tuple[KeyEffect, ...]:
    return tuple(KeyEffect(key, "unknown", None, 0) for key in overrides)


def _line(note: Note, value: Json) -> str:
    return f"{shown_key(note.path)} = {one_line(dumps(value), _SHOWN)}, {note.about}"


def with_unread(
    client: ConfigDBClient, environment: int, listed: Sequence[ListedOverride], settings_of: SettingsOf
) -> list[ListedOverride]:
    """Return listed overrides that also say which of them Puppet does not read, since another data source has the key.

    ``settings_of`` yields what nodes at or below any of some levels read, all nodes for None. Servers that can't list
    their nodes don't tell. Raises ``ConfigDBError``.
    """
    # A document is that of its innermost level.
    places = {(one.document.place, one.document.data_source): levels_of(one.document.place)[-1:] for one in listed}
    if not places or client.server() is ServerKind.LEGACY:
        return list(listed)
    within = None if () in places.values() else {level for levels in places.values() for level in levels}
    leaves: dict[tuple[str, str], dict[str, list[KeyPath]]] = {}
    read: dict[tuple[str, str, str], list[str | None]] = {}
    for node in settings_of(within):
        for (place, data_source), levels in places.items():
            if not set(levels) <= set(node.levels):
                continue
            if (place, data_source) not in leaves:
                path = node.levels[: max((node.levels.index(level) + 1 for level in levels), default=0)]
                leaves[place, data_source] = _leaves(client, environment, path, data_source)
            for key, paths in leaves[place, data_source].items():
                by = checks.hidden_by(node.layers, data_source, paths)
                read.setdefault((place, data_source, key), []).append(by)
    return [replace(one, document=_marked(one.document, read)) for one in listed]


def _leaves(client: ConfigDBClient, environment: int, levels: LevelPath, data_source: str) -> dict[str, list[KeyPath]]:
    place = changes.find(client, environment, levels, data_source)
    overrides, beneath = changes.read(client, place, OVERRIDES), changes.beneath(client, place)
    return {key: checks.overridden_leaves(beneath, overrides, key) for key in overrides}


def _marked(document: OverrideNote, read: Mapping[tuple[str, str, str], Sequence[str | None]]) -> OverrideNote:
    keys = []
    for key in document.keys:
        found = read.get((document.place, document.data_source, key.key), ())
        by = next((one for one in found if one is not None), None)
        if by is None or key.effect == "none":
            keys.append(key)
        else:
            effect = "partial" if None in found else "none"
            keys.append(replace(key, effect=effect, reason="other data source", data_source=by))
    return replace(document, keys=tuple(keys))
