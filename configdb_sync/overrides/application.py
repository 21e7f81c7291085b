"""An overrides file against ConfigDB: what differs, document by document, and how it is carried out (U28)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from configdb_sync.configdb import changes, edits
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.edits import KeyPath
from configdb_sync.configdb.model import OVERRIDES, DocumentAddress, DocumentEdit
from configdb_sync.jsonvalues import ABSENT, Document, Json, Slot, same
from configdb_sync.overrides.file import Wanted


@dataclass(frozen=True)
class KeyChange:
    """One override that is to be set. ``before``: what is effective there now, ``ABSENT`` if nothing is.

    ``overridden``: whether the key has an override already, of another value.
    """

    path: KeyPath
    before: Slot = field(repr=False)
    after: Json = field(repr=False)
    overridden: bool


@dataclass(frozen=True)
class DocumentPlan:
    """What a file wants of one document of overrides, and what of it is to be changed."""

    place: DocumentAddress
    wanted: tuple[Wanted, ...]
    changes: tuple[KeyChange, ...]


def put_all(document: Document, beneath: Callable[[], Document], wanted: Iterable[Wanted]) -> dict[str, Json]:
    """Return a document of overrides with all that is wanted in it; ``beneath`` as for ``edits.put``. Pure.

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


def examine(client: ConfigDBClient, place: DocumentAddress, wanted: Iterable[Wanted]) -> DocumentPlan:
    """Return what is to be changed in one document; changes nothing. Raises as ``put_all``."""
    overrides = changes.read(client, place, OVERRIDES)
    effective = client.effective(place.env, place.levels, place.definition)
    all_wanted = tuple(wanted)
    put_all(overrides, lambda: effective, all_wanted)
    found = [
        KeyChange(
            one.path,
            edits.get(effective, one.path) if edits.has(effective, one.path) else ABSENT,
            one.value,
            edits.has(overrides, one.path),
        )
        for one in all_wanted
        if not _holds(overrides, one)
    ]
    return DocumentPlan(place, all_wanted, tuple(found))


def carry_out(client: ConfigDBClient, plan: DocumentPlan) -> DocumentEdit:
    """Write one document, all that is wanted of it or nothing. The reasons of what changes go to the history."""
    place = plan.place
    changed = {one.path for one in plan.changes}
    reasons = dict.fromkeys(one.reason for one in plan.wanted if one.reason and one.path in changed)

    def beneath() -> dict[str, Json]:
        return client.effective(place.env, place.levels, place.definition)

    return changes.rewrite(
        client,
        place,
        lambda document: put_all(document, beneath, plan.wanted),
        kind=OVERRIDES,
        reason="; ".join(reasons) or None,
    )
