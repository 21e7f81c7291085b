"""A ConfigDB as it would be with other overrides: for plans, which change nothing (U20)."""

from __future__ import annotations

from collections.abc import Mapping

from configdb_sync import jsonvalues
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.level_merge import effective
from configdb_sync.configdb.model import DocumentAddress, Etags
from configdb_sync.jsonvalues import Json, Loads
from configdb_sync.names import LevelPath


class PreviewClient(ConfigDBClient):
    """Reads as ``client`` does, on the same connections, but finds these overrides at some places. It is not to write.

    The documents that are others than the server's have no digests.
    """

    def __init__(self, client: ConfigDBClient, overrides: Mapping[DocumentAddress, dict[str, Json]]) -> None:
        vars(self).update(vars(client))
        self._shown = {(one.env, one.levels, one.definition): document for one, document in overrides.items()}

    def tagged(
        self, env: int, levels: LevelPath, definition: int, kind: str, loads: Loads = jsonvalues.loads
    ) -> tuple[dict[str, Json], str | None]:
        """As ``ConfigDBClient``; what is computed here has no ETag."""
        if kind == "overrides" and (env, levels, definition) in self._shown:
            return dict(self._shown[env, levels, definition]), None
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
        return any((env, levels[:depth], definition) in self._shown for depth in range(len(levels) + 1))
