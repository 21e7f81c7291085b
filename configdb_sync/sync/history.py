"""Earlier versions of documents, from the server or, if it keeps none, from the product's own records (U17)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from configdb_sync.configdb import changes
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.model import ChangeAuthor, ChangeObserver, DocumentAddress, DocumentEdit, DocumentVersion
from configdb_sync.errors import MissingError, UnknownNameError, UnsupportedError
from configdb_sync.jsonvalues import Json, document_digest
from configdb_sync.names import RECORDS
from configdb_sync.store.versions import BY_OTHERS, DocumentKey, VersionStore, is_by_others, time_text


class Histories(Protocol):
    """The versions of documents; ``kind`` is ``values`` or ``overrides``. Raises the client's errors."""

    def history(self, place: DocumentAddress, kind: str) -> list[DocumentVersion]:
        """Return the versions that are kept of a document, newest first."""

    def version(self, place: DocumentAddress, kind: str, number: int) -> dict[str, Json]:
        """Return a document as it was in one version; ``MissingError`` if that isn't kept."""

    def revert(self, place: DocumentAddress, kind: str, number: int) -> DocumentEdit:
        """Make a document what it was in one version, 0 is ``{}``; ``MissingError`` if that isn't kept."""


@dataclass(frozen=True)
class ServersHistories:
    """Those that the server keeps."""

    client: ConfigDBClient

    def history(self, place: DocumentAddress, kind: str) -> list[DocumentVersion]:
        """As ``Histories``."""
        return self.client.history(place.env, place.levels, place.definition, kind)

    def version(self, place: DocumentAddress, kind: str, number: int) -> dict[str, Json]:
        """As ``Histories``."""
        return self.client.version(place.env, place.levels, place.definition, kind, number)

    def revert(self, place: DocumentAddress, kind: str, number: int) -> DocumentEdit:
        """As ``Histories``."""
        if number == 0:
            return changes.write(self.client, place, kind, {})
        before = changes.read(self.client, place, kind)
        try:
            self.client.revert(place.env, place.levels, place.definition, kind, number)
        except MissingError as error:
            raise _not_kept(place, kind, number, error.request_id) from None
        return DocumentEdit(place, kind, before, changes.read(self.client, place, kind))


@dataclass(frozen=True)
class OwnHistories:
    """Those of the changes that the product made, and of what it found changed by others.

    Raises also ``StateError``, and ``UnsupportedError`` for the product's own records in ConfigDB.
    """

    client: ConfigDBClient
    store: VersionStore

    def history(self, place: DocumentAddress, kind: str) -> list[DocumentVersion]:
        """As ``Histories``."""
        return self._look(place, kind)[0]

    def version(self, place: DocumentAddress, kind: str, number: int) -> dict[str, Json]:
        """As ``Histories``."""
        versions, present = self._look(place, kind)
        if number not in {version.number for version in versions}:
            raise _not_kept(place, kind, number)
        kept = self.store.content(document_key(self.client.base, place, kind), number)
        return present if kept is None else kept

    def revert(self, place: DocumentAddress, kind: str, number: int) -> DocumentEdit:
        """As ``Histories``."""
        document = self.version(place, kind, number) if number else {}
        reason = f"revert to version {number}" if number else None
        return changes.write(self.client, place, kind, document, reason=reason)

    def _look(self, place: DocumentAddress, kind: str) -> tuple[list[DocumentVersion], dict[str, Json]]:
        """Return the versions and the present document, which is the newest of them."""
        if place.data_source == RECORDS:
            raise UnsupportedError(f"{RECORDS} holds the product's own records; no versions are kept of them here")
        present = changes.read(self.client, place, kind)
        kept = [DocumentVersion(*one) for one in self.store.history(document_key(self.client.base, place, kind))]
        return with_present(kept, document_digest(present), self.store.now()), present


def _not_kept(place: DocumentAddress, kind: str, number: int, request_id: str | None = None) -> UnknownNameError:
    return UnknownNameError(
        f"version {number} of the {kind} of {place.data_source} at {place.level_text} isn't kept",
        way_out="`configdb-sync history` lists the versions that are",
        request_id=request_id,
    )


def histories(client: ConfigDBClient, store: VersionStore) -> Histories:
    """Return the histories that there are of a server's documents."""
    return ServersHistories(client) if client.keeps_versions else OwnHistories(client, store)


def with_present(versions: Sequence[DocumentVersion], found: str, now: float) -> list[DocumentVersion]:
    """Return versions, newest first, with the document that is there now (digest ``found``) in front if it is another
    one than the newest's; ``now`` in seconds since the epoch."""
    newest = versions[0] if versions else None
    if not is_by_others(None if newest is None else newest.digest, found):
        return list(versions)
    number = 1 if newest is None else newest.number + 1
    return [DocumentVersion(number, time_text(now), None, None, BY_OTHERS, found), *versions]


def document_key(server: str, place: DocumentAddress, kind: str) -> DocumentKey:
    """Return what the versions of a document of a server (by its address) are found by."""
    return DocumentKey(server, place.env, place.level_text, place.data_source, kind)


def recorder(store: VersionStore, server: str, writer: ChangeAuthor) -> ChangeObserver:
    """Return what records the changes that a writer makes on a server."""

    def record(change: DocumentEdit) -> None:
        key = document_key(server, change.place, change.kind)
        comment = writer.comment or change.reason
        store.record(key, change.before, change.after, author=writer.author, run=writer.run, comment=comment)

    return record
