"""From one node's files to what is to be done with each of its documents; nothing is changed anywhere."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.merge import effective as merge_levels
from configdb_sync.errors import (
    DocumentError,
    NodeError,
    ProductError,
)
from configdb_sync.hiera import HieraDocument, Reader
from configdb_sync.hiera.facts import facts_of
from configdb_sync.hiera.layouts import layout_of
from configdb_sync.hiera.sources import NodeMap, map_node
from configdb_sync.jsonvalues import Json
from configdb_sync.masking import Masker
from configdb_sync.nailgun.roster import Roster
from configdb_sync.nodes.model import NodeLeftOut, NodeRead
from configdb_sync.sync.acquaintance import Acquaintance
from configdb_sync.sync.catalog import Catalog
from configdb_sync.sync.changing import change_of
from configdb_sync.sync.decide import Decision, Write, decide, needs_stored, what_node_means
from configdb_sync.sync.diff import changes
from configdb_sync.sync.doubts import ambiguous, unsafe_change, withheld
from configdb_sync.sync.health import Health
from configdb_sync.sync.identity import Identity
from configdb_sync.sync.idle import idle_overrides
from configdb_sync.sync.options import RunOptions
from configdb_sync.sync.orders import given
from configdb_sync.sync.plan import DocumentChange, NodePlan
from configdb_sync.sync.plan_builder import PlanBuilder
from configdb_sync.sync.quiet import decode, files_digest
from configdb_sync.sync.recall import NodeRecords, changed_by_others
from configdb_sync.sync.records import Records
from configdb_sync.sync.safety import UnsafeChange
from configdb_sync.sync.stage import Stage
from configdb_sync.sync.stored import StoredNode
from configdb_sync.sync.work import DocumentWork, NodeWork, Subject


@dataclass(frozen=True)
class Examiner:
    """Looks at nodes for one run.

    ``allowed`` are the unsafe changes that the user let through, ``roster`` what Nailgun knows of the nodes.
    """

    QUICK: ClassVar[bool] = True
    """Whether nodes at rest may be told by digests (``quiet``)."""

    client: ConfigDBClient
    catalog: Catalog
    reader: Reader
    records: Records
    masker: Masker
    health: Health
    options: RunOptions
    allowed: frozenset[UnsafeChange] = frozenset()
    roster: Roster | None = None

    @functools.cached_property
    def who(self) -> Acquaintance:
        """Tells who nodes are."""
        return Acquaintance(self.options, self.roster)

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

    def _at_rest(self, read: NodeRead, files: str) -> tuple[NodeWork | None, StoredNode | None]:
        """Return a node's work if digests tell that there is none, and what was read of ConfigDB to tell it."""
        body = self.records.quiet(read.identity)
        if body is None:
            return None, None
        quiet = decode(body)
        stored = StoredNode(self.client, self.catalog, self.options.environment, quiet.levels)
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
        stored: StoredNode | None = None
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
        mapped = map_node(self.who.data_sources(layout, facts.scope), facts.scope, paths)
        levels = self.who.levels(facts.scope)
        self.catalog.claim(levels, read.identity)
        wanted = tuple(mapped.sources)
        self.catalog.want(wanted)
        if stored is None or stored.levels != levels:
            stored = StoredNode(self.client, self.catalog, self.options.environment, levels)
        plan = PlanBuilder(read.identity, facts.fqdn, mapped)
        identity = Identity(layout, values, functools.partial(self.who.told, layout))
        own, elsewhere = self.records.of_node(read.identity), self.records.left_elsewhere(read.identity)
        records = NodeRecords(own, elsewhere, stored)
        strange = records.unknown and stored.has_values
        documents = []
        for name, path in self._paths(read, mapped).items():
            try:
                self.catalog.check_owner(name)
                fault = read.fault_of(path)
                if fault is not None:
                    raise fault
                if self.options.stage is Stage.PRE and path not in read.files:
                    plan.leave(name, path, stored)
                    continue
                document = base.get(path) or self._document(read, path)
                subject = Subject(name, path, read.files.get(path), document, None, strange, identity)
                work = self._one(records.told(subject), stored, plan)
            except ProductError as error:
                self.health.failed(error)
                plan.problems.append(error.located(node=read.identity, file=path, data_source=name))
            else:
                self.health.worked()
                documents.append(work)
        fresh = records.unknown and not strange
        return NodeWork(plan.build(), stored, tuple(documents), wanted, own, frozenset(elsewhere), fresh, files)

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
        ordered: Mapping[str, Json] = {}
        if self.catalog.orders:
            beneath = merge_levels([*above, (meant.values, overrides)])
            ordered = given(self.catalog.orders, name, overrides, beneath)
        decision = decide(document, meant, above, {**overrides, **ordered}, record)
        subject.identity.check(subject.path, decision)
        plan.problems.extend(ambiguous(subject, key, plan.node) for key in meant.ambiguous)
        levels = [*above, (meant.values, overrides)]
        plan.idle.extend(idle_overrides(name, stored.places[-len(levels) :], levels))
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
        return DocumentWork(name, subject.path, subject.file, document, decision, record, change, ordered)

    def _gate(
        self,
        plan: PlanBuilder,
        change: DocumentChange,
        document: HieraDocument,
        stored: StoredNode,
        decision: Decision,
    ) -> None:
        before = stored.values(change.data_source) if change.uploads else {}
        unsafe = unsafe_change(
            plan.node, change, decision, found=document.values, stored=before, share=self.options.unsafe_share
        )
        if unsafe is not None and unsafe not in self.allowed:
            plan.unsafe.append(unsafe)
            raise withheld(unsafe)
