"""Plans and reports as Markdown for a ticket: whatever comes from outside stands in code spans (U20).

A code span is the one place where Markdown (CommonMark, GitHub's) gives no character a meaning: no HTML, link, mention
or heading can be made by a key, a value or a file's name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from configdb_sync.errors import ProductError
from configdb_sync.names import one_line
from configdb_sync.sync.decide import Write
from configdb_sync.sync.diff import LeafChange
from configdb_sync.sync.ineffective_overrides import orphan_lines
from configdb_sync.sync.plan import DocumentChange, EnvironmentChange, NodePlan, Plan
from configdb_sync.sync.render.summary import TO_WRITE, change_groups
from configdb_sync.sync.render.text import summary
from configdb_sync.sync.render.wording import (
    change_text,
    count,
    expired_lines,
    ineffective_lines,
    notes_of,
    on_nodes,
    shared_notes,
    shortened,
    takeover_lines,
)
from configdb_sync.sync.report import Report

SHOWN_NODES = 50
SHOWN_CHANGES = 20
SHOWN_PROBLEMS = 100
_LONGEST = 300


def code(text: str) -> str:
    """Return text as a code span that holds exactly it, on one line."""
    shown = one_line(text, _LONGEST) or " "
    longest = max(map(len, re.findall("`+", shown)), default=0)
    fence = "`" * (longest + 1)
    padding = " " if shown.strip(" ") and (shown[0] in "` " or shown[-1] in "` ") else ""
    return f"{fence}{padding}{shown}{padding}{fence}"


def plan_markdown(plan: Plan, *, brief: bool = False) -> Iterator[str]:
    """Yield the lines of a plan; ``brief``: the same change or note of many nodes once, else by node."""
    yield f"## Plan for environment {plan.environment}"
    yield ""
    yield (
        f"{count(len(plan.nodes), 'node')}, {count(plan.uploads, 'document')} to upload,"
        f" {count(plan.writes, 'file')} to write. Digest {code(plan.digest)}"
    )
    yield from _environment(plan.change)
    yield from _listed("Overrides to be removed, since their end has come", expired_lines(plan.expired))
    yield from _groups(plan.nodes) if brief else _nodes(plan.nodes)
    yield from _listed("Notes", on_nodes(shared_notes(plan.nodes, 1 if brief else 2)))
    yield from _listed("Overrides left", orphan_lines(plan.orphans, plan.environment))
    yield from _rest(plan.nodes, plan.problems, plan.unsafe_digest)


def report_markdown(report: Report) -> Iterator[str]:
    """Yield the lines of a run's report."""
    yield f"## Run {code(report.run)} on environment {report.environment}"
    yield ""
    yield (
        f"{count(len(report.nodes), 'node')}, {count(report.uploads, 'document')} uploaded,"
        f" {count(report.writes, 'file')} written in {report.seconds:.1f} s; begun"
        f" {report.started.isoformat(' ', 'seconds')}. Outcome {code(report.exit.name)}: {code(summary(report))}"
    )
    yield from _environment(report.change)
    yield from _listed("Overrides removed, since their end has come", expired_lines(report.expired))
    done = [
        replace(node.plan, changes=tuple(filter(_is_shown, node.done_changes)), moves=node.moved)
        for node in report.nodes
    ]
    yield from _nodes(done)
    yield from _listed("Notes", on_nodes(shared_notes(done)))
    if report.not_attempted:
        yield ""
        yield f"Not worked on: {', '.join(map(code, report.not_attempted))}"
    yield from _rest(done, report.problems, report.unsafe_digest)


def _is_shown(change: DocumentChange) -> bool:
    return change.uploads or change.write is not Write.NONE


def _environment(change: EnvironmentChange) -> Iterator[str]:
    if change:
        what = "Makes the environment" if change.creates_environment else "Adds"
        names = ", ".join(map(code, change.data_sources))
        yield ""
        yield f"{what} in ConfigDB: data sources {names} in component {code(change.component)}"


def _nodes(nodes: Sequence[NodePlan]) -> Iterator[str]:
    shared = shared_notes(nodes)
    notes = {node.node: [note for note in notes_of(node) if note not in shared] for node in nodes}
    changed = [node for node in nodes if node.changes or notes[node.node]]
    for node in changed[:SHOWN_NODES]:
        yield ""
        yield f"### Node {code(node.node)}{f' ({code(node.fqdn)})' if node.fqdn else ''}"
        yield ""
        for change in node.changes:
            yield from _change(change)
        for note in notes[node.node]:
            yield f"- note: {code(note)}"
    if len(changed) > SHOWN_NODES:
        yield ""
        yield f"... and {count(len(changed) - SHOWN_NODES, 'more node')}."


def _groups(nodes: Sequence[NodePlan]) -> Iterator[str]:
    for group in change_groups(nodes):
        yield ""
        yield f"### {code(group.name)}: {group.action}"
        yield ""
        yield f"Nodes {code(shortened(group.nodes))}"
        yield ""
        changes = group.most_frequent
        for text, names in changes[:SHOWN_CHANGES]:
            yield f"- {code(text)}{f', nodes {code(shortened(names))}' if names else ''}"
        if len(changes) > SHOWN_CHANGES:
            yield f"- ... and {len(changes) - SHOWN_CHANGES} more"


def _change(change: DocumentChange) -> Iterator[str]:
    if change.uploads:
        keys = count(len(change.upload), "key" if change.first else "change")
        yield f"- {code(change.data_source)}: upload {keys}{', the first time' if change.first else ''}"
        if not change.first:
            yield from _changes(change.upload)
    if change.write is not Write.NONE:
        yield f"- {code(change.path)}: {TO_WRITE[change.write]}"
        yield from _changes(change.written)


def _changes(changes: Sequence[LeafChange]) -> Iterator[str]:
    for change in changes[:SHOWN_CHANGES]:
        yield f"  - {code(change_text(change))}"
    if len(changes) > SHOWN_CHANGES:
        yield f"  - ... and {len(changes) - SHOWN_CHANGES} more"


def _rest(nodes: Sequence[NodePlan], problems: Sequence[ProductError], unsafe_digest: str | None) -> Iterator[str]:
    yield from _listed("Overrides moved out of folders' documents", takeover_lines(nodes))
    yield from _listed("Overrides without effect", ineffective_lines(nodes))
    yield from _listed("Problems", [str(problem) for problem in problems])
    if unsafe_digest:
        yield ""
        yield f"Withheld as unsafe; {code(f'configdb-sync approve {unsafe_digest}')} allows exactly these changes."


def _listed(title: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield ""
        yield f"### {title} ({len(lines)})"
        yield ""
        for line in lines[:SHOWN_PROBLEMS]:
            yield f"- {code(line)}"
        if len(lines) > SHOWN_PROBLEMS:
            yield f"- ... and {len(lines) - SHOWN_PROBLEMS} more"
