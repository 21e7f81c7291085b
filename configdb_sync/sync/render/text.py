"""Plans, reports, past runs and what is left of removed nodes, as text for people (U14, U17, U20).

Short lines, no secrets; the last line says what to do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from configdb_sync.errors import ProductError
from configdb_sync.names import one_line
from configdb_sync.store.runs import PastRun, RunNode
from configdb_sync.sync.decide import Write
from configdb_sync.sync.diff import LeafChange
from configdb_sync.sync.gc import LeftDocument, Leftovers
from configdb_sync.sync.ineffective_overrides import orphan_lines
from configdb_sync.sync.plan import DocumentChange, EnvironmentChange, NodePlan, Plan
from configdb_sync.sync.render.summary import TO_WRITE, ChangeGroup, change_groups
from configdb_sync.sync.render.wording import (
    change_text,
    count,
    expired_lines,
    ineffective_lines,
    nodes_text,
    notes_of,
    on_nodes,
    shared_notes,
    shortened,
    takeover_lines,
)
from configdb_sync.sync.report import Report

SHOWN_CHANGES = 20
SHOWN_PROBLEMS = 20
_SHOWN_KEYS = 12
_WRITTEN = {Write.REPLACE: "wrote", Write.CREATE: "created", Write.REMOVE: "removed"}


def plan_lines(plan: Plan, *, brief: bool = False) -> Iterator[str]:
    """Yield the lines of a plan; ``brief``: the same change or note of many nodes once, else by node."""
    yield (
        f"Plan for environment {plan.environment}: {count(len(plan.nodes), 'node')},"
        f" {count(plan.uploads, 'document')} to upload, {count(plan.writes, 'file')} to write"
    )
    yield from _environment(plan.change, "will create", "will add")
    yield from _listed("Overrides to be removed, since their end has come:", expired_lines(plan.expired))
    shared = shared_notes(plan.nodes, 1 if brief else 2)
    if brief:
        yield from group_lines(change_groups(plan.nodes))
    else:
        for node in plan.nodes:
            if _worth_showing(node, shared):
                yield ""
                yield _title(node)
                for change in node.changes:
                    yield from _change(change, "upload", TO_WRITE)
                yield from _notes(node, shared)
    yield from _unchanged([node for node in plan.nodes if _is_unchanged(node, shared)])
    yield from _listed("Notes:", on_nodes(shared))
    yield from _listed("Overrides to be moved out of folders' documents:", takeover_lines(plan.nodes))
    yield from _listed("Overrides without effect:", ineffective_lines(plan.nodes))
    if plan.orphans:
        yield ""
        yield "Overrides left:"
        yield from (f"  {line}" for line in orphan_lines(plan.orphans, plan.environment))
    yield from _listed(f"Problems ({len(plan.problems)}):", list(map(str, plan.problems)))
    yield ""
    if plan.unsafe_digest:
        yield _withheld(plan.unsafe_digest)
    yield f"Digest of this plan: {plan.digest}"


def report_lines(report: Report) -> Iterator[str]:
    """Yield the lines of a run's report; the last one says what to do if anything is left to do."""
    yield (
        f"Synchronised environment {report.environment}: {count(len(report.nodes), 'node')},"
        f" {count(report.uploads, 'document')} uploaded, {count(report.writes, 'file')} written"
        f" in {report.seconds:.1f} s"
    )
    yield from _environment(report.change, "created", "added")
    yield from _listed("Overrides removed, since their end has come:", expired_lines(report.expired))
    shared = shared_notes(node.plan for node in report.nodes)
    unchanged = [node.plan for node in report.nodes if _is_unchanged(node.plan, shared) and not node.problems]
    for node in report.nodes:
        if _worth_showing(node.plan, shared):
            yield ""
            yield _title(node.plan)
            for change in node.done_changes:
                yield from _change(change, "uploaded", _WRITTEN)
            yield from _notes(node.plan, shared)
    yield from _unchanged(unchanged)
    yield from _listed("Notes:", on_nodes(shared))
    done = [replace(node.plan, moves=node.moved) for node in report.nodes]
    yield from _listed("Overrides moved out of folders' documents:", takeover_lines(done))
    yield from _listed("Overrides without effect:", ineffective_lines(done))
    yield from _listed(f"Problems ({len(report.problems)}):", list(map(str, report.problems)))
    if report.not_attempted:
        yield f"Not worked on: {shortened(report.not_attempted)}"
    if report.unsafe_digest:
        yield _withheld(report.unsafe_digest)
    yield ""
    yield f"Run {report.run}: {summary(report)}"


def summary(report: Report) -> str:
    """Return the outcome in one sentence."""
    failed = [node.plan.node for node in report.nodes if node.problems]
    if not report.problems:
        return "all in step."
    if report.stopped is not None:
        return f"stopped before its end: {one_line(report.stopped.what)}. It is safe to run it again."
    nodes = f"{count(len(failed), 'node')} with problems ({shortened(failed)})"
    return f"{nodes}, the others are in step. It is safe to run it again."


def _withheld(digest: str) -> str:
    return (
        f"Withheld as unsafe; to allow exactly these changes: configdb-sync sync --force {digest}"
        f" (or, for the next run, configdb-sync approve {digest})"
    )


def _environment(change: EnvironmentChange, creates: str, adds: str) -> Iterator[str]:
    names = ", ".join(change.data_sources)
    if change.creates_environment:
        yield f"ConfigDB: {creates} environment, component {change.component}, data sources {names}"
    elif change.data_sources:
        yield f"ConfigDB: {adds} data sources {names} (component {change.component})"


def _worth_showing(node: NodePlan, shared: Collection[str]) -> bool:
    return bool(node.changes) or any(note not in shared for note in notes_of(node))


def _is_unchanged(node: NodePlan, shared: Collection[str]) -> bool:
    return not _worth_showing(node, shared) and not node.problems and not node.moves


def _title(node: NodePlan) -> str:
    return one_line(f"node {node.node} ({node.fqdn})" if node.fqdn else f"node {node.node}")


def _change(change: DocumentChange, upload: str, writes: Mapping[Write, str]) -> Iterator[str]:
    if change.uploads:
        if change.first:
            yield f"  {one_line(change.data_source)}: {upload} {count(len(change.upload), 'key')}, the first time"
        else:
            yield f"  {one_line(change.data_source)}: {upload} {count(len(change.upload), 'change')}"
            yield from _changes(change.upload)
    if change.ordered:
        yield f"  {change.data_source}: standing override for all nodes"
        yield from _changes(change.ordered)
    if change.write is not Write.NONE:
        yield f"  {one_line(change.path)}: {writes[change.write]}"
        yield from _changes(change.written)


def _changes(changes: Sequence[LeafChange]) -> Iterator[str]:
    for change in changes[:SHOWN_CHANGES]:
        yield f"    {change_text(change)}"
    if len(changes) > SHOWN_CHANGES:
        yield f"    ... and {len(changes) - SHOWN_CHANGES} more"


def _notes(node: NodePlan, shared: Collection[str]) -> Iterator[str]:
    for note in notes_of(node):
        if note not in shared:
            yield f"  note: {one_line(note)}"


def group_lines(groups: Iterable[ChangeGroup]) -> Iterator[str]:
    """Yield the lines of what is to happen, by document and action, each with its nodes."""
    for group in groups:
        yield ""
        yield f"{one_line(group.name)}: {group.action} ({nodes_text(group.nodes)})"
        changes = group.most_frequent
        for text, names in changes[:SHOWN_CHANGES]:
            yield f"    {text}{f' ({nodes_text(names)})' if names else ''}"
        if len(changes) > SHOWN_CHANGES:
            yield f"    ... and {len(changes) - SHOWN_CHANGES} more"


def _unchanged(nodes: Sequence[NodePlan]) -> Iterator[str]:
    if nodes:
        yield ""
        yield f"Nothing to do on {count(len(nodes), 'node')}: {shortened([node.node for node in nodes])}"


def _listed(title: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield ""
        yield title
        for line in lines[:SHOWN_PROBLEMS]:
            yield f"  {one_line(line)}"
        if len(lines) > SHOWN_PROBLEMS:
            yield f"  ... and {len(lines) - SHOWN_PROBLEMS} more; --report FILE has them all"


def leftover_lines(found: Leftovers, *, removes: bool, overrides: bool) -> Iterator[str]:
    """Yield the lines of what was found: overrides before all else, then each node."""
    if found.whole:
        yield f"Nailgun has no environment {found.environment}. The environment itself stays, and what is no node's."
    yield from (f"note: {note}" for note in found.notes)
    if not found.nodes:
        yield f"Nothing is left of nodes that environment {found.environment} doesn't have."
        return
    number = len(found.nodes)
    yield f"Environment {found.environment}: {count(number, 'node')} {'is' if number == 1 else 'are'} no more"
    yield from _overrides(found, removes=removes and overrides)
    for node in found.nodes:
        yield ""
        yield f"node {node.identity} ({node.fqdn})" if node.fqdn else f"node {node.identity}"
        for document in node.documents:
            yield f"  {document.data_source}: {_contents(document)}"
        if node.seen_at:
            yield f"  note: also known from {', '.join(node.seen_at)}; the records from there stay"
    if not removes:
        yield ""
        yield "Nothing was removed. --remove removes values and records; --remove-overrides also removes what is under"
        yield "an override. A node that comes back afterwards counts as new."


def _overrides(found: Leftovers, *, removes: bool) -> Iterator[str]:
    listed = [(node, one) for node in found.nodes for one in node.documents if one.overrides]
    if listed:
        yield ""
        yield "Overrides on these nodes:" if removes else "Overrides on these nodes (kept without --remove-overrides):"
        for node, one in listed:
            yield f"  node {node.identity}, {one.data_source}: {_some(one.overrides)}{_set_by(one)}"


def _set_by(document: LeftDocument) -> str:
    if document.set_by is None:
        return ""
    by = document.set_by
    said = f", {_plain(by.comment)!r}" if by.comment else ""
    return f" (last set by {_plain(by.author or 'someone')} at {_plain(by.time or 'an unknown time')}{said})"


def _plain(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text)[:80]


def _contents(document: LeftDocument) -> str:
    parts = []
    if document.values:
        parts.append(f"values of {count(len(document.values), 'key')}")
    if document.overrides:
        parts.append(f"overrides of {count(len(document.overrides), 'key')}")
    if document.places or document.kept_digest:
        parts.append("our record" if not document.hidden else "our record of an override in the node's file")
    return ", ".join(parts)


def _some(keys: Sequence[str]) -> str:
    shown = [_plain(key) for key in keys[:_SHOWN_KEYS]]
    return ", ".join(shown) + (f" and {len(keys) - _SHOWN_KEYS} more" if len(keys) > _SHOWN_KEYS else "")


def removal_lines(
    found: Leftovers, gone: Mapping[str, Sequence[str]], problems: Sequence[ProductError], *, overrides: bool
) -> Iterator[str]:
    """Yield the lines of what was done."""
    yield ""
    yield f"Removed {count(sum(map(len, gone.values())), 'document')} of {count(len(gone), 'node')}."
    kept = [f"node {node.identity}, {one.data_source}" for node, one in found.kept(overrides=overrides)]
    if kept:
        yield f"Kept, since an override is on them: {'; '.join(kept)}"
    if problems:
        yield f"Problems ({len(problems)}):"
        yield from (f"  {problem}" for problem in problems)


def runs_lines(runs: Sequence[PastRun], environment: int | None) -> Iterator[str]:
    """Yield a line for each run, newest first: of an environment, or of all if it is None."""
    if not runs:
        yield (
            "No run is remembered yet."
            if environment is None
            else f"No run of environment {environment} is remembered."
        )
    for run in runs:
        yield (
            f"{run.identity[:12]}  {_time(run)}  env {run.environment}  {_kind(run):<9}  {run.outcome:<11}"
            f"  {_counts(run)}  {one_line(run.author, 40)}"
        )


def run_lines(run: PastRun, nodes: Sequence[RunNode], report: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield the lines about one run: who and where, then its report, else the nodes that it was done with."""
    yield f"Run {run.identity}: {run.outcome}"
    yield (
        f"  {_kind(run)} of environment {run.environment}, {one_line(run.place)}, begun {_time(run)} by"
        f" {one_line(run.author)} on {one_line(run.host)} (process {run.pid})"
    )
    if run.digest:
        yield f"  plan digest {run.digest}"
    yield ""
    if report is not None:
        yield from report["text"]
        return
    yield f"It left no report. Done with {count(len(nodes), 'node')}:"
    for node in nodes:
        yield f"  node {one_line(node.node)}: {node.outcome}, {node.uploads} uploaded, {node.writes} written"


def _time(run: PastRun) -> str:
    return run.started.strftime("%Y-%m-%d %H:%M:%S")


def _kind(run: PastRun) -> str:
    return run.kind if run.stage is None else f"{run.kind} {run.stage}"


def _counts(run: PastRun) -> str:
    if run.nodes is None or run.finished is None:
        return "ended early" if run.finished else "no report"
    seconds = (run.finished - run.started).total_seconds()
    problems = f", {count(run.problems, 'problem')}" if run.problems else ""
    return f"{count(run.nodes, 'node')}, {run.uploads} uploaded, {run.writes} written{problems}, {seconds:.1f} s"
