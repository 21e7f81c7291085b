"""What a run has to do for one node and one document, with all that doing it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from configdb_sync.hiera import HieraDocument
from configdb_sync.jsonvalues import Json
from configdb_sync.nodes.node_files import NodeFile
from configdb_sync.store.records import Record
from configdb_sync.sync.decide import Decision
from configdb_sync.sync.folders import Move
from configdb_sync.sync.identity import Identity
from configdb_sync.sync.plan import DocumentChange, NodePlan
from configdb_sync.sync.stored import StoredNode


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
    identity: Identity


@dataclass(frozen=True)
class DocumentWork:
    """One document with the decision on it and all that carrying it out takes.

    ``aside``: keys of its overrides that are files of a folder (``folders``); they are no part of the decision.
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
    of this node. ``files``: the digest of its files if it may be remembered as one at rest (``quiet``). ``moves``:
    overrides to be moved out of folders' documents before anything else.
    """

    plan: NodePlan
    stored: StoredNode | None = None
    documents: tuple[DocumentWork, ...] = ()
    data_sources: tuple[str, ...] = ()
    records: Mapping[str, Record] = field(default_factory=dict, repr=False)
    outdated: frozenset[str] = frozenset()
    fresh: bool = False
    files: str | None = None
    moves: tuple[Move, ...] = ()
