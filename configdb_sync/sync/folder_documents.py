"""Documents that hold a whole folder, as fuel-plugin-lcm's uploader fills ConfigDB (U31).

There a file right in ``/etc/hiera`` is a data source of its own. All files of a folder are one document instead: the
data source has the folder's name, each key is a file's name without ``.yaml``, and its value is the file's content.
``docs/decisions/folder-documents.md`` says how such a document is told from a single file's. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from configdb_sync.hiera.builder import Value
from configdb_sync.hiera.data_sources import SUFFIX, DataSource, NodeMap
from configdb_sync.hiera.marks import typed, typed_key
from configdb_sync.hiera.scalars import Special
from configdb_sync.jsonvalues import Document, Json, document_digest, same
from configdb_sync.names import LevelPath, place_of

_OF_ONE_NODE = frozenset({"fqdn", "hostname", "uid"})
"""Facts that no two nodes share."""


@dataclass(frozen=True)
class OverrideMove:
    """The override of one file in a folder's document, to be moved to the file's own data source.

    It stands at the key ``stem`` of ``folder`` at the level ``source``; ``content`` goes to ``data_source`` at
    ``target``. ``left_out``: keys of the file's stored values that it leaves out. As long as it stood for the whole
    file they were away; an override of single keys can't take any away.
    """

    folder: str
    stem: str
    data_source: str
    source: LevelPath
    target: LevelPath
    content: Mapping[str, Json] = field(repr=False)
    left_out: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """Where it stands: ``/`` or ``/nodes/46/``."""
        return place_of(self.source)

    @property
    def destination(self) -> str:
        """Where it goes."""
        return place_of(self.target)

    @property
    def intent(self) -> tuple[str, ...]:
        """What the plan's digest covers of it."""
        content = document_digest(dict(self.content))
        return ("move", self.folder, self.stem, self.place, self.data_source, self.destination, content)


@dataclass(frozen=True)
class HeldOverride:
    """An override in a folder's document that stays there and reaches no node, and why."""

    folder: str
    stem: str
    place: str
    why: str


@dataclass(frozen=True)
class FolderDocuments:
    """The folders' documents of one environment, as one node has the folders.

    ``names``: the data sources that are folders. ``shared``: data sources whose file is another one on each node, with
    the facts that name it. ``files``: the node's files.
    """

    mapped: NodeMap
    names: frozenset[str]
    shared: Mapping[str, tuple[str, ...]]
    files: frozenset[str]

    def data_source(self, folder: str, stem: str) -> str | None:
        """Return the data source of a file of a folder, None if it is none's."""
        return self.mapped.source_of(f"{folder}/{stem}{SUFFIX}") if stem and "/" not in stem else None

    def home(self, data_source: str) -> tuple[str, str] | None:
        """Return the folder's document that has a data source's file, and its key there; None if there is none."""
        path = self.mapped.path_of(data_source)
        folder, _, file = (path or "").rpartition("/")
        return (folder, file.removesuffix(SUFFIX)) if folder in self.names else None

    def is_single(self, folder: str) -> bool:
        """Tell whether a folder's name is that of a single file's data source too (``override/configuration``)."""
        return self.mapped.path_of(folder) is not None

    def has_file(self, folder: str) -> bool:
        """Tell whether the node has the single file of that name."""
        return self.mapped.path_of(folder) in self.files

    def _inside(self, folder: str) -> bool:
        """Tell whether the single file of that name lies in the folder itself (``override/node/<fqdn>.yaml``)."""
        return (self.mapped.path_of(folder) or "").startswith(f"{folder}/")

    def is_folders(self, folder: str, values: Document) -> bool:
        """Tell by the values of a document that no record of ours is of whether it holds a folder's files."""
        if not self.is_single(folder):
            return bool(values)
        if not values or not all(_is_content(value) for value in values.values()):
            return False
        return not self._inside(folder) or all(self._is_file_of(folder, stem) for stem in values)

    def _is_file_of(self, folder: str, stem: str) -> bool:
        """Tell whether a key is a file of a folder that has one file for each node: this node's, or another's FQDN."""
        return self.data_source(folder, stem) is not None or "." in stem

    def split(
        self,
        folder: str,
        level: LevelPath,
        overrides: Document,
        *,
        uploaded: Document,
        node: LevelPath,
        hidden: Collection[str],
    ) -> tuple[list[OverrideMove], list[HeldOverride]]:
        """Return what is to be moved of a document's overrides at one level, and what can't be.

        Whatever is neither is the single file's own. ``uploaded`` are the values at the node's level ``node`` if they
        are a folder's; ``hidden`` are keys that a deeper level has too.
        """
        moves: list[OverrideMove] = []
        held: list[HeldOverride] = []
        for stem, content in overrides.items():
            data_source = self.data_source(folder, stem)
            if data_source is None:
                if self._is_held(folder, stem, content, uploaded):
                    held.append(
                        HeldOverride(
                            folder, stem, place_of(level), f"no data source is the file {folder}/{stem}{SUFFIX}"
                        )
                    )
                continue
            target, why = self._target(data_source, level, node, hidden=stem in hidden)
            if not isinstance(content, dict):
                why = "it isn't a mapping, as a file's content is"
            elif not content:
                why = "it makes the file empty, which an override of single keys can't do"
            if why or not isinstance(content, dict):
                held.append(HeldOverride(folder, stem, place_of(level), why or ""))
                continue
            before = uploaded.get(stem)
            left_out = tuple(key for key in before if key not in content) if isinstance(before, dict) else ()
            moves.append(OverrideMove(folder, stem, data_source, level, target, content, left_out))
        return moves, held

    def _is_held(self, folder: str, stem: str, content: Json, uploaded: Document) -> bool:
        if not self.is_single(folder) or stem in uploaded:
            return True
        if self._inside(folder):
            return isinstance(content, dict) and "." in stem
        return not self.has_file(folder) and (bool(uploaded) or isinstance(content, dict))

    def _target(
        self, data_source: str, level: LevelPath, node: LevelPath, *, hidden: bool
    ) -> tuple[LevelPath, str | None]:
        """Return the level that an override goes to, and why it can't go there."""
        facts = self.shared.get(data_source, ())
        if level == node or not facts:
            return level, None
        # Over the nodes' level this data source is the file of each node; the override is for the one it names.
        if not _OF_ONE_NODE & set(facts):
            return node, f"several nodes have the file; override {data_source} for each of them"
        return node, "the override at the node's own level hides it" if hidden else None


def folder_documents(
    mapped: NodeMap, sources: Iterable[DataSource], files: Collection[str], definitions: Collection[str]
) -> FolderDocuments | None:
    """Return the folders' documents that an environment has, by the names of its data sources; None if it has none.

    The sign is a data source that is a folder on this node and can't be a file: we never make one. Where one is, other
    data sources with a folder's name may hold a folder too.
    """
    folders = {path.rpartition("/")[0] for path in [*mapped.sources.values(), *files]} | mapped.families
    names = frozenset(name for name in definitions if name in folders)
    if not any(mapped.path_of(name) is None for name in names):
        return None
    shared = {source.name: source.template.facts for source in sources if not source.is_family}
    return FolderDocuments(mapped, names, {name: facts for name, facts in shared.items() if facts}, frozenset(files))


def content_of(value: Json) -> dict[str, Json]:
    """Return the content of a file in a folder's document; an empty file stands there as null or false."""
    return value if isinstance(value, dict) else {}


def as_read(values: Document, file: Document, marks: Mapping[str, Json]) -> dict[str, Json]:
    """Return stored values; those that equal the file's, but in Ruby's own JSON form, are replaced by the file's.

    Ruby's JSON has the name of a Symbol without its colon; ``marks`` says where the file has Symbols.
    """
    found = dict(values)
    for key, mark in marks.items():
        kinds = mark if isinstance(mark, dict) else {}
        plain_key = _plain(typed_key(key, kinds.get("key")))
        if plain_key in values and same(values[plain_key], _plain(typed(file[key], kinds.get("value")))):
            del found[plain_key]
            found[key] = file[key]
    return found


def _plain(value: Value) -> Json:
    if isinstance(value, Special):
        return value.text.removeprefix(":") if value.kind == "symbol" else value.text
    if isinstance(value, dict):
        return {str(_plain(key)): _plain(child) for key, child in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _is_content(value: Json) -> bool:
    return isinstance(value, dict) or value is None or value is False
