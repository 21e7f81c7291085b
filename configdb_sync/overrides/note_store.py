"""Where the notes on overrides are kept (U27), and how a change of overrides keeps them.

On the embedded server they are in the environment's own records, where all masters find them. Other servers have no
place for them that others leave alone, and so has an environment that no run has seen: there they are in the product's
own database.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from configdb_sync import failpoints
from configdb_sync.configdb import changes
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.edits import KeyPath
from configdb_sync.configdb.model import OVERRIDES, VALUES, DocumentAddress, DocumentEdit, ServerKind
from configdb_sync.errors import MissingError
from configdb_sync.jsonvalues import Document, Json
from configdb_sync.names import RECORDS, levels_of
from configdb_sync.overrides.notes import Note, after_change, from_records, to_records, with_announced
from configdb_sync.store import versions
from configdb_sync.store.database import Database

MakeNotes = Callable[[Sequence[Note]], Iterable[Note]]
"""Makes other notes of those that there are. It may be called several times."""


@dataclass(frozen=True)
class NoteStore:
    """The notes on the overrides of one server's environments. ``database`` is the product's own.

    Its methods raise the errors of the client, and ``StateError``.
    """

    client: ConfigDBClient
    database: Database

    def read(self, environment: int) -> tuple[Note, ...]:
        """Return the notes, also those that don't hold (any more)."""
        place = self._place(environment)
        found = self._own(environment)
        return found if place is None else with_announced(found, from_records(changes.read(self.client, place, VALUES)))

    def change(self, environment: int, make: MakeNotes) -> None:
        """Replace the notes by what ``make`` makes of them; what others change at the same time is kept."""
        place = self._place(environment)
        if place is None:
            versions.rewrite_notes(
                self.database,
                self.client.base,
                environment,
                lambda document: to_records(document, make(from_records(document))),
            )
            return
        own = self._own(environment)
        changes.rewrite(
            self.client,
            place,
            lambda document: to_records(document, make(with_announced(own, from_records(document)))),
        )
        if own:  # made before the environment had a place for them
            versions.rewrite_notes(self.database, self.client.base, environment, lambda _: {})

    def _own(self, environment: int) -> tuple[Note, ...]:
        return from_records(versions.read_notes(self.database, self.client.base, environment))

    def _place(self, environment: int) -> DocumentAddress | None:
        """Return where ConfigDB holds the notes, None if it doesn't."""
        if self.client.server() is not ServerKind.EMBEDDED:
            return None
        try:
            return changes.find(self.client, environment, (), RECORDS)
        except MissingError:
            return None


def documents_with(
    notes: NoteStore, environment: int, wanted: Iterable[Note]
) -> Iterator[tuple[DocumentAddress, dict[str, Json], list[Note]]]:
    """Yield each place that notes are about, with its overrides and those of the notes that hold for them.

    Documents are read as they are asked for; places that aren't there any more are left out.
    """
    client, env = notes.client, notes.client.environment(environment)
    if env is None:
        return
    definitions = client.definitions(env)
    documents: dict[tuple[str, str], list[Note]] = {}
    for note in sorted(wanted, key=lambda one: one.address):
        documents.setdefault((note.data_source, note.place), []).append(note)
    for (data_source, where), listed in sorted(documents.items()):
        levels = levels_of(where)
        if data_source not in definitions or not {name for name, _ in levels} <= set(env.levels):
            continue
        innermost = len(levels) == len(env.levels) > 0
        place = DocumentAddress(environment, levels, data_source, definitions[data_source].id, innermost=innermost)
        try:
            overrides = changes.read(client, place, OVERRIDES)
        except MissingError:
            continue
        yield place, overrides, [note for note in listed if note.holds(overrides)]


def rewrite_noted(
    notes: NoteStore, place: DocumentAddress, path: KeyPath | None, make: changes.Make, new: Sequence[Note] = ()
) -> DocumentEdit:
    """Change the overrides of a place by ``make`` and keep their notes; ``path`` is the key, None for all.

    ``new`` are the notes of what is overridden. They are stored before it, so that no override is there without its end
    even if the process is killed; the notes that they replace go afterwards. Raises as ``changes.rewrite``.
    """
    address = place.level_text, place.data_source
    env, client = place.env, notes.client

    def made(found: Sequence[Note], before: Document, after: Document) -> tuple[Note, ...]:
        return after_change(found, address, path, (before, after), new)

    before = changes.read(client, place, OVERRIDES)
    after = make(before)
    notes.change(env, lambda found: with_announced(found, made(found, before, after)))
    failpoints.here("override-noted")
    change = changes.rewrite(client, place, make, kind=OVERRIDES)
    failpoints.here("override-changed")
    notes.change(env, lambda found: made(found, change.before, change.after))
    return change


def copy_noted(
    notes: NoteStore, place: DocumentAddress, source: DocumentAddress, overrides: dict[str, Json]
) -> DocumentEdit:
    """Override at ``place`` what is overridden at ``source``, with its notes; the place's own overrides win."""
    there = changes.read(notes.client, place, OVERRIDES)

    def copied(found: Sequence[Note]) -> tuple[Note, ...]:
        of_source = [one for one in found if (one.place, one.data_source) == (source.level_text, source.data_source)]
        taken = [one for one in of_source if one.holds(overrides) and one.path[0] not in there]
        return with_announced(found, [replace(one, place=place.level_text) for one in taken])

    notes.change(place.env, copied)
    return changes.add_overrides(notes.client, place, overrides)
