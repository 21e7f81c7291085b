"""What ``node`` hands over to ``apply``: a node's work, and each file's new content and record."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.hiera.documents import HieraDocument, created
from configdb_sync.hiera.rewriting import Rewrite, either
from configdb_sync.jsonvalues import EMPTY_DIGEST, Json, dumps
from configdb_sync.masking import Masker
from configdb_sync.nailgun.roster import Roster
from configdb_sync.nodes.node_files import NodeFile, NodeRead, Nodes
from configdb_sync.overrides.notes import Note
from configdb_sync.store.approvals import UnsafeChange
from configdb_sync.store.records import Record, Records
from configdb_sync.sync.decide import Accept, Decision, Meant, Write, hidden_after_write
from configdb_sync.sync.folder_documents import OverrideMove
from configdb_sync.sync.limits import CircuitBreaker, Deadline
from configdb_sync.sync.plan import DocumentChange, NodePlan
from configdb_sync.sync.remote_environment import RemoteEnvironment
from configdb_sync.sync.remote_node import RemoteNode
from configdb_sync.sync.run_options import RunOptions


@dataclass(frozen=True)
class ExaminedDocument:
    """What is known of one document before ConfigDB is asked.

    ``unrecorded``: values of this node were uploaded, and no record of it is left anywhere.
    """

    data_source: str
    path: str
    file: NodeFile | None
    document: HieraDocument | None = field(repr=False)
    record: Record | None = field(repr=False)
    unrecorded: bool


@dataclass(frozen=True)
class DocumentWork:
    """One document with the decision on it and all that carrying it out takes.

    ``aside``: keys of its overrides that are files of a folder (``folder_documents``), which the decision
    leaves out.
    """

    data_source: str
    path: str
    file: NodeFile | None
    document: HieraDocument | None = field(repr=False)
    decision: Decision = field(repr=False)
    record: Record | None = field(repr=False)
    change: DocumentChange | None
    ordered: Mapping[str, Json] = field(default_factory=dict, repr=False)
    aside: frozenset[str] = frozenset()


@dataclass(frozen=True)
class NodeWork:
    """One node's plan, its documents, the data sources that ConfigDB must have for it, and our records as they are.

    ``outdated``: the data sources of which another environment has newer records. ``fresh``: nothing was ever uploaded
    of this node. ``files``: the digest of its files if the run may remember the node's fingerprint. ``moves``:
    overrides to be moved out of folders' documents before anything else. ``hierarchy``: the node's, as JSON, None if
    it is unknown.
    """

    plan: NodePlan
    stored: RemoteNode | None = None
    documents: tuple[DocumentWork, ...] = ()
    data_sources: tuple[str, ...] = ()
    records: Mapping[str, Record] = field(default_factory=dict, repr=False)
    outdated: frozenset[str] = frozenset()
    fresh: bool = False
    files: str | None = None
    moves: tuple[OverrideMove, ...] = ()
    hierarchy: Json = None


class UploadSource(Protocol):
    """A source of documents other than the nodes' own files: what it gives is uploaded, and no file is written."""

    def files(self, read: NodeRead, run: RunContext) -> NodeRead:
        """Return what was read of a node with one file for each document."""

    def parse(self, file: NodeFile) -> HieraDocument:
        """Return a file's document. Raises ``DocumentError``."""

    def meant(self, examined: ExaminedDocument, remote: RemoteNode, accept: Accept) -> tuple[Meant, tuple[str, ...]]:
        """Return what is to be uploaded of a document, and notes for the plan."""

    def begin_records(self, work: NodeWork) -> None:
        """Let ConfigDB note, before anything is uploaded, where the documents come from."""


@dataclass(frozen=True)
class RunContext:
    """What all nodes of one run share.

    ``allowed``: unsafe changes that the user let through. ``roster``: what Nailgun knows of the nodes, None without
    Nailgun. ``source``: where documents come from, None for the nodes' own files. ``notes``: those on overrides, for
    plans.
    """

    client: ConfigDBClient
    nodes: Nodes
    remote: RemoteEnvironment
    records: Records
    options: RunOptions
    deadline: Deadline
    masker: Masker
    breaker: CircuitBreaker = field(default_factory=CircuitBreaker)
    allowed: frozenset[UnsafeChange] = frozenset()
    roster: Roster | None = None
    source: UploadSource | None = None
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True)
class Prepared:
    """One document made ready: the record while its write is unconfirmed, the one after it, and the new content."""

    pending: Record
    done: Record
    content: bytes | None = field(repr=False)


BLANK = Record(values=EMPTY_DIGEST, files=(None,))
"""The record of a document that isn't there: not worth a row."""


def prepare(document: DocumentWork) -> Prepared:
    """Return a document made ready to be written. Raises ``DocumentError`` if Ruby could not read what is meant."""
    decision, before = document.decision, document.record
    rewrite = _rewritten(document)
    now = None if document.file is None else document.file.sha256
    then = now
    if decision.write is not Write.NONE:
        then = None if rewrite is None else hashlib.sha256(rewrite.raw).hexdigest()
    old = {} if before is None or document.file is None else dict(before.kept)
    kept = old if decision.write is Write.NONE else {} if rewrite is None else dict(rewrite.kept)
    hidden = hidden_after_write(decision)
    done = Record(
        values=decision.meant.digest,
        files=(then,),
        hidden=hidden,
        kept=kept,
        marks=_marks(document, hidden),
        created=not decision.meant.values
        and (decision.write is Write.CREATE or (decision.write is not Write.REMOVE and _was_created(document))),
        unsettled=decision.meant.ambiguous,
    )
    if not done.hidden:
        done = replace(done, kept={})
    pending = done
    if decision.write is not Write.NONE:
        # Killed before the file is written, the old text is still what brings the node's own back.
        pending = replace(
            done,
            files=(now, then),
            hidden=decision.hidden,
            kept=either(old, kept),
            marks=_marks(document, decision.hidden),
            created=done.created or _was_created(document),
        )
    return Prepared(pending, done, None if rewrite is None else rewrite.raw)


def _rewritten(document: DocumentWork) -> Rewrite | None:
    decision = document.decision
    if decision.write is Write.CREATE:
        return Rewrite(created(decision.target), {})
    if decision.write is Write.REPLACE and document.document is not None:
        kept = {} if document.record is None else document.record.kept
        marks = {} if document.record is None else document.record.marks
        return document.document.rewritten(decision.target, kept, marks)
    return None


def _was_created(document: DocumentWork) -> bool:
    return document.file is not None and document.record is not None and document.record.created


def _marks(document: DocumentWork, hidden: Collection[str]) -> Mapping[str, Json]:
    """The types of the node's own values under hidden keys: as remembered, else as they are before they are hidden."""
    remembered = {} if document.record is None else document.record.marks
    found = {} if document.document is None else document.document.type_marks()
    return {key: mark for key, mark in {**found, **remembered}.items() if key in hidden}


def body(document: DocumentWork) -> bytes:
    """Return the JSON text of the values to be sent."""
    values, file = document.decision.meant.values, document.document
    unchanged = file is not None and list(values) == list(file.values)
    if file is not None and unchanged and all(value is file.values[key] for key, value in values.items()):
        return file.json_bytes()
    return dumps(dict(values)).encode("ascii")
