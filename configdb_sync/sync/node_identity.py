"""Who a node is, by its base files and the settings: checked against where it was found (U4); its levels and data
sources (U7). Pure.

A run must not write anything that changes the answer (U18). Otherwise the next run would refuse the node, and could not
take the override away again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from configdb_sync.errors import EnvironmentMismatchError, NodeError, NodeFileError, ProductError, SettingsError
from configdb_sync.hiera.data_source_config import DEFAULT, parse_entries
from configdb_sync.hiera.data_sources import DataSource
from configdb_sync.hiera.layouts import Layout, NodeFacts, facts_of, is_foreign
from configdb_sync.jsonvalues import Document, Json
from configdb_sync.nailgun.roster import Roster
from configdb_sync.names import LevelPath
from configdb_sync.nodes.node_files import NodeRead
from configdb_sync.sync.decide import Decision, Write
from configdb_sync.sync.run_options import RunOptions

PLUGIN = "configdb-sync"
"""The plugin's name: its section in a base file holds the settings that the user set in the Fuel UI (U3)."""


@dataclass(frozen=True)
class NodeIdentifier:
    """What a run's options, and Nailgun where it is asked, make of nodes' base files."""

    options: RunOptions
    roster: Roster | None = None

    def check(self, read: NodeRead, facts: NodeFacts, layout: Layout) -> None:
        """Raise ``NodeError`` or ``EnvironmentMismatchError`` if the facts contradict where the node was found."""
        where = " and ".join(layout.base_files)
        if facts.uid != read.identity:
            raise NodeError(
                f"its facts say uid {facts.uid}, but it was found as node {read.identity}",
                way_out="nothing of it was touched; put its own files there",
                file=where,
            )
        if facts.environment != self.options.environment:
            raise EnvironmentMismatchError(
                f"it belongs to environment {facts.environment} (fact deployment_id), not {self.options.environment}",
                way_out=f"use --env {facts.environment}",
                file=where,
            )
        if self.roster is not None:
            self.roster.check(facts.uid, facts.fqdn)

    def data_sources(self, layout: Layout, base: Mapping[str, Json]) -> tuple[DataSource, ...]:
        """Return the data sources of a node with these base files; ``SettingsError`` for an entry that is wrong."""
        section = base.get(PLUGIN)
        metadata = section.get("metadata") if isinstance(section, dict) else None
        entries = metadata.get("data_sources", []) if isinstance(metadata, dict) else []
        if not isinstance(entries, list):
            raise SettingsError(
                f"{PLUGIN}.metadata.data_sources is {type(entries).__name__}, not a list",
                way_out="correct the plugin's settings",
            )
        return parse_entries(self.options.data_sources, parse_entries(entries, DEFAULT[layout]))

    def identity(self, layout: Layout, base: Mapping[str, Document]) -> tuple[NodeFacts, LevelPath, tuple[str, ...]]:
        """Return who a node with these base files is, its place in ConfigDB, and the names of its data sources."""
        facts = facts_of(layout, base)
        names = tuple(source.name for source in self.data_sources(layout, facts.scope))
        return facts, self.options.addresses.of_facts(facts.scope), names


@dataclass(frozen=True)
class IdentityGuard:
    """Keeps a run from changing who a node is. ``base``: the values of its base files, by path. ``identity``: returns
    what must stay the same, or raises."""

    layout: Layout
    base: Mapping[str, Document] = field(repr=False)
    identity: Callable[[Mapping[str, Document]], object]

    def check(self, path: str, decision: Decision) -> None:
        """Raise ``NodeFileError`` if what is to be written would make the node look like another one.

        What the node itself means by its files is what counts, not what an override made of them.
        """
        if decision.write is Write.CREATE and is_foreign(path, self.layout):
            raise NodeFileError(
                "there are overrides for it, but with this file the node would look like one of another Fuel release;"
                " the file was not created",
                way_out="remove them, and override a file that the node has instead",
            )
        if decision.write is not Write.NONE and path in self.base and not self._kept(path, decision):
            raise NodeFileError(
                "an override changes what identifies the node (uid, deployment_id, fqdn, hostname, a hierarchy"
                " level or the list of data sources); the file was left alone",
                way_out="remove the override",
            )

    def _kept(self, path: str, decision: Decision) -> bool:
        try:
            after = self.identity({**self.base, path: decision.target})
            return after == self.identity({**self.base, path: decision.meant.values})
        except ProductError:
            return False
