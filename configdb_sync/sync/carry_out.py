"""Carries out what was decided for one node: upload, check ConfigDB's answer, remember, write, confirm."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from configdb_sync import failpoints
from configdb_sync.configdb.changes import Place, add_overrides
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.model import Etags, LevelPath
from configdb_sync.errors import NodeFileError, ProductError, UnexpectedAnswerError
from configdb_sync.hiera import Rewrite, created
from configdb_sync.jsonvalues import EMPTY_DIGEST, Document, Json, document_digest, dumps
from configdb_sync.nodes.model import Nodes
from configdb_sync.sync.catalog import Catalog
from configdb_sync.sync.decide import Write, confirmed
from configdb_sync.sync.digests import to_json
from configdb_sync.sync.examine import DocumentWork, NodeWork
from configdb_sync.sync.health import Health
from configdb_sync.sync.options import RunOptions
from configdb_sync.sync.pace import Pace
from configdb_sync.sync.records import Record, Records
from configdb_sync.sync.report import NodeReport


@dataclass(frozen=True)
class Executor:
    """Carries out nodes' work for one run."""

    client: ConfigDBClient
    catalog: Catalog
    nodes: Nodes
    records: Records
    health: Health
    options: RunOptions
    pace: Pace

    def carry_out(self, work: NodeWork) -> NodeReport:
        """Do all of a node's work that can be done; what failed is in the report.

        Raises what concerns the whole run (``Health``).
        """
        task = NodeTask(self, work)
        task.upload()
        task.verify()
        task.write()
        failpoints.here("node-done")
        return task.report()


@dataclass(frozen=True)
class _Prepared:
    """One document made ready: the record while its write is unconfirmed, the one after it, and the new content."""

    pending: Record
    done: Record
    content: bytes | None = field(repr=False)


_BLANK = Record(values=EMPTY_DIGEST, files=(None,))
"""The record of a document that isn't there: not worth a row."""


@dataclass
class NodeTask:
    """One node's way through the steps; a document that fails in one takes no part in the next."""

    run: Executor
    work: NodeWork
    alive: list[DocumentWork] = field(default_factory=list)
    uploaded: list[str] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    problems: list[ProductError] = field(default_factory=list)
    records: dict[str, Record] = field(default_factory=dict)
    told: bool = True

    def __post_init__(self) -> None:
        self.records = dict(self.work.records)
        self._names = {document.data_source for document in self.work.documents}
        if self.work.stored is not None:
            self.told = self.work.stored.has_records or not self.records

    @property
    def node(self) -> str:
        """The node's identity."""
        return self.work.plan.node

    @property
    def _levels(self) -> LevelPath:
        return () if self.work.stored is None else self.work.stored.levels

    def upload(self) -> None:
        """Send values that differ from the stored ones."""
        self.alive = list(self.work.documents)
        if not self.alive:
            return
        if any(document.change for document in self.alive) or not self.run.catalog.exists:
            try:
                self.run.catalog.ensure(self.work.data_sources)
                failpoints.here("environment-made")
            except ProductError as error:
                self._failed_all(error)
                return
        try:
            self._begin_records()
        except ProductError as error:
            self._failed_all(error)
            return
        for document in self.alive.copy():
            if document.change and document.change.uploads:
                with _Guard(self, document, "upload"), self.run.pace.step("upload"):
                    self._put(document)
                    self.uploaded.append(document.data_source)
        for document in self.alive.copy():
            if document.ordered:
                with _Guard(self, document, "override"):
                    self._override(document)

    def _begin_records(self) -> None:
        """Say of a node's first upload, before it, that nothing in its files is ours.

        Values without any record would make the next run wonder whether records were lost (U18).
        """
        if self.work.fresh and any(document.change for document in self.alive):
            begun = {
                document.data_source: Record(values=EMPTY_DIGEST, files=(document.file.sha256,))
                for document in self.alive
                if document.file is not None
            }
            self._remember(begun)
            self._tell_configdb()

    def _put(self, document: DocumentWork) -> None:
        refusal = self.run.catalog.refusal(document.data_source)
        if refusal is not None:
            raise refusal
        failpoints.here("before-upload")
        self.run.client.put_values(
            self.run.options.environment, self._levels, self._definition(document), _body(document)
        )
        failpoints.here("after-upload")

    def _override(self, document: DocumentWork) -> None:
        definition = self._definition(document)
        place = Place(self.run.options.environment, self._levels, document.data_source, definition, innermost=True)
        add_overrides(self.run.client, place, dict(document.ordered))

    def _definition(self, document: DocumentWork) -> int:
        definition = self.run.catalog.definition(document.data_source)
        if definition is None:
            raise UnexpectedAnswerError("ConfigDB has no such data source, though it was made")
        return definition

    def verify(self) -> None:
        """Compare ConfigDB's effective data with what was foreseen, for every document that changes (U10, U20)."""
        changed = [document for document in self.alive if document.change]
        etags: Mapping[int, Etags] | None = None
        if changed:
            try:
                etags = self.run.client.etags(self.run.options.environment, self._levels)
            except ProductError as error:
                self._failed_all(error, changed)
                return
        for document in changed:
            with _Guard(self, document, "verify"):
                self._check(document, etags)

    def _check(self, document: DocumentWork, etags: Mapping[int, Etags] | None) -> None:
        definition = self._definition(document)
        known = None if etags is None else etags.get(definition)
        foreseen = document.decision.effective
        if known is not None and known.effective == document.decision.effective_digest:
            return
        found = self.run.client.effective(self.run.options.environment, self._levels, definition)
        if document_digest(found) != document.decision.effective_digest:
            raise UnexpectedAnswerError(
                f"ConfigDB's effective data is not what its values and overrides give: {_differing(foreseen, found)}",
                way_out="if someone changed an override just now, run again; the file was left alone",
            )

    def write(self) -> None:
        """Write the files: the records first, then the files, then the records that say it's done."""
        prepared: dict[str, _Prepared] = {}
        for document in self.alive.copy():
            with _Guard(self, document, "write"):
                prepared[document.data_source] = self._prepare(document)
        failpoints.here("before-record")
        self._remember({name: found.pending for name, found in prepared.items()})
        try:
            self._tell_configdb()
        except ProductError as error:
            self._failed_all(error, [one for one in self.alive if one.decision.write is not Write.NONE])
        failpoints.here("after-record")
        done: dict[str, Record] = {}
        for document in self.alive.copy():
            found = prepared[document.data_source]
            if document.decision.write is not Write.NONE:
                with _Guard(self, document, "write"), self.run.pace.step("write"):
                    failpoints.here("before-write")
                    self._write(document, found.content)
                    failpoints.here("after-write")
                    self.written.append(document.data_source)
                    done[document.data_source] = found.done
        self._remember(done)
        failpoints.here("after-confirm")
        if done:
            try:
                self._tell_configdb()
            except ProductError as error:
                self._failed_all(error, [])

    def _remember(self, records: Mapping[str, Record]) -> None:
        gone = [name for name, record in records.items() if record == _BLANK and name in self.records]
        changed = {
            name: record for name, record in records.items() if record != _BLANK and record != self.records.get(name)
        }
        self.run.records.store(self.node, changed)
        self.run.records.forget(self.node, gone)
        self.records |= changed
        for name in gone:
            del self.records[name]
        self.told = self.told and not changed and not gone

    def _tell_configdb(self) -> None:
        """Let ConfigDB keep the digests of our records, so that they hold on another master (U18)."""
        if self.told or self.work.stored is None:
            return
        kept = {name: to_json(record) for name, record in self.records.items()}
        others = {name: found for name, found in self.work.stored.records().items() if name not in self._names}
        self.work.stored.keep_records({**others, **kept})
        self.told = True

    def _prepare(self, document: DocumentWork) -> _Prepared:
        decision, before = document.decision, document.record
        rewrite = self._rewritten(document)
        now = None if document.file is None else document.file.sha256
        then = now
        if decision.write is not Write.NONE:
            then = None if rewrite is None else hashlib.sha256(rewrite.raw).hexdigest()
        old = {} if before is None or document.file is None else dict(before.kept)
        kept = old if decision.write is Write.NONE else {} if rewrite is None else dict(rewrite.kept)
        done = Record(
            values=decision.meant.digest,
            files=(then,),
            hidden=confirmed(decision.hidden),
            kept=kept,
            marks=_marks(document),
            created=not decision.meant.values
            and (decision.write is Write.CREATE or (decision.write is not Write.REMOVE and _was_created(document))),
            unsettled=decision.meant.ambiguous,
        )
        if not done.hidden:
            done = replace(done, kept={}, marks={})
        pending = done
        if decision.write is not Write.NONE:
            # Killed before the file is written, the old text is still what brings the node's own back.
            pending = replace(
                done,
                files=(now, then),
                hidden=decision.hidden,
                kept=old | kept,
                marks=_marks(document),
                created=done.created or _was_created(document),
            )
        return _Prepared(pending, done, None if rewrite is None else rewrite.raw)

    def _rewritten(self, document: DocumentWork) -> Rewrite | None:
        decision = document.decision
        if decision.write is Write.CREATE:
            return Rewrite(created(decision.target), {})
        if decision.write is Write.REPLACE and document.document is not None:
            kept = {} if document.record is None else document.record.kept
            marks = {} if document.record is None else document.record.marks
            return document.document.rewritten(decision.target, kept, marks)
        return None

    def _write(self, document: DocumentWork, content: bytes | None) -> None:
        if document.decision.write is Write.REMOVE:
            if document.file is not None:
                self.run.nodes.remove(self.node, document.file)
        elif content is not None:
            self.run.nodes.write(self.node, document.path, content, document.file)

    def _failed_all(self, error: ProductError, documents: Sequence[DocumentWork] | None = None) -> None:
        self.run.health.failed(error)
        failed = self.alive if documents is None else documents
        self.problems.append(error.located(node=self.node))
        self.alive = [document for document in self.alive if document not in failed]

    def failed(self, document: DocumentWork, error: ProductError, phase: str) -> None:
        """Take a document out of the steps that follow."""
        self.run.health.failed(error)
        file = document.path if isinstance(error, NodeFileError) or phase == "write" else None
        self.problems.append(error.located(node=self.node, file=file, data_source=document.data_source, phase=phase))
        self.alive.remove(document)

    def report(self) -> NodeReport:
        """Return what was done."""
        return NodeReport(
            plan=self.work.plan,
            uploaded=tuple(self.uploaded),
            written=tuple(self.written),
            problems=(*self.work.plan.problems, *self.problems),
        )


class _Guard:
    """Runs one step of one document; a failure stays that document's own."""

    def __init__(self, task: NodeTask, document: DocumentWork, phase: str) -> None:
        self._task = task
        self._document = document
        self._phase = phase

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        if error is None:
            self._task.run.health.worked()
            return False
        if isinstance(error, ProductError):
            self._task.failed(self._document, error, self._phase)
            return True
        return False


def _was_created(document: DocumentWork) -> bool:
    return document.file is not None and document.record is not None and document.record.created


def _marks(document: DocumentWork) -> Mapping[str, Json]:
    """The types of the node's own values under hidden keys: as remembered, else as they are before they are hidden."""
    hidden = document.decision.hidden
    remembered = {} if document.record is None else document.record.marks
    found = {} if document.document is None else document.document.type_marks()
    return {key: mark for key, mark in {**found, **remembered}.items() if key in hidden}


def _body(document: DocumentWork) -> bytes:
    values, file = document.decision.meant.values, document.document
    unchanged = file is not None and list(values) == list(file.values)
    if file is not None and unchanged and all(value is file.values[key] for key, value in values.items()):
        return file.json_bytes()
    return dumps(dict(values)).encode("ascii")


def _differing(foreseen: Document, found: Document) -> str:
    names = [key for key in {**foreseen, **found} if key not in foreseen or key not in found]
    names += [key for key in foreseen if key in found and dumps(foreseen[key]) != dumps(found[key])]
    shown = ", ".join(map(repr, names[:3]))
    return f"{len(names)} keys differ ({shown}{', ...' if len(names) > 3 else ''})"
