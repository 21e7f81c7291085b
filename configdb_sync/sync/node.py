"""Examines one node: from its files to a decision on each of its documents. Nothing is changed anywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from configdb_sync.configdb.level_merge import effective as merge_levels
from configdb_sync.errors import DocumentError, NodeError, ProductError
from configdb_sync.hiera import hierarchy
from configdb_sync.hiera.arrangement import Arrangement
from configdb_sync.hiera.data_sources import NodeMap, map_node
from configdb_sync.hiera.documents import HieraDocument, Reader
from configdb_sync.hiera.layouts import facts_of, layout_of
from configdb_sync.jsonvalues import EMPTY_DIGEST, Json
from configdb_sync.masking import Masker
from configdb_sync.names import LevelPath
from configdb_sync.nodes.node_files import NodeLeftOut, NodeRead
from configdb_sync.store.approvals import UnsafeChange
from configdb_sync.sync.decide import Decision, Meant, Write, decide, needs_stored, what_node_means
from configdb_sync.sync.diff import LeafChange, changes, new_keys, noted
from configdb_sync.sync.fingerprint import decode, files_digest
from configdb_sync.sync.folder_documents import HeldOverride, OverrideMove, folder_documents
from configdb_sync.sync.ineffective_overrides import IneffectiveOverride, ineffective_overrides, unread_overrides
from configdb_sync.sync.node_identity import IdentityGuard, NodeIdentifier
from configdb_sync.sync.node_work import DocumentWork, ExaminedDocument, NodeWork, RunContext
from configdb_sync.sync.plan import Digests, DocumentChange, NodePlan
from configdb_sync.sync.record_recovery import Elsewhere, NodeRecords, changed_by_others
from configdb_sync.sync.remote_node import RemoteNode, RemoteNodeWithFolders
from configdb_sync.sync.run_options import Stage
from configdb_sync.sync.safety_checks import ambiguous, unsafe_change, withheld
from configdb_sync.sync.standing_overrides import standing_values


@dataclass(frozen=True)
class _Node:
    """What is known of a node as a whole."""

    read: NodeRead
    base: Mapping[str, HieraDocument] = field(repr=False)
    guard: IdentityGuard
    records: NodeRecords = field(repr=False)
    remote: RemoteNode
    plan: PlanBuilder

    @cached_property
    def unrecorded(self) -> bool:
        """Whether values of the node were uploaded, and no record of it is left anywhere."""
        return self.records.unknown and self.remote.has_values


class Examiner:
    """Examines the nodes of one run. Safe for several threads."""

    def __init__(self, run: RunContext) -> None:
        self._run = run
        self._reader = Reader()
        self._identifier = NodeIdentifier(run.options, run.roster)
        self._elsewhere = Elsewhere(run.client, run.options.environment)

    def examine(self, read: NodeRead | NodeError) -> NodeWork | None:
        """Return what is to be done with a node; None if the run isn't asked for it.

        What is wrong with the node or one of its documents is in the plan's problems; what concerns the whole run
        is raised (``CircuitBreaker``).
        """
        if isinstance(read, NodeError):
            return NodeWork(NodePlan(read.node or "?", problems=(read,)))
        if isinstance(read, NodeLeftOut):
            asked = self._run.options.asks_for(read.identity, read.fqdn)
            return NodeWork(NodePlan(read.identity, read.fqdn, notes=(read.why,))) if asked else None
        try:
            return self._examine(read)
        except ProductError as error:
            self._run.breaker.failed(error)
            return NodeWork(NodePlan(read.identity, problems=(error.located(node=read.identity),)))

    def _remote(self, levels: LevelPath) -> RemoteNode:
        return RemoteNode(self._run.client, self._run.remote, self._run.options.environment, levels)

    def _unchanged(self, read: NodeRead, files: str) -> tuple[NodeWork | None, RemoteNode | None]:
        """Return a node's work if its fingerprint says that there is none, and what was read of ConfigDB for that."""
        run, body = self._run, self._run.records.fingerprint(read.identity)
        if body is None:
            return None, None
        found = decode(body)
        remote = self._remote(found.levels)
        if not run.remote.may_work_on(found.wanted) or remote.state(files) != found.state:
            return None, remote
        if run.roster is not None:
            run.roster.check(read.identity, found.fqdn)
        run.remote.claim(found.levels, read.identity)
        run.remote.want(found.wanted)
        plan = NodePlan(
            read.identity, found.fqdn, unchanged=found.unchanged, undeclared=found.undeclared, notes=found.notes
        )
        return NodeWork(plan, remote), remote

    def _examine(self, read: NodeRead) -> NodeWork | None:
        run, options = self._run, self._run.options
        files: str | None = None
        remote: RemoteNode | None = None
        if run.source is not None:
            read = run.source.files(read, run)
        elif options.stage is None:
            files = files_digest(read, options.levels, options.data_sources)
        if files is not None:
            work, remote = self._unchanged(read, files)
            if work is not None:
                return work if options.asks_for(read.identity, work.plan.fqdn) else None
        paths = {*read.files, *(path for path in read.faults if not path.endswith("/"))}
        layout = layout_of(paths)
        base = {path: self._base_document(read, path) for path in layout.base_files}
        values = {path: document.values for path, document in base.items()}
        facts = facts_of(layout, values)
        if not options.asks_for(read.identity, facts.fqdn):
            return None
        self._identifier.check(read, facts, layout)
        sources = self._identifier.data_sources(layout, facts.scope)
        mapped = map_node(sources, facts.scope, paths)
        levels = options.addresses.of_facts(facts.scope)
        run.remote.claim(levels, read.identity)
        if remote is None or remote.levels != levels:
            remote = self._remote(levels)
        plan = PlanBuilder.begun(read.identity, facts.fqdn, mapped)
        own, elsewhere = run.records.of_node(read.identity), run.records.left_elsewhere(read.identity)
        if run.source is None:
            folders = folder_documents(mapped, sources, paths, run.remote.names)
            if folders is not None:
                remote = RemoteNodeWithFolders(remote, folders, own or remote.records())
                plan.moves, plan.held = remote.moves, remote.held
                plan.notes += remote.notes
        order = _hierarchy(read, plan)
        records = NodeRecords(own, elsewhere, remote, order)
        if run.source is None:
            records = replace(records, others=self._elsewhere.of_node(levels, facts.scope).of)
        guard = IdentityGuard(layout, values, partial(self._identifier.identity, layout))
        node = _Node(read, base, guard, records, remote, plan)
        wanted = tuple(dict.fromkeys([*mapped.sources, *(move.data_source for move in plan.moves)]))
        run.remote.want(wanted)
        documents = self._documents(node, self._paths(node, mapped))
        if run.source is None:
            plan.ineffective += self._unread(node, documents, hierarchy.from_json(order))
        fresh = records.unknown and not node.unrecorded
        return NodeWork(
            plan.build(), remote, documents, wanted, own, frozenset(elsewhere), fresh, files, plan.moves, order
        )

    def _documents(self, node: _Node, paths: Mapping[str, str]) -> tuple[DocumentWork, ...]:
        documents, reached = [], set()
        for name, path in paths.items():
            try:
                document = self._document_work(node, name, path)
            except ProductError as error:
                self._run.breaker.failed(error)
                node.plan.problems.append(error.located(node=node.plan.node, file=path, data_source=name))
            else:
                self._run.breaker.worked()
                reached.add(name)
                documents += [] if document is None else [document]
        # A move takes place only with its file: where that can't be worked on, the override stays where it is.
        node.plan.moves = tuple(move for move in node.plan.moves if move.data_source in reached)
        return tuple(documents)

    def _document_work(self, node: _Node, name: str, path: str) -> DocumentWork | None:
        """Return what is to be done with one document; None if no run has to do with it, or not yet."""
        read, remote = node.read, node.remote
        self._run.remote.check_owner(name)
        remote.check(name)
        fault = read.fault_of(path)
        if fault is not None:
            raise fault
        if self._run.options.stage is Stage.PRE and path not in read.files:
            # The deployment may still write the file (U2).
            if remote.values_digest(name) != EMPTY_DIGEST or remote.effective_digest(name) != EMPTY_DIGEST:
                node.plan.notes.append(f"{path}: the file doesn't exist yet; it is left to the stage main")
            return None
        if remote.is_left(name):
            return None
        document = node.base.get(path) or self._document(read, path)
        unrecorded = node.unrecorded
        if name not in node.records.own and document is not None:
            unrecorded = remote.is_unrecorded(name, document, unknown=node.records.unknown, unrecorded=unrecorded)
        examined = ExaminedDocument(name, path, read.files.get(path), document, None, unrecorded)
        examined = node.records.told(examined)
        if self._run.source is None:
            self._look(examined, remote)
        return self._decided(node, examined)

    def _look(self, examined: ExaminedDocument, remote: RemoteNode) -> None:
        """Let a server without digests say by the effective data alone whether there is anything to do, if it can."""
        name, document, record = examined.data_source, examined.document, examined.record
        if record is None:
            remote.look(name, None)
        elif document is not None and record.is_plain and document.digest == record.values:
            standing = any(order.data_source == name for order in self._run.remote.standing)
            remote.look(name, None if standing else record.values)

    def _unread(
        self, node: _Node, documents: Sequence[DocumentWork], order: hierarchy.Hierarchy | None
    ) -> list[IneffectiveOverride]:
        """Return the overrides that another data source hides from Puppet, beside those without effect anyway."""
        remote, layers = node.remote, None
        known = {(one.data_source, one.level, one.key) for one in node.plan.ineffective}
        found: list[IneffectiveOverride] = []
        for one in documents:
            levels = [*remote.above(one.data_source), (one.decision.meant.values, remote.overrides(one.data_source))]
            if not any(overrides for _, overrides in levels):
                continue
            if layers is None:
                effective = {other.data_source: other.decision.target for other in documents}
                arrangement = Arrangement(self._run.options.data_sources)
                try:
                    layers = arrangement.settings(node.plan.node, remote.levels, effective, order).layers
                except NodeError:  # A base file can't be worked on, which is among the problems.
                    return []
            found += unread_overrides(one.data_source, remote.places[-len(levels) :], levels, layers)
        return [one for one in found if (one.data_source, one.level, one.key) not in known]

    def _paths(self, node: _Node, mapped: NodeMap) -> dict[str, str]:
        """Return the node's data sources and files, with those that an override may create here."""
        if self._run.source is not None:
            return {name: path for name, path in mapped.sources.items() if path in node.read.files}
        paths = dict(mapped.sources)
        for name in (*self._run.remote.names, *node.remote.concerned):
            path = None if name in paths else mapped.path_of(name)
            if path is not None:
                paths[name] = path
        return paths

    def _base_document(self, read: NodeRead, path: str) -> HieraDocument:
        if path in read.faults:
            raise NodeError(f"its facts can't be read: {read.faults[path].what}", file=path)
        document = self._document(read, path)
        if document is None:
            raise NodeError(f"it has no {path}, so its facts are unknown", file=path)
        return document

    def _document(self, read: NodeRead, path: str) -> HieraDocument | None:
        file, source = read.files.get(path), self._run.source
        if file is None:
            return None
        try:
            return self._reader.read(file.content) if source is None else source.parse(file)
        except DocumentError as error:
            raise error.located(node=read.identity, file=path) from error

    def _decided(self, node: _Node, examined: ExaminedDocument) -> DocumentWork:
        run, remote, plan = self._run, node.remote, node.plan
        name, document = examined.data_source, examined.document
        record = examined.record if run.source is None else None
        before_digest = remote.values_digest(name)
        if run.source is None:
            meant = self._meant(examined, remote)
        else:
            meant, notes = run.source.meant(examined, remote, run.options.accept)
            plan.notes += notes
        above, overrides = remote.above(name), remote.overrides(name)
        levels = [*above, (meant.values, overrides)]
        ordered: Mapping[str, Json] = {}
        if run.source is None and run.remote.standing:
            ordered = standing_values(run.remote.standing, name, overrides, merge_levels(levels))
        decision = decide(document, meant, above, {**overrides, **ordered}, record)
        if run.source is None:
            node.guard.check(examined.path, decision)
        elif document is not None:
            # There is no file to write: assume that it holds what is uploaded, whatever the overrides are.
            decision = replace(decision, write=Write.NONE, target=document.values, hidden={})
        plan.problems += [ambiguous(examined, key, plan.node) for key in meant.ambiguous]
        if run.source is None:
            plan.ineffective += ineffective_overrides(name, remote.places[-len(levels) :], levels)
            if record is not None and changed_by_others(before_digest, meant.digest, record):
                plan.notes.append(f"{name}: someone else changed its values in ConfigDB; the node's own replace them")
            if document is not None:
                plan.notes += [f"{examined.path}: {warning}" for warning in document.warnings]
        change = None
        if before_digest != meant.digest or decision.write is not Write.NONE or ordered:
            change = change_of(examined, remote, before_digest, decision, run.masker)
            merged = [(place, *level) for place, level in zip(remote.places[-len(levels) :], levels, strict=True)]
            change = replace(change, written=noted(change.written, run.notes, name, merged))
            if ordered:
                change = replace(change, ordered=changes(overrides, {**overrides, **ordered}, run.masker))
            if document is not None:
                self._check_safety(node, change, document, decision)
            plan.changes.append(change)
        else:
            plan.unchanged.append(name)
        return DocumentWork(
            name, examined.path, examined.file, document, decision, record, change, ordered, remote.aside(name)
        )

    def _meant(self, examined: ExaminedDocument, remote: RemoteNode) -> Meant:
        name, document, record = examined.data_source, examined.document, examined.record
        needs = needs_stored(document, record) and (record is not None or examined.unrecorded)
        stored, effective = (remote.values(name), remote.effective(name)) if needs else (None, {})
        return what_node_means(document, record, stored, effective, self._run.options.accept)

    def _check_safety(self, node: _Node, change: DocumentChange, document: HieraDocument, decision: Decision) -> None:
        before = node.remote.values(change.data_source) if change.uploads else {}
        share = self._run.options.unsafe_share
        unsafe = unsafe_change(node.plan.node, change, decision, found=document.values, stored=before, share=share)
        if unsafe is not None and unsafe not in self._run.allowed:
            node.plan.unsafe.append(unsafe)
            raise withheld(unsafe)


def _hierarchy(read: NodeRead, plan: PlanBuilder) -> Json:
    """Return the hierarchy of the node's ``hiera.yaml``; None if there is none to go by, which the plan notes."""
    if read.hiera_yaml is None:
        return None
    try:
        return hierarchy.to_json(hierarchy.parse(read.hiera_yaml))
    except DocumentError as error:
        plan.notes.append(f"lookups don't follow its hiera.yaml: {error.what}")
        return None


@dataclass
class PlanBuilder:
    """Collects one node's plan while its documents are examined."""

    node: str
    fqdn: str | None
    undeclared: tuple[str, ...]
    notes: list[str]
    problems: list[ProductError]
    changes: list[DocumentChange] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    unsafe: list[UnsafeChange] = field(default_factory=list)
    ineffective: list[IneffectiveOverride] = field(default_factory=list)
    moves: tuple[OverrideMove, ...] = ()
    held: tuple[HeldOverride, ...] = ()

    @classmethod
    def begun(cls, node: str, fqdn: str | None, mapped: NodeMap) -> PlanBuilder:
        """Return a plan with what the mapping of the node's files says."""
        notes = [f"{name}: {note}" for name, note in mapped.notes.items()]
        return cls(node, fqdn, mapped.undeclared, notes, [fault.located(node=node) for fault in mapped.faults.values()])

    def build(self) -> NodePlan:
        """Return the plan."""
        built: Any = {name: tuple(value) if isinstance(value, list) else value for name, value in vars(self).items()}
        return NodePlan(**built)


def change_of(
    examined: ExaminedDocument, remote: RemoteNode, before_digest: str, decision: Decision, masker: Masker
) -> DocumentChange:
    """Return what the plan says of a document; ``before_digest`` is the one of its stored values."""
    name, meant = examined.data_source, decision.meant
    upload: tuple[LeafChange, ...] = ()
    written: tuple[LeafChange, ...] = ()
    first = before_digest == EMPTY_DIGEST
    if before_digest != meant.digest:
        upload = new_keys(meant.values, masker) if first else changes(remote.raw_values(name), meant.values, masker)
    if decision.write is not Write.NONE:
        found = {} if examined.document is None else examined.document.values
        written = changes(found, decision.target, masker)
    return DocumentChange(
        data_source=name,
        path=examined.path,
        first=first,
        upload=upload,
        write=decision.write,
        written=written,
        digests=Digests(
            file=None if examined.file is None else examined.file.sha256,
            stored=before_digest,
            effective_before=remote.effective_digest(name),
            values=meant.digest,
            target=decision.effective_digest,
        ),
    )
