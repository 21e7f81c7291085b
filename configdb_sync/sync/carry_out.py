"""Carries out what was decided for one node: upload, check ConfigDB's answer, remember, write, confirm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from configdb_sync import failpoints
from configdb_sync.configdb.change import VALUES, Change, Place
from configdb_sync.configdb.changes import add_overrides
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.model import Etags
from configdb_sync.errors import NodeFileError, ProductError, UnexpectedAnswerError
from configdb_sync.jsonvalues import EMPTY_DIGEST
from configdb_sync.names import LevelPath
from configdb_sync.nodes.node_files import Nodes
from configdb_sync.store.records import Record, Records
from configdb_sync.sync.catalog import Catalog
from configdb_sync.sync.decide import Write
from configdb_sync.sync.folder_moves import move_override
from configdb_sync.sync.folders import Move
from configdb_sync.sync.health import Health
from configdb_sync.sync.node_records import NodeMemory
from configdb_sync.sync.options import RunOptions
from configdb_sync.sync.pace import Pace
from configdb_sync.sync.prepare import Prepared, body, prepare
from configdb_sync.sync.quiet import Quiet
from configdb_sync.sync.report import NodeReport
from configdb_sync.sync.verifying import check_effective
from configdb_sync.sync.work import DocumentWork, NodeWork


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


@dataclass
class NodeTask:
    """One node's way through the steps; a document that fails in one takes no part in the next."""

    run: Executor
    work: NodeWork
    alive: list[DocumentWork] = field(default_factory=list)
    uploaded: list[str] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    problems: list[ProductError] = field(default_factory=list)
    moved: list[Move] = field(default_factory=list)
    carried: int = 0
    etags: Mapping[int, Etags] | None = None

    def __post_init__(self) -> None:
        work = self.work
        names = {document.data_source for document in work.documents}
        records = self.run.records
        self._memory = NodeMemory(records, self.node, work.records, work.stored, names, outdated=work.outdated)

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
        moves = self.work.moves
        if moves or any(document.change for document in self.alive) or not self.run.catalog.exists:
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
        for move in moves:
            self._move(move)
        for document in self.alive.copy():
            if document.change and document.change.uploads:
                with _Guard(self, document, "upload"), self.run.pace.step("upload"):
                    self._put(document)
                    self.uploaded.append(document.data_source)
        for document in self.alive.copy():
            if document.ordered:
                with _Guard(self, document, "override"):
                    self._override(document)

    def _move(self, move: Move) -> None:
        """Move an override; where that fails nothing is done with the file that it is for."""
        try:
            with self.run.pace.step("move"):
                move_override(self.run.client, self.run.catalog, self.run.options.environment, move)
        except ProductError as error:
            self.run.health.failed(error)
            self.problems.append(error.located(node=self.node, data_source=move.data_source, phase="move"))
            self.alive = [document for document in self.alive if document.data_source != move.data_source]
        else:
            self.run.health.worked()
            self.moved.append(move)

    def _begin_records(self) -> None:
        """Say of a node's first upload, before it, that nothing in its files is ours, or what is.

        Values without any record would make the next run wonder whether records were lost (U18).
        """
        if self.work.fresh and any(document.change for document in self.alive):
            begun = {
                document.data_source: document.record or Record(values=EMPTY_DIGEST, files=(document.file.sha256,))
                for document in self.alive
                if document.file is not None
            }
            self._memory.remember(begun)
            self._memory.tell_configdb()

    def _put(self, document: DocumentWork) -> None:
        refusal = self.run.catalog.refusal(document.data_source)
        if refusal is not None:
            raise refusal
        failpoints.here("before-upload")
        client, place = self.run.client, self._place(document)
        content = body(document)
        client.put_values(place.env, place.levels, place.definition, content)
        self.carried += len(content)
        failpoints.here("after-upload")
        if client.observed and self.work.stored is not None:
            before = self.work.stored.raw_values(document.data_source)
            client.changed(Change(place, VALUES, before, dict(document.decision.meant.values)))

    def _override(self, document: DocumentWork) -> None:
        add_overrides(self.run.client, self._place(document), dict(document.ordered))

    def _place(self, document: DocumentWork) -> Place:
        definition = self._definition(document)
        return Place(self.run.options.environment, self._levels, document.data_source, definition, innermost=True)

    def _definition(self, document: DocumentWork) -> int:
        definition = self.run.catalog.definition(document.data_source)
        if definition is None:
            raise UnexpectedAnswerError("ConfigDB has no such data source, though it was made")
        return definition

    def verify(self) -> None:
        """Compare ConfigDB's effective data with what was foreseen, for every document that changes (U10, U20)."""
        changed = [document for document in self.alive if document.change]
        etags = None
        if changed:
            try:
                etags = self.etags = self.run.client.etags(self.run.options.environment, self._levels)
            except ProductError as error:
                self._failed_all(error, changed)
                return
        for document in changed:
            with _Guard(self, document, "verify"):
                place = self._place(document)
                known = None if etags is None else etags.get(place.definition)
                check_effective(self.run.client, place, document.decision, known, document.aside)

    def write(self) -> None:
        """Write the files: the records first, then the files, then the records that say it's done."""
        prepared: dict[str, Prepared] = {}
        for document in self.alive.copy():
            with _Guard(self, document, "write"):
                prepared[document.data_source] = prepare(document)
        failpoints.here("before-record")
        self._memory.remember({name: found.pending for name, found in prepared.items()})
        try:
            self._memory.tell_configdb()
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
        self._memory.remember(done)
        failpoints.here("after-confirm")
        if done:
            try:
                self._memory.tell_configdb()
            except ProductError as error:
                self._failed_all(error, [])

    def _write(self, document: DocumentWork, content: bytes | None) -> None:
        if document.decision.write is Write.REMOVE:
            if document.file is not None:
                self.run.nodes.remove(self.node, document.file)
        elif content is not None:
            self.run.nodes.write(self.node, document.path, content, document.file)
            self.carried += len(content)

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
            quiet=self._quiet(),
            bytes=self.carried,
            moved=tuple(self.moved),
        )

    def _quiet(self) -> Quiet | None:
        """Return what to remember of a node at rest: nothing was to be done, or all that was is done and verified."""
        plan, stored = self.work.plan, self.work.stored
        if self.work.files is None or stored is None:
            return None
        if plan.problems or self.problems or plan.unsafe or plan.idle or plan.moves or plan.held or self.written:
            return None
        state = stored.state(self.work.files, self.etags)
        names = (*plan.unchanged, *(change.data_source for change in plan.changes))
        if state is None:
            return None
        return Quiet(state, stored.levels, plan.fqdn, names, plan.undeclared, plan.notes, self.work.data_sources)


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
