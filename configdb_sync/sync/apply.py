"""Carries out what was decided for one node: upload, verify ConfigDB's answer, record, write, confirm.

A file is written only if ConfigDB's effective data is what the decision predicted (U10, U20).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from configdb_sync import failpoints
from configdb_sync.configdb import changes, edits
from configdb_sync.configdb.changes import add_overrides
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.model import OVERRIDES, VALUES, DocumentAddress, DocumentEdit, Etags
from configdb_sync.errors import AmbiguousError, NodeFileError, ProductError, UnexpectedAnswerError
from configdb_sync.jsonvalues import EMPTY_DIGEST, Document, Json, document_digest, dumps, same
from configdb_sync.names import LevelPath
from configdb_sync.store.records import Record
from configdb_sync.sync.decide import Decision, Write
from configdb_sync.sync.fingerprint import UnchangedNode
from configdb_sync.sync.folder_documents import OverrideMove
from configdb_sync.sync.node_records import NodeMemory
from configdb_sync.sync.node_work import DocumentWork, NodeWork, Prepared, RunContext, body, prepare
from configdb_sync.sync.remote_environment import RemoteEnvironment
from configdb_sync.sync.report import NodeReport

_LONGEST_COMMENT = 1000
"""Characters of a comment in the history."""


def apply_node(run: RunContext, work: NodeWork) -> NodeReport:
    """Do all of a node's work that can be done; what failed is in the report.

    Raises what concerns the whole run (``CircuitBreaker``).
    """
    task = _NodeTask(run, work)
    task.upload()
    task.verify()
    if run.source is None:
        task.write()
    failpoints.here("node-done")
    return task.report()


@dataclass
class _NodeTask:
    """One node's way through the steps; a document that fails in one takes no part in the next."""

    run: RunContext
    work: NodeWork
    alive: list[DocumentWork] = field(default_factory=list)
    uploaded: list[str] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    problems: list[ProductError] = field(default_factory=list)
    moved: list[OverrideMove] = field(default_factory=list)
    carried: int = 0
    etags: Mapping[int, Etags] | None = None

    def __post_init__(self) -> None:
        work = self.work
        names = {document.data_source for document in work.documents}
        records = self.run.records
        self._memory = NodeMemory(
            records, self.node, work.records, work.stored, names, outdated=work.outdated, hierarchy=work.hierarchy
        )

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
        if moves or any(document.change for document in self.alive) or not self.run.remote.exists:
            try:
                self.run.remote.ensure(self.work.data_sources)
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
                with self._step(document, "upload"), self.run.deadline.step("upload"):
                    self._put(document)
                    self.uploaded.append(document.data_source)
        for document in self.alive.copy():
            if document.ordered:
                with self._step(document, "override"):
                    add_overrides(self.run.client, self._place(document), dict(document.ordered))

    def _move(self, move: OverrideMove) -> None:
        """Move an override; where that fails nothing is done with the file that it is for."""
        try:
            with self.run.deadline.step("move"):
                move_override(self.run.client, self.run.remote, self.run.options.environment, move)
        except ProductError as error:
            self.run.breaker.failed(error)
            self.problems.append(error.located(node=self.node, data_source=move.data_source, phase="move"))
            self.alive = [document for document in self.alive if document.data_source != move.data_source]
        else:
            self.run.breaker.worked()
            self.moved.append(move)

    def _begin_records(self) -> None:
        """Say of a node's first upload, before it, that nothing in its files is ours, or what is.

        Values without any record would make the next run wonder whether records were lost (U18).
        """
        if self.run.source is not None:
            self.run.source.begin_records(self.work)
        elif self.work.fresh and any(document.change for document in self.alive):
            begun = {
                document.data_source: document.record or Record(values=EMPTY_DIGEST, files=(document.file.sha256,))
                for document in self.alive
                if document.file is not None
            }
            self._memory.remember(begun)
            self._memory.tell_configdb()

    def _put(self, document: DocumentWork) -> None:
        refusal = self.run.remote.refusal(document.data_source)
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
            client.changed(DocumentEdit(place, VALUES, before, dict(document.decision.meant.values)))

    def _place(self, document: DocumentWork) -> DocumentAddress:
        definition = self.run.remote.definition(document.data_source)
        if definition is None:
            raise UnexpectedAnswerError("ConfigDB has no such data source, though it was made")
        return DocumentAddress(
            self.run.options.environment, self._levels, document.data_source, definition, innermost=True
        )

    def verify(self) -> None:
        """Compare ConfigDB's effective data with the prediction, for every document that changes (U10, U20)."""
        changed = [document for document in self.alive if document.change]
        etags = None
        if changed:
            try:
                etags = self.etags = self.run.client.etags(self.run.options.environment, self._levels)
            except ProductError as error:
                self._failed_all(error, changed)
                return
        for document in changed:
            with self._step(document, "verify"):
                place = self._place(document)
                known = None if etags is None else etags.get(place.definition)
                try:
                    check_effective(self.run.client, place, document.decision, known, document.aside)
                except UnexpectedAnswerError:
                    self.run.remote.met_others()
                    raise

    def write(self) -> None:
        """Write the files: the records first, then the files, then the records that say it's done."""
        prepared: dict[str, Prepared] = {}
        for document in self.alive.copy():
            with self._step(document, "write"):
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
                with self._step(document, "write"), self.run.deadline.step("write"):
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
        self.run.breaker.failed(error)
        failed = self.alive if documents is None else documents
        self.problems.append(error.located(node=self.node))
        self.alive = [document for document in self.alive if document not in failed]

    @contextmanager
    def _step(self, document: DocumentWork, phase: str) -> Iterator[None]:
        """Do one step of one document; a document that fails takes no part in the steps that follow."""
        try:
            yield
        except ProductError as error:
            self.run.breaker.failed(error)
            file = document.path if isinstance(error, NodeFileError) or phase == "write" else None
            located = error.located(node=self.node, file=file, data_source=document.data_source, phase=phase)
            self.problems.append(located)
            self.alive.remove(document)
        else:
            self.run.breaker.worked()

    def report(self) -> NodeReport:
        """Return what was done."""
        return NodeReport(
            plan=self.work.plan,
            uploaded=tuple(self.uploaded),
            written=tuple(self.written),
            problems=(*self.work.plan.problems, *self.problems),
            unchanged=self._unchanged(),
            bytes=self.carried,
            moved=tuple(self.moved),
        )

    def _unchanged(self) -> UnchangedNode | None:
        """Return the fingerprint of a node in step: nothing was to be done, or all of it is done and verified."""
        plan, stored = self.work.plan, self.work.stored
        if self.work.files is None or stored is None:
            return None
        if plan.problems or self.problems or plan.unsafe or plan.ineffective or plan.moves or plan.held or self.written:
            return None
        state = stored.state(self.work.files, self.etags)
        names = (*plan.unchanged, *(change.data_source for change in plan.changes))
        if state is None:
            return None
        return UnchangedNode(
            state, stored.levels, plan.fqdn, names, plan.undeclared, plan.notes, self.work.data_sources
        )


def check_effective(
    client: ConfigDBClient, place: DocumentAddress, decision: Decision, known: Etags | None, aside: Collection[str] = ()
) -> None:
    """Raise ``UnexpectedAnswerError`` if a document's effective data isn't what the decision predicted.

    ``known`` are the document's digests where the server gives them; if they differ, the whole document is fetched.
    ``aside`` are keys that the decision leaves out.
    """
    if known is not None and known.effective == decision.effective_digest:
        return
    found = client.effective(place.env, place.levels, place.definition)
    if document_digest(_without(found, aside)) != document_digest(_without(decision.effective, aside)):
        raise UnexpectedAnswerError(
            "ConfigDB's effective data is not what its values and overrides give:"
            f" {_differing(decision.effective, found)}",
            way_out="if someone changed an override just now, run again; the file was left alone",
        )


def _without(document: Document, aside: Collection[str]) -> dict[str, Json]:
    return {key: value for key, value in document.items() if key not in aside}


def _differing(predicted: Document, found: Document) -> str:
    names = [key for key in {**predicted, **found} if key not in predicted or key not in found]
    names += [key for key in predicted if key in found and dumps(predicted[key]) != dumps(found[key])]
    shown = ", ".join(map(repr, names[:3]))
    return f"{len(names)} keys differ ({shown}{', ...' if len(names) > 3 else ''})"


def move_override(client: ConfigDBClient, remote: RemoteEnvironment, environment: int, move: OverrideMove) -> None:
    """Move an override to the data source of the single file; a move that is done already changes nothing.

    The new override is written and read back, and only then the old one is removed. Killed at any point, the override
    is in at least one of the two places, and the next run goes on.

    Raises ``AmbiguousError`` if someone overrode the same key of the file differently meanwhile, ``ConfigDBError`` as
    the client and where the server can't hold the file's data source; then the old override is still there.
    """
    refusal = remote.refusal(move.data_source)
    if refusal is not None:
        raise refusal
    with remote.moving:
        source = _move_place(remote, environment, move.folder, move.source, move)
        target = _move_place(remote, environment, move.data_source, move.target, move)
        there = changes.read(client, source, OVERRIDES)
        if not _holds_move(there, move):
            return
        reason = _move_comment(client, source, move)
        if source == target:
            changes.rewrite(
                client,
                source,
                lambda found: _with_move(_without_move(found, move), move),
                kind=OVERRIDES,
                reason=reason,
            )
            failpoints.here("override-replaced")
            return
        changes.rewrite(client, target, lambda found: _with_move(found, move), kind=OVERRIDES, reason=reason)
        failpoints.here("override-copied")
        written = changes.read(client, target, OVERRIDES)
        if any(key not in written or not same(written[key], value) for key, value in move.content.items()):
            raise UnexpectedAnswerError(
                f"the override moved from {_move_origin(move)} isn't there after it was written; the old one was left",
                way_out="run again",
            )
        failpoints.here("override-confirmed")
        gone = f"moved to {move.data_source}"
        changes.rewrite(client, source, lambda found: _without_move(found, move), kind=OVERRIDES, reason=gone)
        failpoints.here("override-moved")


def _move_place(
    remote: RemoteEnvironment, environment: int, data_source: str, level: LevelPath, move: OverrideMove
) -> DocumentAddress:
    definition = remote.definition(data_source)
    if definition is None:
        raise UnexpectedAnswerError(
            f"ConfigDB has no data source {data_source}: the override stays in {_move_origin(move)}",
            way_out="run again",
        )
    return DocumentAddress(environment, level, data_source, definition, innermost=remote.is_innermost(level))


def _holds_move(found: dict[str, Json], move: OverrideMove) -> bool:
    return move.stem in found and same(found[move.stem], dict(move.content))


def _with_move(found: dict[str, Json], move: OverrideMove) -> dict[str, Json]:
    other = [key for key, value in move.content.items() if key in found and not same(found[key], value)]
    if other:
        raise AmbiguousError(
            f"{', '.join(other)}: someone has just overridden it, not as {_move_origin(move)}, which stays",
            way_out="remove one of the two overrides with `configdb-sync rm-override`",
        )
    return {**found, **move.content}


def _without_move(found: dict[str, Json], move: OverrideMove) -> dict[str, Json]:
    # What someone changed in between is no longer what was moved: it stays, and the next run looks at it.
    return {key: value for key, value in found.items() if key != move.stem} if _holds_move(found, move) else found


def _move_origin(move: OverrideMove) -> str:
    return edits.shown_key((move.folder, move.stem))


def _move_comment(client: ConfigDBClient, source: DocumentAddress, move: OverrideMove) -> str:
    """Return what the history says: where it was, and who had set it, as far as the server knows."""
    reason = f"moved from {_move_origin(move)}"
    if move.source != move.target:
        reason += f" at {move.place}"
    if not client.keeps_versions:
        return reason
    last = next(iter(client.history(source.env, source.levels, source.definition, OVERRIDES)), None)
    if last is not None and last.author:
        reason += f", set by {last.author} on {last.time}"
    if last is not None and last.comment:
        reason += f": {last.comment}"
    return reason[:_LONGEST_COMMENT]
