"""What ConfigDB holds of one node where folders' documents are among it (U31): each file's part is shown as its own
data source's, and overrides as they will be once they are moved."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import NamedTuple

from configdb_sync.configdb.level_merge import effective as merge_levels
from configdb_sync.errors import AmbiguousError
from configdb_sync.hiera import HieraDocument
from configdb_sync.jsonvalues import Json, document_digest, same
from configdb_sync.names import LevelPath
from configdb_sync.sync.decide import Level
from configdb_sync.sync.folders import FolderMap, Held, Move, as_read, content_of
from configdb_sync.sync.stored import StoredNode


class _Split(NamedTuple):
    """A node's overrides in folders' documents; moves that contradict another override with the keys that do."""

    moves: tuple[Move, ...]
    held: tuple[Held, ...]
    contradicted: tuple[tuple[Move, tuple[str, ...]], ...]


class FolderStored(StoredNode):
    """ConfigDB's documents at one node's level, seen through its folders' documents.

    ``recorded`` are the data sources that we have a record of: what is stored of these is ours, no folder's. Nothing is
    changed; ``moves`` says what is to be.
    """

    def __init__(self, stored: StoredNode, folders: FolderMap, recorded: Collection[str]) -> None:
        vars(self).update(vars(stored))  # what was fetched already stays known
        self.folders = folders
        self._documents: dict[str, HieraDocument] = {}
        self._recorded = recorded
        self._open = set() if recorded else {name for name in folders.mapped.sources if folders.home(name)}

    def uploaded(self, folder: str) -> dict[str, Json]:
        """Return the values at the node's level if they are a folder's, else ``{}``."""
        single = self.folders.is_single(folder)
        if folder not in self.folders.names or (single and folder in self._recorded):
            return {}
        values = self.raw_values(folder)
        return values if self.folders.is_folders(folder, values) else {}

    @cached_property
    def _split(self) -> _Split:
        found: list[Move] = []
        held: list[Held] = []
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

    def _contradicted(self, move: Move) -> tuple[str, ...]:
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
    def moves(self) -> tuple[Move, ...]:
        """The overrides to be moved; those that contradict another are not among them."""
        return self._split.moves

    @property
    def held(self) -> tuple[Held, ...]:
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
                    f" {move.folder} (key {move.stem}, at {move.place}); neither was touched, nothing of the file",
                    way_out="take one of the two overrides away with `configdb-sync rm-override`",
                    data_source=data_source,
                )

    def aside(self, data_source: str) -> frozenset[str]:
        """Return the keys of a data source's overrides that are files of the folder of that name."""
        standing: list[Move | Held] = [*(move for move, _ in self._split.contradicted), *self.moves, *self.held]
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

    def is_strange(self, data_source: str, document: HieraDocument, *, unknown: bool, strange: bool) -> bool:
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
