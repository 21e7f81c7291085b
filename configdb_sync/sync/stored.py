"""What ConfigDB holds of one node's documents, fetched no more than needed."""

from __future__ import annotations

from collections.abc import Mapping

from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.level_merge import effective as merge_levels
from configdb_sync.configdb.model import Etags
from configdb_sync.hiera import HieraDocument
from configdb_sync.jsonvalues import EMPTY_DIGEST, Json, document_digest, same
from configdb_sync.names import LevelPath, place_of
from configdb_sync.sync.catalog import Catalog
from configdb_sync.sync.decide import Level
from configdb_sync.sync.quiet import state_of


class StoredNode:
    """ConfigDB's documents at one node's level. A data source that ConfigDB doesn't have reads as empty.

    Digests come from the server in one request where it has them; else each document is fetched. Every method
    raises ``ConfigDBError`` as the client does. Used by one thread.
    """

    def __init__(self, client: ConfigDBClient, catalog: Catalog, environment: int, levels: LevelPath) -> None:
        self._client = client
        self._catalog = catalog
        self._environment = environment
        self.levels = levels
        self.places = [place_of(levels[:depth]) for depth in range(len(levels) + 1)]
        self._there = catalog.reaches(levels)
        self._etags = client.etags(environment, levels) if self._there else None
        self._values: dict[str, dict[str, Json]] = {}
        self._overrides: dict[str, dict[str, Json]] = {}
        self._records: dict[str, Json] | None = None

    @property
    def concerned(self) -> tuple[str, ...]:
        """The data sources that overrides are to be moved to (``folder_stored``)."""
        return ()

    def aside(self, _data_source: str) -> frozenset[str]:
        """Return the keys of a data source's overrides that aren't its own (``folder_stored``)."""
        return frozenset()

    def check(self, data_source: str) -> None:
        """Raise ``AmbiguousError`` if overrides of a data source contradict each other (``folder_stored``)."""

    def is_left(self, _data_source: str) -> bool:
        """Tell whether a document is none of a file (``folder_stored``)."""
        return False

    def is_strange(self, _data_source: str, _document: HieraDocument, *, unknown: bool, strange: bool) -> bool:
        """Tell whether there may be something of ours in a file that we have no record of.

        ``unknown``: there is no record of the node at all; ``strange``: and it has values in ConfigDB.
        """
        del unknown
        return strange

    def state(self, files: str, etags: Mapping[int, Etags] | None = None) -> str | None:
        """Return the node's state (``quiet``) with these digests at its level, by default those read first.

        None where the server gives no digests, or not at this level.
        """
        own = self._etags if etags is None else etags
        above = self._catalog.etags_above(self.levels) if own is not None else None
        return None if own is None or above is None else state_of(files, [*above, own])

    def _known(self, data_source: str) -> Etags | None:
        definition = self._catalog.definition(data_source)
        if definition is None or not self._there:
            return Etags(EMPTY_DIGEST, EMPTY_DIGEST, EMPTY_DIGEST)
        return None if self._etags is None else self._etags.get(definition)

    def values(self, data_source: str) -> dict[str, Json]:
        """Return the values at the node's level that count as those uploaded before."""
        return self.raw_values(data_source)

    def raw_values(self, data_source: str) -> dict[str, Json]:
        """Return the values stored at the node's level."""
        if data_source not in self._values:
            known, definition = self._known(data_source), self._catalog.definition(data_source)
            if definition is None or (known and known.values == EMPTY_DIGEST):
                self._values[data_source] = {}
            else:
                self._values[data_source] = self._client.values(self._environment, self.levels, definition)
        return self._values[data_source]

    def overrides(self, data_source: str) -> dict[str, Json]:
        """Return the overrides at the node's level."""
        if data_source not in self._overrides:
            known, definition = self._known(data_source), self._catalog.definition(data_source)
            if definition is None or (known and known.overrides == EMPTY_DIGEST):
                self._overrides[data_source] = {}
            else:
                self._overrides[data_source] = self._client.overrides(self._environment, self.levels, definition)
        return self._overrides[data_source]

    def records(self) -> dict[str, Json]:
        """Return what ConfigDB keeps of our own records of this node, by data source (``digests``)."""
        definition = self._catalog.records
        if self._records is None:
            known = None if self._etags is None or definition is None else self._etags.get(definition)
            if definition is None or not self._there or (known and known.values == EMPTY_DIGEST):
                self._records = {}
            else:
                self._records = self._client.values(self._environment, self.levels, definition)
        return self._records

    def agrees(self, records: dict[str, Json]) -> bool:
        """Tell whether ConfigDB keeps just these of our records, or none at all."""
        definition = self._catalog.records
        if definition is None or not self._there:
            return True
        known = None if self._etags is None else self._etags.get(definition)
        if known is not None:
            return known.values in {EMPTY_DIGEST, document_digest(records)}
        return not self.records() or same(self.records(), records)

    @property
    def has_records(self) -> bool:
        """Whether ConfigDB may keep something of our records of this node; unknown without asking counts as so."""
        definition = self._catalog.records
        known = None if self._etags is None or definition is None else self._etags.get(definition)
        return known is None or known.values != EMPTY_DIGEST

    def keep_records(self, records: dict[str, Json]) -> None:
        """Store what ConfigDB is to keep of our records of this node; nothing is sent if it has just that."""
        definition = self._catalog.records
        if definition is not None and not same(records, self.records()):
            self._client.put_values(self._environment, self.levels, definition, records)
            self._records = records

    def above(self, data_source: str) -> tuple[Level, ...]:
        """Return the levels over the node's, root first."""
        definition = self._catalog.definition(data_source)
        return () if definition is None else self._catalog.above(definition, self.levels)

    @property
    def has_values(self) -> bool:
        """Whether anything was ever uploaded of this node."""
        return any(self.values_digest(name) != EMPTY_DIGEST for name in self._catalog.names)

    def values_digest(self, data_source: str) -> str:
        """Return the digest of the stored values."""
        known = self._known(data_source)
        return document_digest(self.raw_values(data_source)) if known is None else known.values

    def effective(self, data_source: str) -> dict[str, Json]:
        """Return the effective data as it was before this run, by the server's rule."""
        return merge_levels([*self.above(data_source), (self.values(data_source), self.overrides(data_source))])

    def effective_digest(self, data_source: str) -> str:
        """Return the digest of the effective data as it was before this run."""
        known = self._known(data_source)
        return document_digest(self.effective(data_source)) if known is None else known.effective
