"""Examines one node: from its files to a decision on each of its documents. Nothing is changed anywhere."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.merge import effective as merge_levels
from configdb_sync.errors import DocumentError, NodeError, ProductError
from configdb_sync.hiera import HieraDocument, Reader
from configdb_sync.hiera.data_sources import NodeMap, map_node
from configdb_sync.hiera.layouts import facts_of, layout_of
from configdb_sync.jsonvalues import EMPTY_DIGEST, Json
from configdb_sync.masking import Masker
from configdb_sync.nailgun.roster import Roster
from configdb_sync.nodes.node_files import NodeLeftOut, NodeRead
from configdb_sync.store.approvals import UnsafeChange
from configdb_sync.store.records import Records
from configdb_sync.sync.decide import Decision, Write, decide, needs_stored, what_node_means
from configdb_sync.sync.diff import LeafChange, changes
from configdb_sync.sync.fingerprint import decode, files_digest
from configdb_sync.sync.folder_documents import HeldOverride, OverrideMove, folder_documents
from configdb_sync.sync.ineffective_overrides import IneffectiveOverride, ineffective_overrides
from configdb_sync.sync.limits import CircuitBreaker
from configdb_sync.sync.node_identity import IdentityGuard, NodeIdentifier
from configdb_sync.sync.node_work import DocumentWork, ExaminedDocument, NodeWork
from configdb_sync.sync.plan import Digests, DocumentChange, NodePlan
from configdb_sync.sync.record_recovery import Elsewhere, NodeRecords, changed_by_others
from configdb_sync.sync.remote_environment import RemoteEnvironment
from configdb_sync.sync.remote_node import RemoteNode, RemoteNodeWithFolders
from configdb_sync.sync.run_options import RunOptions, Stage
from configdb_sync.sync.safety_checks import ambiguous, unsafe_change, withheld
from configdb_sync.sync.standing_overrides import standing_values


@dataclass(frozen=True)
class _Node:
    """What is known of a node as a whole."""

    read: NodeRead
    base: Mapping[str, HieraDocument] = field(repr=False)
    identity: IdentityGuard
    records: NodeRecords = field(repr=False)

    @functools.cached_property
    def strange(self) -> bool:
        """Whether values of the node were uploaded, and no record of it is left anywhere."""
        return self.records.unknown and self.records.stored.has_values


@dataclass(frozen=True)
class Examiner:
    """Looks at nodes for one run.

    ``allowed`` are the unsafe changes that the user let through, ``roster`` what Nailgun knows of the nodes.
    """

    QUICK: ClassVar[bool] = True
    """Whether nodes at rest may be told by digests (``quiet``)."""

    TAKES_OVER: ClassVar[bool] = True
    """Whether documents that hold a whole folder are looked for (``folders``)."""

    HOLDS_OURS: ClassVar[bool] = True
    """Whether the files may hold our writing, that of other environments too (``elsewhere``)."""

    client: ConfigDBClient
    catalog: RemoteEnvironment
    reader: Reader
    records: Records
    masker: Masker
    health: CircuitBreaker
    options: RunOptions
    allowed: frozenset[UnsafeChange] = frozenset()
    roster: Roster | None = None

    @functools.cached_property
    def who(self) -> NodeIdentifier:
        """Tells who nodes are."""
        return NodeIdentifier(self.options, self.roster)

    @functools.cached_property
    def elsewhere(self) -> Elsewhere:
        """What ConfigDB keeps in other environments."""
        return Elsewhere(self.client, self.options.environment)

    def examine(self, read: NodeRead | NodeError) -> NodeWork | None:
        """Return what is to be done with a node; None if the run isn't asked for it.

        What is wrong with the node or one of its documents is in the plan's problems; what concerns the whole run
        is raised (``CircuitBreaker``).
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

    def _at_rest(self, read: NodeRead, files: str) -> tuple[NodeWork | None, RemoteNode | None]:
        """Return a node's work if digests tell that there is none, and what was read of ConfigDB to tell it."""
        body = self.records.quiet(read.identity)
        if body is None:
            return None, None
        quiet = decode(body)
        stored = RemoteNode(self.client, self.catalog, self.options.environment, quiet.levels)
        if not self.catalog.may_work_on(quiet.wanted) or stored.state(files) != quiet.state:
            return None, stored
        if self.roster is not None:
            self.roster.check(read.identity, quiet.fqdn)
        self.catalog.claim(quiet.levels, read.identity)
        self.catalog.want(quiet.wanted)
        plan = NodePlan(
            read.identity, quiet.fqdn, unchanged=quiet.unchanged, undeclared=quiet.undeclared, notes=quiet.notes
        )
        return NodeWork(plan, stored), stored

    def _examine(self, read: NodeRead) -> NodeWork | None:
        options, files = self.options, None
        if self.QUICK and options.stage is None:
            files = files_digest(read, options.levels, options.data_sources)
        stored: RemoteNode | None = None
        if files is not None:
            found, stored = self._at_rest(read, files)
            if found is not None:
                asked = not self.options.nodes or {read.identity, found.plan.fqdn} & set(self.options.nodes)
                return found if asked else None
        paths = {*read.files, *(path for path in read.faults if not path.endswith("/"))}
        layout = layout_of(paths)
        base = {path: self._base_document(read, path) for path in layout.base_files}
        values = {path: document.values for path, document in base.items()}
        facts = facts_of(layout, values)
        if self.options.nodes and not {read.identity, facts.fqdn} & set(self.options.nodes):
            return None
        self.who.check(read, facts, layout)
        sources = self.who.data_sources(layout, facts.scope)
        mapped = map_node(sources, facts.scope, paths)
        levels = options.addresses.of_facts(facts.scope)
        self.catalog.claim(levels, read.identity)
        if stored is None or stored.levels != levels:
            stored = RemoteNode(self.client, self.catalog, self.options.environment, levels)
        plan = PlanBuilder(read.identity, facts.fqdn, mapped)
        own, elsewhere = self.records.of_node(read.identity), self.records.left_elsewhere(read.identity)
        folders = folder_documents(mapped, sources, paths, self.catalog.names) if self.TAKES_OVER else None
        if folders is not None:
            stored = RemoteNodeWithFolders(stored, folders, own or stored.records())
            plan.takes_over(stored)
        identity = IdentityGuard(layout, values, functools.partial(self.who.told, layout))
        records = NodeRecords(own, elsewhere, stored)
        if self.HOLDS_OURS:
            records = replace(records, others=self.elsewhere.of_node(levels, facts.scope).of)
        node = _Node(read, base, identity, records)
        wanted = tuple(dict.fromkeys([*mapped.sources, *(move.data_source for move in plan.moves)]))
        self.catalog.want(wanted)
        documents, reached = [], set()
        for name, path in self._paths(read, mapped, stored).items():
            try:
                work = self._document_work(node, name, path, stored, plan)
            except ProductError as error:
                self.health.failed(error)
                plan.problems.append(error.located(node=read.identity, file=path, data_source=name))
            else:
                self.health.worked()
                reached.add(name)
                documents += [] if work is None else [work]
        # A move takes place only with its file: where that can't be worked on, the override stays where it is.
        plan.moves = tuple(move for move in plan.moves if move.data_source in reached)
        fresh = node.records.unknown and not node.strange
        return NodeWork(
            plan.build(), stored, tuple(documents), wanted, own, frozenset(elsewhere), fresh, files, plan.moves
        )

    def _document_work(
        self, node: _Node, name: str, path: str, stored: RemoteNode, plan: PlanBuilder
    ) -> DocumentWork | None:
        """Return what is to be done with one document; None if no run has to do with it, or not yet."""
        self.catalog.check_owner(name)
        stored.check(name)
        fault = node.read.fault_of(path)
        if fault is not None:
            raise fault
        if self.options.stage is Stage.PRE and path not in node.read.files:
            plan.leave(name, path, stored)
            return None
        if stored.is_left(name):
            return None
        document = node.base.get(path) or self._document(node.read, path)
        strange = node.strange
        if name not in node.records.own and document is not None:
            strange = stored.is_strange(name, document, unknown=node.records.unknown, strange=strange)
        subject = ExaminedDocument(name, path, node.read.files.get(path), document, None, strange, node.identity)
        subject = node.records.told(subject)
        return self._one(subject, stored, plan)

    def _paths(self, _read: NodeRead, mapped: NodeMap, stored: RemoteNode) -> dict[str, str]:
        """Return the node's data sources and files, with those that an override may create here."""
        paths = dict(mapped.sources)
        for name in (*self.catalog.names, *stored.concerned):
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

    def _one(self, subject: ExaminedDocument, stored: RemoteNode, plan: PlanBuilder) -> DocumentWork:
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
        ordered: Mapping[str, Json] = {}
        if self.catalog.orders:
            beneath = merge_levels([*above, (meant.values, overrides)])
            ordered = standing_values(self.catalog.orders, name, overrides, beneath)
        decision = decide(document, meant, above, {**overrides, **ordered}, record)
        subject.identity.check(subject.path, decision)
        plan.problems.extend(ambiguous(subject, key, plan.node) for key in meant.ambiguous)
        levels = [*above, (meant.values, overrides)]
        plan.idle.extend(ineffective_overrides(name, stored.places[-len(levels) :], levels))
        if record is not None and changed_by_others(before_digest, meant.digest, record):
            plan.notes.append(f"{name}: someone else changed its values in ConfigDB; the node's own replace them")
        if document is not None:
            plan.notes.extend(f"{subject.path}: {warning}" for warning in document.warnings)
        change = None
        if before_digest != meant.digest or decision.write is not Write.NONE or ordered:
            change = change_of(subject, stored, before_digest, decision, self.masker)
            if ordered:
                change = replace(change, ordered=changes(overrides, {**overrides, **ordered}, self.masker))
            if document is not None:
                self._gate(plan, change, document, stored, decision)
            plan.changes.append(change)
        else:
            plan.unchanged.append(name)
        return DocumentWork(
            name, subject.path, subject.file, document, decision, record, change, ordered, stored.aside(name)
        )

    def _gate(
        self,
        plan: PlanBuilder,
        change: DocumentChange,
        document: HieraDocument,
        stored: RemoteNode,
        decision: Decision,
    ) -> None:
        before = stored.values(change.data_source) if change.uploads else {}
        unsafe = unsafe_change(
            plan.node, change, decision, found=document.values, stored=before, share=self.options.unsafe_share
        )
        if unsafe is not None and unsafe not in self.allowed:
            plan.unsafe.append(unsafe)
            raise withheld(unsafe)


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
        self.idle: list[IneffectiveOverride] = []
        self.moves: tuple[OverrideMove, ...] = ()
        self.held: tuple[HeldOverride, ...] = ()

    def leave(self, name: str, path: str, stored: RemoteNode) -> None:
        """Take note of a file that isn't there yet before the deployment: it may come, so nothing is done (U2)."""
        if stored.values_digest(name) != EMPTY_DIGEST or stored.effective_digest(name) != EMPTY_DIGEST:
            self.notes.append(f"{path}: it isn't there yet; left to the stage main")

    def takes_over(self, stored: RemoteNodeWithFolders) -> None:
        """Take note of documents that hold a whole folder (U31)."""
        self.moves, self.held = stored.moves, stored.held
        self.notes += stored.notes

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
            moves=self.moves,
            held=self.held,
        )


def change_of(
    subject: ExaminedDocument, stored: RemoteNode, before_digest: str, decision: Decision, masker: Masker
) -> DocumentChange:
    """Return what the plan says of a document; ``before_digest`` is the one of its stored values."""
    name, meant = subject.data_source, decision.meant
    upload: tuple[LeafChange, ...] = ()
    written: tuple[LeafChange, ...] = ()
    if before_digest != meant.digest:
        upload = changes(stored.raw_values(name), meant.values, masker)
    if decision.write is not Write.NONE:
        found = {} if subject.document is None else subject.document.values
        written = changes(found, decision.target, masker)
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
