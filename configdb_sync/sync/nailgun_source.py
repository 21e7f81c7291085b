"""A run from Nailgun's deployment data (U21): uploads what nodes are going to be given, and writes nothing back.

Such an upload is no merge base (U18): what a node run knows of a node stays true after it
(``docs/decisions/uploads-from-nailgun.md``). Nailgun gives a node's data as one mapping, in which newton's two files
are merged: the node's own over what is common to all. If a node run has seen the files, each key stays in the file
where it was; otherwise what is equal on all nodes is common.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from configdb_sync import failpoints, jsonvalues
from configdb_sync.errors import DocumentError, NodeError
from configdb_sync.hiera import HieraDocument
from configdb_sync.hiera.data_sources import NodeMap
from configdb_sync.hiera.documents import document_of
from configdb_sync.hiera.layouts import Layout, facts_of
from configdb_sync.jsonvalues import ABSENT, Document, Json, same
from configdb_sync.nodes.nailgun import FILE, NailgunNodes, document_file
from configdb_sync.nodes.node_files import NodeFile, NodeRead
from configdb_sync.sync.apply import Executor, NodeTask
from configdb_sync.sync.decide import Meant, Write, decide, key_digests, what_node_means
from configdb_sync.sync.node import Examiner, PlanBuilder, change_of
from configdb_sync.sync.node_records import FROM_NAILGUN, from_json
from configdb_sync.sync.node_work import DocumentWork, ExaminedDocument, NodeWork
from configdb_sync.sync.remote_node import RemoteNode
from configdb_sync.sync.report import NodeReport
from configdb_sync.sync.safety_checks import ambiguous

_NODE, _CLUSTER = "node", "cluster"


@dataclass(frozen=True, kw_only=True)
class NailgunExaminer(Examiner):
    """Looks at nodes as Nailgun's data gives them."""

    QUICK: ClassVar[bool] = False
    TAKES_OVER: ClassVar[bool] = False
    HOLDS_OURS: ClassVar[bool] = False

    nodes: NailgunNodes

    @cached_property
    def _common(self) -> frozenset[str]:
        return equal_keys(self.nodes.data.values())

    def _examine(self, read: NodeRead) -> NodeWork | None:
        whole = self._read(read.files[FILE])
        if layout_of_data(whole.values) is Layout.FUEL10:
            facts = facts_of(Layout.FUEL9, {FILE: whole.values})
            if self.options.nodes and not {read.identity, facts.fqdn} & set(self.options.nodes):
                return None
            levels = self.options.addresses.of_facts(facts.scope)
            had = _Had(RemoteNode(self.client, self.catalog, self.options.environment, levels))
            own, shared = placed(whole.values, self._common, had.of(_NODE), had.of(_CLUSTER))
            files = {path: document_file(path, part) for path, part in (("node.yaml", own), ("cluster.yaml", shared))}
            read = replace(read, files=files)
        return super()._examine(read)

    def _document(self, read: NodeRead, path: str) -> HieraDocument | None:
        file = read.files.get(path)
        return None if file is None else self._read(file)

    def _read(self, file: NodeFile) -> HieraDocument:
        found = jsonvalues.loads(file.content)
        if not isinstance(found, dict):
            raise DocumentError("Nailgun's data of it is no mapping", file=file.path)
        return document_of(found)

    def _paths(self, read: NodeRead, mapped: NodeMap, _stored: RemoteNode) -> dict[str, str]:
        """Return the data sources that Nailgun has data of; it knows nothing of the others."""
        return {name: path for name, path in mapped.sources.items() if path in read.files}

    def _one(self, subject: ExaminedDocument, stored: RemoteNode, plan: PlanBuilder) -> DocumentWork:
        name, document = subject.data_source, subject.document
        if document is None:
            raise NodeError("Nailgun's data of it is missing")
        meant = self._meant(subject, document, stored, plan)
        plan.problems.extend(ambiguous(subject, key, plan.node) for key in meant.ambiguous)
        above, overrides = stored.above(name), stored.overrides(name)
        decision = decide(document, meant, above, overrides, None)
        # The file is only thought: it holds what is uploaded, whatever the overrides are.
        decision = replace(decision, write=Write.NONE, target=document.values, hidden={})
        change = None
        before_digest = stored.values_digest(name)
        if before_digest != meant.digest:
            change = change_of(subject, stored, before_digest, decision, self.masker)
            self._gate(plan, change, document, stored, decision)
            plan.changes.append(change)
        else:
            plan.unchanged.append(name)
        return DocumentWork(name, subject.path, subject.file, document, decision, None, change)

    def _meant(
        self, subject: ExaminedDocument, document: HieraDocument, stored: RemoteNode, plan: PlanBuilder
    ) -> Meant:
        """Return what is uploaded: Nailgun's data, but for keys of which only the stored value tells the node's."""
        name = subject.data_source
        known = from_json(stored.records().get(name))
        if known is None and subject.strange:
            # Someone else's values, and perhaps their overrides in the node's file: nothing may go that tells.
            accept = self.options.accept
            return what_node_means(document, None, stored.values(name), stored.effective(name), accept)
        held = [] if known is None else sorted({*known.hidden, *known.unsettled})
        before = stored.values(name) if held else {}
        values: dict[str, Json] = {key: value for key, value in document.values.items() if key not in held}
        values |= {key: before[key] for key in held if key in before}
        if any(not jsonvalues.same(document.values.get(key), values.get(key)) for key in held):
            plan.notes.append(
                f"{name}: the node's own values of {', '.join(held)} stay, since its file holds an override there"
            )
        return Meant(values, jsonvalues.combine_digests(key_digests(values, document).items()))


@dataclass(frozen=True)
class _Had:
    """What the last node run left of a node's documents."""

    stored: RemoteNode

    def of(self, name: str) -> Mapping[str, Json]:
        return {} if self.stored.records().get(name) == FROM_NAILGUN else self.stored.values(name)


@dataclass(frozen=True)
class NailgunExecutor(Executor):
    """Uploads; no file is written and nothing is remembered of one."""

    def carry_out(self, work: NodeWork) -> NodeReport:
        """Upload what differs, and check ConfigDB's answer."""
        task = _NailgunTask(self, work)
        task.upload()
        task.verify()
        failpoints.here("node-done")
        return task.report()


class _NailgunTask(NodeTask):
    def _begin_records(self) -> None:
        """Let ConfigDB keep, before anything is uploaded, which documents no node run had a part in."""
        stored = self.work.stored
        if stored is None:
            return
        there = stored.records()
        first = [one.data_source for one in self.work.documents if one.change is not None and one.change.first]
        fresh = {name: FROM_NAILGUN for name in first if name not in there}
        if fresh:
            stored.keep_records({**there, **fresh})


OWN_FACTS = frozenset({"uid", "fqdn"})
"""What is a node's own even in an environment of one node."""

_RELEASE = re.compile(r"(?:.*-)?(?P<major>[0-9]{1,3})\.[0-9.]+")
_FIRST_OF_FUEL10 = 10


def layout_of_data(data: Document) -> Layout:
    """Return the layout that an environment's release has on nodes: ``openstack_version`` tells, else ``fuel_version``.

    The first is the release that was chosen for the environment (``mitaka-9.0``), the second the master's: a newer
    master deploys older environments with their own tasks.
    """
    for name in ("openstack_version", "fuel_version"):
        value = data.get(name)
        found = _RELEASE.fullmatch(value) if isinstance(value, str) else None
        if found:
            return Layout.FUEL10 if int(found["major"]) >= _FIRST_OF_FUEL10 else Layout.FUEL9
    return Layout.FUEL9


def equal_keys(nodes: Iterable[Document]) -> frozenset[str]:
    """Return the top-level keys that all nodes have with equal values."""
    documents = list(nodes)
    if not documents:
        return frozenset()
    first, others = documents[0], documents[1:]
    return frozenset(
        key
        for key, value in first.items()
        if key not in OWN_FACTS and all(same(value, other.get(key, ABSENT)) for other in others)
    )


def placed(data: Document, common: Collection[str], node: Document, cluster: Document) -> tuple[Document, Document]:
    """Return what of a node's data is its ``node`` and its ``cluster``.

    ``node`` and ``cluster`` are these as the last node run left them (empty where there was none), ``common`` the keys
    that are equal on all nodes. A mapping that stands in both is divided in the same way, and what is new in it is the
    node's: there it wins.
    """
    return _placed(data, common, node, cluster)


def _placed(
    data: Document, common: Collection[str], node: Document, cluster: Document
) -> tuple[dict[str, Json], dict[str, Json]]:
    own: dict[str, Json] = {}
    shared: dict[str, Json] = {}
    for key, value in data.items():
        if key in node and key in cluster:
            _divide(key, value, (node[key], cluster[key]), (own, shared))
        elif key in node:
            own[key] = value
        elif key in cluster or key in common:
            shared[key] = value
        else:
            own[key] = value
    return own, shared


def _divide(key: str, value: Json, had: tuple[Json, Json], into: tuple[dict[str, Json], dict[str, Json]]) -> None:
    own, shared = into
    if all(isinstance(one, Mapping) for one in (value, *had)):
        own[key], shared[key] = _placed(value, (), *had)
        return
    own[key] = value
    # Two that were one are so still; else the node's hides the common one, which then can't be seen in the data.
    shared[key] = value if same(*had) else had[1]
