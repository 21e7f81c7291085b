"""From one node's files to what is to be done with each of its documents; nothing is changed anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.merge import effective as merge_levels
from configdb_sync.configdb.model import LevelPath
from configdb_sync.errors import (
    AmbiguousError,
    DocumentError,
    EnvironmentMismatchError,
    NodeError,
    ProductError,
    SettingsError,
    UnsafeError,
)
from configdb_sync.hiera import HieraDocument, Reader
from configdb_sync.hiera.datasource import DataSource
from configdb_sync.hiera.declared import parse_entries
from configdb_sync.hiera.facts import NodeFacts, facts_of
from configdb_sync.hiera.layouts import DEFAULT, Layout, layout_of
from configdb_sync.hiera.placeholders import expand, parse
from configdb_sync.hiera.sources import NodeMap, map_node
from configdb_sync.jsonvalues import EMPTY_DIGEST, Json, same
from configdb_sync.masking import Masker
from configdb_sync.nailgun.roster import Roster
from configdb_sync.nodes.model import NodeFile, NodeLeftOut, NodeRead
from configdb_sync.sync.catalog import Catalog
from configdb_sync.sync.decide import Decision, Write, decide, needs_stored, what_node_means
from configdb_sync.sync.diff import Change, changes
from configdb_sync.sync.digests import FROM_NAILGUN, from_json, reconciled, recovered, to_json
from configdb_sync.sync.health import Health
from configdb_sync.sync.idle import IdleOverride, idle_overrides
from configdb_sync.sync.merge import ABSENT
from configdb_sync.sync.options import RunOptions
from configdb_sync.sync.orders import given
from configdb_sync.sync.plan import Digests, DocumentChange, NodePlan
from configdb_sync.sync.records import Record, Records
from configdb_sync.sync.safety import UnsafeChange, lost_keys
from configdb_sync.sync.stage import Stage
from configdb_sync.sync.stored import StoredNode

PLUGIN = "configdb-sync"
"""The plugin's name: its section in a base file holds the settings that the user set in the Fuel UI (U3)."""


@dataclass(frozen=True)
class Subject:
    """What is known of one document before ConfigDB is asked.

    ``strange``: values of this node were uploaded, and no record of it is left anywhere.
    """

    data_source: str
    path: str
    file: NodeFile | None
    document: HieraDocument | None = field(repr=False)
    record: Record | None = field(repr=False)
    strange: bool


@dataclass(frozen=True)
class DocumentWork:
    """One document with the decision on it and all that carrying it out takes."""

    data_source: str
    path: str
    file: NodeFile | None
    document: HieraDocument | None = field(repr=False)
    decision: Decision = field(repr=False)
    record: Record | None = field(repr=False)
    change: DocumentChange | None
    ordered: Mapping[str, Json] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class NodeWork:
    """One node's plan, its documents, the data sources that ConfigDB must have for it, and our records as they are.

    ``fresh``: nothing was ever uploaded of this node.
    """

    plan: NodePlan
    stored: StoredNode | None = None
    documents: tuple[DocumentWork, ...] = ()
    data_sources: tuple[str, ...] = ()
    records: Mapping[str, Record] = field(default_factory=dict, repr=False)
    fresh: bool = False


@dataclass(frozen=True)
class Examiner:
    """Looks at nodes for one run.

    ``allowed`` are the unsafe changes that the user let through, ``roster`` what Nailgun knows of the nodes.
    """

    client: ConfigDBClient
    catalog: Catalog
    reader: Reader
    records: Records
    masker: Masker
    health: Health
    options: RunOptions
    allowed: frozenset[UnsafeChange] = frozenset()
    roster: Roster | None = None

    def examine(self, read: NodeRead | NodeError) -> NodeWork | None:
        """Return what is to be done with a node; None if the run isn't asked for it.

        What is wrong with the node or one of its documents is in the plan's problems; what concerns the whole run
        is raised (``Health``).
        """
        if isinstance(read, NodeError):
            return NodeWork(NodePlan(read.node or "?", problems=(read,)))
        if isinstance(read, NodeLeftOut):
            asked = not self.options.nodes or {read.identity, read.fqdn} & set(self.options.nodes)
            return NodeWork(NodePlan(read.identity, read.fqdn, notes=(read.why,))) if asked else None
        try:
            return self._examine(read)
        except ProductError as error:
            self.health.failed(error)
            return NodeWork(NodePlan(read.identity, problems=(error.located(node=read.identity),)))

    def _examine(self, read: NodeRead) -> NodeWork | None:
        paths = {*read.files, *(path for path in read.faults if not path.endswith("/"))}
        layout = layout_of(paths)
        base = {path: self._base_document(read, path) for path in layout.base_files}
        facts = facts_of(layout, {path: document.values for path, document in base.items()})
        if self.options.nodes and not {read.identity, facts.fqdn} & set(self.options.nodes):
            return None
        self._check(read, facts, layout)
        mapped = map_node(self._data_sources(layout, facts.scope), facts.scope, paths)
        levels = self._levels(facts.scope)
        wanted = tuple(mapped.sources)
        self.catalog.want(wanted)
        stored = StoredNode(self.client, self.catalog, self.options.environment, levels)
        plan = PlanBuilder(read.identity, facts.fqdn, mapped)
        own = self.records.of_node(read.identity)
        agreed = stored.agrees({name: to_json(record) for name, record in own.items()})
        unknown = not own and not stored.records()
        strange = unknown and stored.has_values
        documents = []
        for name, path in self._paths(read, mapped).items():
            try:
                fault = read.fault_of(path)
                if fault is not None:
                    raise fault
                if self.options.stage is Stage.PRE and path not in read.files:
                    plan.leave(name, path, stored)
                    continue
                document = base.get(path) or self._document(read, path)
                subject = Subject(name, path, read.files.get(path), document, own.get(name), strange)
                if not agreed:
                    subject = replace(subject, record=_known(own.get(name), subject, stored))
                work = self._one(subject, stored, plan)
            except ProductError as error:
                self.health.failed(error)
                plan.problems.append(error.located(node=read.identity, file=path, data_source=name))
            else:
                self.health.worked()
                documents.append(work)
        return NodeWork(plan.build(), stored, tuple(documents), wanted, own, fresh=unknown and not strange)

    def _paths(self, _read: NodeRead, mapped: NodeMap) -> dict[str, str]:
        """Return the node's data sources and files, with those that an override may create here."""
        paths = dict(mapped.sources)
        for name in self.catalog.names:
            path = None if name in paths else mapped.path_of(name)
            if path is not None:
                paths[name] = path
        return paths

    def _base_document(self, read: NodeRead, path: str) -> HieraDocument:
        if path in read.faults:
            raise NodeError(f"its facts can't be read: {read.faults[path].what}", file=path)
        document = self._document(read, path)
        if document is None:
            raise NodeError(f"it has no {path}, its facts can't be told", file=path)
        return document

    def _document(self, read: NodeRead, path: str) -> HieraDocument | None:
        file = read.files.get(path)
        if file is None:
            return None
        try:
            return self.reader.read(file.content)
        except DocumentError as error:
            raise error.located(node=read.identity, file=path) from error

    def _check(self, read: NodeRead, facts: NodeFacts, layout: Layout) -> None:
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

    def _data_sources(self, layout: Layout, base: Mapping[str, Json]) -> tuple[DataSource, ...]:
        section = base.get(PLUGIN)
        metadata = section.get("metadata") if isinstance(section, dict) else None
        entries = metadata.get("data_sources", []) if isinstance(metadata, dict) else []
        if not isinstance(entries, list):
            raise SettingsError(
                f"{PLUGIN}.metadata.data_sources is {type(entries).__name__}, not a list",
                way_out="correct the plugin's settings",
            )
        return parse_entries(self.options.data_sources, parse_entries(entries, DEFAULT[layout]))

    def _levels(self, facts: Mapping[str, Json]) -> LevelPath:
        path = []
        for name, template in self.options.levels:
            try:
                path.append((name, expand(parse(template), facts)))
            except ValueError as error:
                raise NodeError(f"its hierarchy level {name} can't be told: {error}") from None
        return tuple(path)

    def _one(self, subject: Subject, stored: StoredNode, plan: PlanBuilder) -> DocumentWork:
        name, document, record = subject.data_source, subject.document, subject.record
        before_digest = stored.values_digest(name)
        needs = needs_stored(document, record) and (record is not None or subject.strange)
        meant = what_node_means(
            document,
            record,
            stored.values(name) if needs else None,
            stored.effective(name) if needs else {},
            self.options.accept,
        )
        above, overrides = stored.above(name), stored.overrides(name)
        ordered = given(self.catalog.orders, name, overrides, merge_levels([*above, (meant.values, overrides)]))
        decision = decide(document, meant, above, {**overrides, **ordered}, record)
        plan.problems.extend(ambiguous(subject, key, plan.node) for key in meant.ambiguous)
        levels = [*stored.above(name), (meant.values, stored.overrides(name))]
        plan.idle.extend(idle_overrides(name, stored.places[-len(levels) :], levels))
        if record is not None and _changed_by_others(before_digest, meant.digest, record):
            plan.notes.append(f"{name}: someone else changed its values in ConfigDB; the node's own replace them")
        if document is not None:
            plan.notes.extend(f"{subject.path}: {warning}" for warning in document.warnings)
        change = None
        if before_digest != meant.digest or decision.write is not Write.NONE or ordered:
            change = self._change(subject, stored, before_digest, decision)
            if ordered:
                change = replace(change, ordered=changes(overrides, {**overrides, **ordered}, self.masker))
            if document is not None:
                self._gate(plan, change, document, stored, decision)
            plan.changes.append(change)
        else:
            plan.unchanged.append(name)
        return DocumentWork(name, subject.path, subject.file, document, decision, record, change, ordered)

    def _change(self, subject: Subject, stored: StoredNode, before_digest: str, decision: Decision) -> DocumentChange:
        name, meant = subject.data_source, decision.meant
        upload: tuple[Change, ...] = ()
        written: tuple[Change, ...] = ()
        if before_digest != meant.digest:
            upload = changes(stored.values(name), meant.values, self.masker)
        if decision.write is not Write.NONE:
            found = {} if subject.document is None else subject.document.values
            written = changes(found, decision.target, self.masker)
        return DocumentChange(
            data_source=name,
            path=subject.path,
            first=before_digest == EMPTY_DIGEST,
            upload=upload,
            write=decision.write,
            written=written,
            digests=Digests(
                file=None if subject.file is None else subject.file.sha256,
                stored=before_digest,
                effective_before=stored.effective_digest(name),
                values=meant.digest,
                target=decision.effective_digest,
            ),
        )

    def _gate(
        self,
        plan: PlanBuilder,
        change: DocumentChange,
        document: HieraDocument,
        stored: StoredNode,
        decision: Decision,
    ) -> None:
        share = self.options.unsafe_share
        before = stored.values(change.data_source) if change.uploads else {}
        lost, of = lost_keys(before, decision.meant.values, share), len(before)
        if not lost:
            own = {
                key: value
                for key, value in document.values.items()
                if key not in decision.hidden or decision.hidden[key].values is not ABSENT
            }
            lost, of = lost_keys(own, decision.target, share), len(own)
        if not lost:
            return
        unsafe = UnsafeChange(
            plan.node,
            change.data_source,
            change.path,
            lost,
            of,
            f"{change.digests.file} {change.digests.stored}",
            f"{change.digests.values} {change.digests.target}",
        )
        if unsafe in self.allowed:
            return
        raise _withheld(plan, unsafe)


def _changed_by_others(stored: str, meant: str, record: Record) -> bool:
    return bool(record.values) and stored not in {record.values, meant, EMPTY_DIGEST}


def _known(own: Record | None, subject: Subject, stored: StoredNode) -> Record | None:
    kept = stored.records().get(subject.data_source)
    digests = from_json(kept)
    if digests is None or (own is not None and (kept == FROM_NAILGUN or same(to_json(own), kept))):
        return own
    file = None if subject.document is None else subject.document.values
    values = stored.values(subject.data_source) if digests.hidden else {}
    found = recovered(digests, file, values, None if subject.file is None else subject.file.sha256)
    return found if own is None else reconciled(own, digests, found)


def ambiguous(subject: Subject, key: str, node: str) -> AmbiguousError:
    """Return the error of a key of which nothing tells whose value is the newer one."""
    return AmbiguousError(
        f"the file and ConfigDB disagree on {key!r} and nothing tells who changed it; both were left alone",
        way_out="run again with --accept-node or --accept-configdb",
        node=node,
        file=subject.path,
        data_source=subject.data_source,
    )


def _withheld(plan: PlanBuilder, unsafe: UnsafeChange) -> UnsafeError:
    plan.unsafe.append(unsafe)
    return UnsafeError(
        f"{unsafe.reason} ({', '.join(unsafe.lost[:5])}{', ...' if len(unsafe.lost) > 5 else ''}); withheld",
        way_out="look at it with `configdb-sync plan`; `configdb-sync approve` and the digest printed let it through",
    )


class PlanBuilder:
    """Collects one node's plan while its documents are looked at."""

    def __init__(self, node: str, fqdn: str | None, mapped: NodeMap) -> None:
        self.node = node
        self.fqdn = fqdn
        self.undeclared = mapped.undeclared
        self.changes: list[DocumentChange] = []
        self.unchanged: list[str] = []
        self.notes = [f"{name}: {note}" for name, note in mapped.notes.items()]
        self.problems: list[ProductError] = [fault.located(node=node) for fault in mapped.faults.values()]
        self.unsafe: list[UnsafeChange] = []
        self.idle: list[IdleOverride] = []

    def leave(self, name: str, path: str, stored: StoredNode) -> None:
        """Take note of a file that isn't there yet before the deployment: it may come, so nothing is done (U2)."""
        if stored.values_digest(name) != EMPTY_DIGEST or stored.effective_digest(name) != EMPTY_DIGEST:
            self.notes.append(f"{path}: it isn't there yet; left to the stage main")

    def build(self) -> NodePlan:
        """Return the plan."""
        return NodePlan(
            node=self.node,
            fqdn=self.fqdn,
            changes=tuple(self.changes),
            unchanged=tuple(self.unchanged),
            undeclared=self.undeclared,
            notes=tuple(self.notes),
            problems=tuple(self.problems),
            unsafe=tuple(self.unsafe),
            idle=tuple(self.idle),
        )
