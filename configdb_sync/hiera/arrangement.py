"""In which order Puppet on a node reads its data sources: documents become layers of its hierarchy (U24). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from configdb_sync.hiera.data_source_config import DEFAULT, parse_entries
from configdb_sync.hiera.data_sources import SUFFIX, DataSource, NodeMap, map_node
from configdb_sync.hiera.hierarchy import Hierarchy
from configdb_sync.hiera.layouts import Layout, NodeFacts, facts_of, layout_of
from configdb_sync.hiera.lookup import Layer
from configdb_sync.jsonvalues import Document, Json
from configdb_sync.names import LevelPath

_BASE = tuple(dict.fromkeys(name.removesuffix(SUFFIX) for layout in Layout for name in layout.base_files))
_BY_ASKER = {
    "override/class/*": "calling_class",
    "override/module/*": "calling_module",
    "class/*": "calling_class",
    "module/*": "calling_module",
}
"""Families of which Hiera reads a single file: the one of the class or module that asks."""


@dataclass(frozen=True)
class Asker:
    """Who looks a key up: the Puppet class and module, None if it is none in particular."""

    calling_class: str | None = None
    calling_module: str | None = None

    @property
    def variables(self) -> dict[str, str]:
        """The variables of Hiera that name it."""
        found = {"calling_class": self.calling_class, "calling_module": self.calling_module}
        return {name: value for name, value in found.items() if value is not None}


NOBODY = Asker()


@dataclass(frozen=True)
class NodeSettings:
    """One node's layers, the one that Hiera asks first coming first, and what it knows of the node.

    ``node``: the value of its level. ``layers``: by data source's name, those that have any data. ``unread``: those
    that no level of the hierarchy reads. ``notes``: what is not followed of the node's own hierarchy.
    """

    node: str
    levels: LevelPath
    layers: tuple[Layer, ...] = field(repr=False)
    variables: Mapping[str, Json] = field(repr=False)
    unread: tuple[Layer, ...] = field(default=(), repr=False)
    notes: tuple[str, ...] = ()

    @property
    def everything(self) -> tuple[Layer, ...]:
        """The layers, and behind them those that Hiera does not read."""
        return (*self.layers, *self.unread)

    @property
    def documents(self) -> dict[str, Document]:
        """The effective data by data source, whether Hiera reads it or not."""
        return {layer.name: layer.document for layer in self.everything}

    def only(self, key: str) -> dict[str, Document]:
        """Return the effective data of one top-level key alone, by data source."""
        return {layer.name: {key: layer.document[key]} for layer in self.everything if key in layer.document}


@dataclass(frozen=True)
class Arrangement:
    """How documents become layers: data sources beside the default ones, who asks, and the hierarchy.

    ``hierarchy``: one that holds for all nodes, whatever their own is. None: each node's own, else the default order.
    """

    data_sources: Sequence[Json] = ()
    hierarchy: Hierarchy | None = None
    asker: Asker = NOBODY

    def settings(
        self, node: str, levels: LevelPath, documents: Mapping[str, Document], own: Hierarchy | None = None
    ) -> NodeSettings:
        """Return a node's layers from its effective data by data source; ``own`` is its hierarchy, if known. Pure.

        Raises ``NodeError`` if the data has no base file that tells who the node is.
        """
        there = {name: document for name, document in documents.items() if document}
        layout = layout_of([name + SUFFIX for name in _BASE if name in there])
        facts = facts_of(layout, {path: there[path.removesuffix(SUFFIX)] for path in layout.base_files})
        sources = parse_entries(self.data_sources, DEFAULT[layout])
        found = map_node(sources, facts.scope, [name + SUFFIX for name in there])
        variables = {**_variables(facts), **self.asker.variables}
        hierarchy = self.hierarchy or own
        if hierarchy is None:
            names = list(self._in_default_order(sources, found))
        else:
            paths = hierarchy.paths(variables)
            names = [name for path in paths if (name := found.source_of(path + SUFFIX)) is not None]
        read = [name for name in dict.fromkeys(names) if name in there]
        layers, unread = (
            tuple(Layer(name, there[name]) for name in names) for names in (read, sorted(there.keys() - set(read)))
        )
        notes = own.notes if own is not None and self.hierarchy is None else ()
        return NodeSettings(node, levels, layers, variables, unread, notes)

    def of_files(self, node: str, files: Mapping[str, Document], own: Hierarchy | None = None) -> NodeSettings:
        """Return a node's layers from its files by path below ``/etc/hiera``; ``own`` is its hierarchy, if known. Pure.

        Raises ``NodeError``.
        """
        layout = layout_of(files)
        facts = facts_of(layout, {path: files[path] for path in layout.base_files if path in files})
        found = map_node(parse_entries(self.data_sources, DEFAULT[layout]), facts.scope, files)
        documents = {found.files[path]: files[path] for path in files if path in found.files}
        return self.settings(node, (), documents, own)

    def _in_default_order(self, sources: Sequence[DataSource], found: NodeMap) -> Iterator[str]:
        for source in sources:
            if not source.is_family:
                yield source.name
            elif source.path in _BY_ASKER:
                asker = self.asker.variables.get(_BY_ASKER[source.path])
                yield from [] if asker is None else [f"{source.folder}/{asker}"]
            else:
                yield from sorted(name for name in found.sources if name.rpartition("/")[0] == source.folder)


def _variables(node: NodeFacts) -> dict[str, Json]:
    """Return the facts of Facter that the base files tell."""
    known = {"fqdn": node.fqdn, "hostname": node.hostname}
    if node.fqdn is not None:
        known["domain"] = node.fqdn.partition(".")[2]
    plain = {name: value for name, value in known.items() if value is not None}
    return {**plain, "facts": plain}
