"""A ConfigDB as it would be with other documents: for plans, which change nothing (U20)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from configdb_sync import jsonvalues
from configdb_sync.configdb import changes
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.level_merge import effective
from configdb_sync.configdb.model import OVERRIDES, VALUES, DocumentAddress, Etags
from configdb_sync.jsonvalues import Json, Loads
from configdb_sync.names import LevelPath


@dataclass(frozen=True)
class PendingEdit:
    """A change of a document (``kind``: ``values`` or ``overrides``) that is to be made."""

    place: DocumentAddress
    kind: str
    make: changes.Make


def previewed(client: ConfigDBClient, pending: Iterable[PendingEdit]) -> PreviewClient:
    """Return a client that reads as if these changes had been made, one after another; nothing is changed.

    Raises what a ``make`` raises, and ``ConfigDBError``.
    """
    found: dict[str, dict[DocumentAddress, dict[str, Json]]] = {OVERRIDES: {}, VALUES: {}}
    for one in pending:
        documents = found[one.kind]
        if one.place not in documents:
            documents[one.place] = changes.read(client, one.place, one.kind)
        documents[one.place] = one.make(documents[one.place])
    return PreviewClient(client, found[OVERRIDES], found[VALUES])


class PreviewClient(ConfigDBClient):
    """Reads as ``client`` does, on the same connections, but finds these documents at some places. It is not to write.

    The documents that are others than the server's have no digests.
    """

    def __init__(
        self,
        client: ConfigDBClient,
        overrides: Mapping[DocumentAddress, dict[str, Json]],
        values: Mapping[DocumentAddress, dict[str, Json]] | None = None,
    ) -> None:
        vars(self).update(vars(client))
        self._shown = {
            (kind, one.env, one.levels, one.definition): document
            for kind, documents in ((OVERRIDES, overrides), (VALUES, values or {}))
            for one, document in documents.items()
        }

    def tagged(
        self, env: int, levels: LevelPath, definition: int, kind: str, loads: Loads = jsonvalues.loads
    ) -> tuple[dict[str, Json], str | None]:
        """As ``ConfigDBClient``; what is computed here has no ETag."""
        if (kind, env, levels, definition) in self._shown:
            return dict(self._shown[kind, env, levels, definition]), None
        if kind == "values?effective" and self._concerns(env, levels, definition):
            chain = [levels[:depth] for depth in range(len(levels) + 1)]
            found = ((self.values(env, one, definition), self.overrides(env, one, definition)) for one in chain)
            return effective(found), None
        return super().tagged(env, levels, definition, kind, loads)

    def etags(self, env: int, levels: LevelPath) -> dict[int, Etags] | None:
        """As ``ConfigDBClient``, without the documents that are others than the server's."""
        found = super().etags(env, levels)
        if found is None:
            return None
        return {number: etags for number, etags in found.items() if not self._concerns(env, levels, number)}

    def _concerns(self, env: int, levels: LevelPath, definition: int) -> bool:
        chain = [levels[:depth] for depth in range(len(levels) + 1)]
        return any((kind, env, one, definition) in self._shown for kind in (OVERRIDES, VALUES) for one in chain)
