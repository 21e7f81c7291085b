"""What ConfigDB holds of one node's documents, fetched no more than needed.

Where ConfigDB has documents that hold a whole folder (U31), each file's part of them is shown as the file's own data
source, and overrides as they will be once they are moved.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Literal, NamedTuple

from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.level_merge import effective as merge_levels
from configdb_sync.configdb.model import Etags
from configdb_sync.errors import AmbiguousError
from configdb_sync.hiera.documents import HieraDocument
from configdb_sync.jsonvalues import EMPTY_DIGEST, Json, document_digest, same
from configdb_sync.names import HIERARCHY, LevelPath, place_of
from configdb_sync.sync.decide import Level
from configdb_sync.sync.fingerprint import state_of
from configdb_sync.sync.folder_documents import FolderDocuments, HeldOverride, OverrideMove, as_read, content_of
from configdb_sync.sync.remote_environment import RemoteEnvironment


class RemoteNode:
    """ConfigDB's documents at one node's level. A data source that ConfigDB doesn't have reads as empty.

    Digests come from the server in one request where it has them; else each document is fetched. Every method
    raises ``ConfigDBError`` as the client does. Used by one thread.
    """

    def __init__(self, client: ConfigDBClient, remote: RemoteEnvironment, environment: int, levels: LevelPath) -> None:
        self._client = client
        self._remote = remote
        self._environment = environment
        self.levels = levels
        self.places = [place_of(levels[:depth]) for depth in range(len(levels) + 1)]
        self._there = remote.may_hold(levels)
        self._etags = client.etags(environment, levels) if self._there else None
        self._cache: dict[tuple[str, str], dict[str, Json]] = {}
        self._records: dict[str, Json] | None = None
        self._by_effective: dict[str, Etags] = {}

    @property
    def concerned(self) -> tuple[str, ...]:
        """The data sources that overrides are to be moved to (``RemoteNodeWithFolders``)."""
        return ()

    def aside(self, _data_source: str) -> frozenset[str]:
        """Return the keys of a data source's overrides that aren't its own (``RemoteNodeWithFolders``)."""
        return frozenset()

    def check(self, data_source: str) -> None:
        """Raise ``AmbiguousError`` if overrides contradict each other (``RemoteNodeWithFolders``)."""

    def is_left(self, _data_source: str) -> bool:
        """Tell whether a document is none of a file (``RemoteNodeWithFolders``)."""
        return False

    def is_unrecorded(self, _data_source: str, _document: HieraDocument, *, unknown: bool, unrecorded: bool) -> bool:
        """Tell whether there may be something of ours in a file that we have no record of.

        ``unknown``: there is no record of the node at all; ``unrecorded``: and it has values in ConfigDB.
        """
        del unknown
        return unrecorded

    def state(self, files: str, etags: Mapping[int, Etags] | None = None) -> str | None:
        """Return the node's state (``fingerprint``) with these digests at its level, by default those read first.

        None where the server gives no digests, or not at this level.
        """
        own = self._etags if etags is None else etags
        above = self._remote.etags_above(self.levels) if own is not None else None
        if own is None or above is None:
            return None
        return state_of(files, [*above, self._remote.without_notes(self.levels, own)])

    def look(self, data_source: str, in_step: str | None) -> None:
        """Where the server gives no digests, ask a data source's effective data if it may tell all there is to know.

        None at all: then nothing is stored at any level. Or data with the digest ``in_step``, which a run left with
        nothing over or under the node's values: then they count as unchanged. Anything else is read as it is stored.
        """
        definition = self._remote.definition(data_source)
        if definition is None or not self._there or self._etags is not None:
            return
        found = document_digest(self._client.effective(self._environment, self.levels, definition))
        if found in (EMPTY_DIGEST, in_step):
            self._by_effective[data_source] = Etags(found, EMPTY_DIGEST, found)

    def _known(self, data_source: str) -> Etags | None:
        definition = self._remote.definition(data_source)
        if definition is None or not self._there:
            return Etags(EMPTY_DIGEST, EMPTY_DIGEST, EMPTY_DIGEST)
        return self._by_effective.get(data_source) if self._etags is None else self._etags.get(definition)

    def values(self, data_source: str) -> dict[str, Json]:
        """Return the values at the node's level that count as those uploaded before."""
        return self.raw_values(data_source)

    def raw_values(self, data_source: str) -> dict[str, Json]:
        """Return the values stored at the node's level."""
        return self._fetched(data_source, "values")

    def overrides(self, data_source: str) -> dict[str, Json]:
        """Return the overrides at the node's level."""
        return self._fetched(data_source, "overrides")

    def _fetched(self, data_source: str, kind: Literal["values", "overrides"]) -> dict[str, Json]:
        if (data_source, kind) not in self._cache:
            known, definition = self._known(data_source), self._remote.definition(data_source)
            if definition is None or (known and getattr(known, kind) == EMPTY_DIGEST):
                self._cache[data_source, kind] = {}
            else:
                fetch = self._client.values if kind == "values" else self._client.overrides
                self._cache[data_source, kind] = fetch(self._environment, self.levels, definition)
        return self._cache[data_source, kind]

    def records(self) -> dict[str, Json]:
        """Return what ConfigDB keeps of our own records of this node, by data source (``node_records``)."""
        return {name: record for name, record in self._kept().items() if name != HIERARCHY}

    def _kept(self) -> dict[str, Json]:
        definition = self._remote.records
        if self._records is None:
            known = None if self._etags is None or definition is None else self._etags.get(definition)
            if definition is None or not self._there or (known and known.values == EMPTY_DIGEST):
                self._records = {}
            else:
                self._records = self._client.values(self._environment, self.levels, definition)
        return self._records

    def agrees(self, records: dict[str, Json], hierarchy: Json = None) -> bool:
        """Tell whether ConfigDB keeps just these of our records, or none at all.

        ``hierarchy``: the node's, which it may keep beside them, None if it is unknown.
        """
        definition = self._remote.records
        if definition is None or not self._there:
            return True
        known = None if self._etags is None else self._etags.get(definition)
        if known is not None and known.values in {EMPTY_DIGEST, *_digests(records, hierarchy)}:
            return True
        return not self.records() or same(self.records(), records)

    def lacks(self, hierarchy: Json, records: dict[str, Json]) -> bool:
        """Tell whether ConfigDB could keep the node's hierarchy, and has another one or none.

        ``records`` are probably kept beside it: if so, the digest tells.
        """
        definition = self._remote.records
        if hierarchy is None or definition is None or not self._remote.reaches(self.levels):
            return False
        known = None if self._etags is None else self._etags.get(definition)
        if self._records is None and known is not None and known.values == _digests(records, hierarchy)[-1]:
            return False
        return not same(self._kept().get(HIERARCHY), hierarchy)

    @property
    def has_records(self) -> bool:
        """Whether ConfigDB may keep something of our records of this node; unknown without asking counts as so."""
        definition = self._remote.records
        known = None if self._etags is None or definition is None else self._etags.get(definition)
        return self._there and (known is None or known.values != EMPTY_DIGEST)

    def keep_records(self, records: dict[str, Json], hierarchy: Json = None) -> None:
        """Store what ConfigDB is to keep of our records of this node; nothing is sent if it has just that.

        ``hierarchy``: the node's; None leaves the one that is kept.
        """
        definition = self._remote.records
        if definition is None:
            return
        hierarchy = self._kept().get(HIERARCHY) if hierarchy is None else hierarchy
        whole = records if hierarchy is None else {**records, HIERARCHY: hierarchy}
        if not same(whole, self._kept()):
            self._client.put_values(self._environment, self.levels, definition, whole)
            self._records = whole

    def above(self, data_source: str) -> tuple[Level, ...]:
        """Return the levels over the node's, root first."""
        definition = self._remote.definition(data_source)
        if definition is None or data_source in self._by_effective:
            return ()
        return self._remote.above(definition, self.levels)

    @property
    def has_values(self) -> bool:
        """Whether anything was ever uploaded of this node."""
        return any(self.values_digest(name) != EMPTY_DIGEST for name in self._remote.names)

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


def _digests(records: dict[str, Json], hierarchy: Json) -> list[str]:
    """Return the digests that a node's records may have: alone, and with the hierarchy beside them."""
    beside = [] if hierarchy is None else [{**records, HIERARCHY: hierarchy}]
    return [document_digest(one) for one in (records, *beside)]


class _Split(NamedTuple):
    """A node's overrides in folders' documents; moves that contradict another override with the keys that do."""

    moves: tuple[OverrideMove, ...]
    held: tuple[HeldOverride, ...]
    contradicted: tuple[tuple[OverrideMove, tuple[str, ...]], ...]


class RemoteNodeWithFolders(RemoteNode):
    """ConfigDB's documents at one node's level, seen through its folders' documents.

    ``recorded`` are the data sources that we have a record of: what is stored of these is ours, no folder's. Nothing is
    changed; ``moves`` says what is to be.
    """

    def __init__(self, stored: RemoteNode, folders: FolderDocuments, recorded: Collection[str]) -> None:
        vars(self).update(vars(stored))  # what was fetched already stays known
        self.folders = folders
        self._documents: dict[str, HieraDocument] = {}
        self._recorded = recorded
        self._open = set() if recorded else {name for name in folders.mapped.sources if folders.home(name)}

    def look(self, _data_source: str, _in_step: str | None) -> None:
        """Ask nothing: here a data source's documents are made of its folder's too."""

    def uploaded(self, folder: str) -> dict[str, Json]:
        """Return the values at the node's level if they are a folder's, else ``{}``."""
        single = self.folders.is_single(folder)
        if folder not in self.folders.names or (single and folder in self._recorded):
            return {}
        values = self.raw_values(folder)
        return values if self.folders.is_folders(folder, values) else {}

    @cached_property
    def _split(self) -> _Split:
        found: list[OverrideMove] = []
        held: list[HeldOverride] = []
        for folder in sorted(self.folders.names):
            raw = [*(overrides for _, overrides in super().above(folder)), super().overrides(folder)]
            uploaded = self.uploaded(folder) if any(raw) else {}
            hidden = set(uploaded)
            for depth in reversed(range(len(raw))):
                level = self.levels[:depth]
                moves, kept = self.folders.split(
                    folder, level, raw[depth], uploaded=uploaded, node=self.levels, hidden=hidden
                )
                found += moves
                held += kept
                hidden |= set(raw[depth])
        taken = [(move, self._contradicted(move)) for move in found]
        free = tuple(move for move, keys in taken if not keys)
        return _Split(free, tuple(held), tuple((move, keys) for move, keys in taken if keys))

    def _contradicted(self, move: OverrideMove) -> tuple[str, ...]:
        """Return the keys that the file's own data source overrides already, with another value."""
        there = self._raw_overrides(move.data_source, move.target)
        own = {key: value for key, value in there.items() if (move.data_source, key) != (move.folder, move.stem)}
        return tuple(key for key, value in move.content.items() if key in own and not same(own[key], value))

    def _raw_overrides(self, data_source: str, level: LevelPath) -> dict[str, Json]:
        if level == self.levels:
            return super().overrides(data_source)
        above = super().above(data_source)
        return dict(above[len(level)][1]) if len(level) < len(above) else {}

    @property
    def moves(self) -> tuple[OverrideMove, ...]:
        """The overrides to be moved; those that contradict another are not among them."""
        return self._split.moves

    @property
    def held(self) -> tuple[HeldOverride, ...]:
        """The overrides in folders' documents that stay there."""
        return self._split.held

    @property
    def concerned(self) -> tuple[str, ...]:
        """The data sources that an override is to be moved to."""
        return tuple(
            dict.fromkeys([move.data_source for move in (*self.moves, *(move for move, _ in self._split.contradicted))])
        )

    def check(self, data_source: str) -> None:
        """Raise ``AmbiguousError`` if a data source and its folder's document override a key differently."""
        for move, keys in self._split.contradicted:
            if move.data_source == data_source:
                raise AmbiguousError(
                    f"{', '.join(keys)}: overridden at {move.destination}, and otherwise in the document of the folder"
                    f" {move.folder} (key {move.stem}, at {move.place}); neither was changed, nor the file",
                    way_out="remove one of the two overrides with `configdb-sync rm-override`",
                    data_source=data_source,
                )

    def aside(self, data_source: str) -> frozenset[str]:
        """Return the keys of a data source's overrides that are files of the folder of that name."""
        standing: list[OverrideMove | HeldOverride] = [
            *(move for move, _ in self._split.contradicted),
            *self.moves,
            *self.held,
        ]
        return frozenset(one.stem for one in standing if one.folder == data_source)

    def is_left(self, data_source: str) -> bool:
        """Tell whether a document is a folder's and nothing else: no run sends it or makes a file of it."""
        if self.folders.has_file(data_source) or not self.uploaded(data_source):
            return False
        return not self.overrides(data_source) and not any(overrides for _, overrides in self.above(data_source))

    @property
    def notes(self) -> list[str]:
        """What a plan says of folders' documents with files that no run has uploaded by themselves yet."""
        found: dict[str, list[str]] = {}
        for name in sorted(self._open):
            home = self.folders.home(name) if self.folders.mapped.sources[name] in self.folders.files else None
            if home is not None and home[1] in self.uploaded(home[0]):
                found.setdefault(home[0], []).append(name)
        return [
            f"taking over from fuel-plugin-lcm: {folder} holds the files of a folder; as data sources of their own they"
            f" are {', '.join(names)}"
            for folder, names in sorted(found.items())
        ]

    def is_unrecorded(self, data_source: str, document: HieraDocument, *, unknown: bool, unrecorded: bool) -> bool:
        """Judge each document by itself, and by its folder's document too.

        Where there is no record of the node at all, a document that ConfigDB holds nothing of, by any name, has one
        side alone, the node's. Where there are some, this document may have failed in the first run: then an override
        that an older plugin wrote may still be in the file.
        """
        self._documents[data_source] = document
        if not unknown:
            laid = [self.overrides(data_source), *(overrides for _, overrides in self.above(data_source))]
            self._open |= {data_source} if any(laid) else set()
            return any(laid) and bool(self.values(data_source))
        return bool(self.values(data_source) or self.effective(data_source))

    def values(self, data_source: str) -> dict[str, Json]:
        """Return the values at the node's level: the data source's own, else its part of the folder's document.

        Once a run has dealt with the file, that part tells nothing of it any more.
        """
        own, home = self._own_values(data_source), self.folders.home(data_source)
        if not own and home is not None and data_source in self._open:
            own = content_of(self.uploaded(home[0]).get(home[1]))
        document = self._documents.get(data_source)
        return own if document is None else as_read(own, document.values, document.type_marks())

    def _own_values(self, data_source: str) -> dict[str, Json]:
        return {} if self.uploaded(data_source) else self.raw_values(data_source)

    def overrides(self, data_source: str) -> dict[str, Json]:
        """Return the overrides at the node's level as they will be."""
        return self._moved(data_source, self.levels, super().overrides(data_source))

    def above(self, data_source: str) -> tuple[Level, ...]:
        """Return the levels over the node's as they will be, root first."""
        return tuple(
            (values, self._moved(data_source, self.levels[:depth], overrides))
            for depth, (values, overrides) in enumerate(super().above(data_source))
        ) or self._only_moved(data_source)

    def _only_moved(self, data_source: str) -> tuple[Level, ...]:
        """Return the levels over the node's of a data source that isn't there yet."""
        return tuple(({}, self._moved(data_source, self.levels[:depth], {})) for depth in range(len(self.levels)))

    def _moved(self, data_source: str, level: LevelPath, overrides: Mapping[str, Json]) -> dict[str, Json]:
        aside = self.aside(data_source)
        found = {key: value for key, value in overrides.items() if key not in aside}
        for move in self.moves:
            if (move.data_source, move.target) == (data_source, level):
                found |= move.content
        return found

    def effective(self, data_source: str) -> dict[str, Json]:
        """Return the effective data as it was before: with an override that stands for the whole file."""
        whole = {move.data_source: move.content for move in self.moves if move.target == self.levels}
        if data_source in whole and not self._own_values(data_source):
            return dict(whole[data_source])
        return self._merged(data_source)

    def effective_digest(self, data_source: str) -> str:
        """Return the digest of the effective data; with moves as they will be, so that it is the same after them."""
        if data_source in self.concerned or data_source in self.folders.names:
            return document_digest(self._merged(data_source))
        return super().effective_digest(data_source)

    def _merged(self, data_source: str) -> dict[str, Json]:
        levels = (self.values(data_source), self.overrides(data_source))
        return merge_levels([*self.above(data_source), levels])
