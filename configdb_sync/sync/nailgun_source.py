"""A run from Nailgun's deployment data (U21): uploads what nodes are going to be given, and writes nothing back.

Such an upload is no merge base (U18): what a node run knows of a node stays true after it
(``docs/decisions/uploads-from-nailgun.md``). Nailgun gives a node's data as one mapping, in which newton's two files
are merged: the node's own over what is common to all. If a node run has seen the files, each key stays in the file
where it was; otherwise what is equal on all nodes is common.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import cached_property

from configdb_sync import jsonvalues
from configdb_sync.errors import DocumentError, NodeError
from configdb_sync.hiera.documents import HieraDocument, document_of
from configdb_sync.hiera.layouts import Layout, facts_of
from configdb_sync.jsonvalues import ABSENT, Document, Json, same
from configdb_sync.nodes.nailgun import FILE, NailgunNodes, document_file
from configdb_sync.nodes.node_files import NodeFile, NodeRead
from configdb_sync.sync.decide import Accept, Meant, key_digests, what_node_means
from configdb_sync.sync.node_records import FROM_NAILGUN, from_json
from configdb_sync.sync.node_work import ExaminedDocument, NodeWork, RunContext
from configdb_sync.sync.remote_node import RemoteNode

_FILES = ("node", "cluster")
"""The data sources of newton's two files."""


class NailgunSource:
    """Nailgun's deployment data in place of the nodes' own files (``UploadSource``)."""

    def __init__(self, nodes: NailgunNodes) -> None:
        self._nodes = nodes

    @cached_property
    def _common(self) -> frozenset[str]:
        return equal_keys(self._nodes.data.values())

    def files(self, read: NodeRead, run: RunContext) -> NodeRead:
        """Return a node's data as the files that its Fuel release has."""
        data = self.parse(read.files[FILE]).values
        facts = facts_of(Layout.FUEL9, {FILE: data})
        if layout_of_data(data) is not Layout.FUEL10 or not run.options.asks_for(read.identity, facts.fqdn):
            return read
        levels = run.options.addresses.of_facts(facts.scope)
        remote = RemoteNode(run.client, run.remote, run.options.environment, levels)
        before = ({} if remote.records().get(name) == FROM_NAILGUN else remote.values(name) for name in _FILES)
        parts = placed(data, self._common, *before)
        files = {f"{name}.yaml": part for name, part in zip(_FILES, parts, strict=True)}
        return replace(read, files={path: document_file(path, part) for path, part in files.items()})

    def parse(self, file: NodeFile) -> HieraDocument:
        """Return a file's document."""
        found = jsonvalues.loads(file.content)
        if not isinstance(found, dict):
            raise DocumentError("Nailgun's data for it is not a mapping", file=file.path)
        return document_of(found)

    def meant(self, examined: ExaminedDocument, remote: RemoteNode, accept: Accept) -> tuple[Meant, tuple[str, ...]]:
        """Return Nailgun's data, except for keys of which only the stored value says what is the node's."""
        name, document = examined.data_source, examined.document
        if document is None:
            raise NodeError("Nailgun has no data for it")
        known = from_json(remote.records().get(name))
        if known is None and examined.unrecorded:
            # Someone else's values, and perhaps their overrides in the node's file: both sides must stay comparable.
            return what_node_means(document, None, remote.values(name), remote.effective(name), accept), ()
        held = [] if known is None else sorted({*known.hidden, *known.unsettled})
        before = remote.values(name) if held else {}
        values: dict[str, Json] = {key: value for key, value in document.values.items() if key not in held}
        values |= {key: before[key] for key in held if key in before}
        kept = f"{name}: the node's own values of {', '.join(held)} stay, because its file holds an override of them"
        differs = any(not same(document.values.get(key), values.get(key)) for key in held)
        meant = Meant(values, jsonvalues.combine_digests(key_digests(values, document).items()))
        return meant, (kept,) if differs else ()

    def begin_records(self, work: NodeWork) -> None:
        """Let ConfigDB keep, before anything is uploaded, which documents no node run had a part in."""
        if work.stored is None:
            return
        there = work.stored.records()
        first = [one.data_source for one in work.documents if one.change is not None and one.change.first]
        fresh = {name: FROM_NAILGUN for name in first if name not in there}
        if fresh:
            work.stored.keep_records({**there, **fresh})


OWN_FACTS = frozenset({"uid", "fqdn"})
"""What is a node's own even in an environment of one node."""

_RELEASE = re.compile(r"(?:.*-)?(?P<major>[0-9]{1,3})\.[0-9.]+")
_FIRST_OF_FUEL10 = 10


def layout_of_data(data: Document) -> Layout:
    """Return the layout that an environment's release has on nodes: by ``openstack_version``, else by ``fuel_version``.

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


def placed(
    data: Document, common: Collection[str], node: Document, cluster: Document
) -> tuple[dict[str, Json], dict[str, Json]]:
    """Return what of a node's data is its ``node`` and its ``cluster``.

    ``node`` and ``cluster`` are these as the last node run left them (empty where there was none), ``common`` the keys
    that are equal on all nodes. A mapping that stands in both is divided in the same way, and what is new in it is the
    node's: there it wins.
    """
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
        own[key], shared[key] = placed(value, (), *had)
        return
    own[key] = value
    # Two that were one are so still; else the node's hides the common one, which then can't be seen in the data.
    shared[key] = value if same(*had) else had[1]
