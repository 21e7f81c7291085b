"""What is the matter with an environment, from its plan, its runs and the errors of its peers (U29). Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from configdb_sync.configdb.edits import shown_key
from configdb_sync.configdb.model import OverrideNote
from configdb_sync.errors import BusError, ConfigDBError, NailgunError, ProductError, UnsafeError
from configdb_sync.exits import Exit, exit_of
from configdb_sync.names import levels_of, natural_key, one_line, place_of
from configdb_sync.store.findings import Finding, FindingKind
from configdb_sync.store.runs import AT_WORK, PastRun
from configdb_sync.sync.ineffective_overrides import IneffectiveReason
from configdb_sync.sync.plan import DocumentChange, NodePlan, Plan
from configdb_sync.sync.render.wording import change_text

FAILURES = frozenset({FindingKind.CONFIGDB_AWAY, FindingKind.NODES_AWAY, FindingKind.NOT_WATCHED})
"""Why there was no plan."""
APPLIED = frozenset({FindingKind.DRIFT, FindingKind.OVERRIDE_ENDED})
"""What a run settles that is carried out then (``--apply``)."""
_OF_RUNS = frozenset({FindingKind.RUN_FAILED, FindingKind.RUN_MISSING})
_REASONS = {
    IneffectiveReason.HIDDEN: "a deeper level has the key",
    IneffectiveReason.EQUAL: "the value below it is the same",
}
_NAMED = 5
_MOST_LINES = 20
_LONGEST_LINE = 200
_LONGEST = 500


def of_plan(plan: Plan, depth: int = 1, listed: Iterable[OverrideNote] = ()) -> list[Finding]:
    """Return what the plan says. ``depth``: how many levels there are; ``listed``: the server's list of overrides, if
    it has one."""
    return [*_drift(plan), *_problems(plan), *_ended(plan), *_without_effect(plan, depth, listed)]


def of_runs(
    environment: int,
    newest: PastRun | None,
    last_done: Mapping[str, datetime | None],
    now: datetime,
    longest: timedelta,
) -> list[Finding]:
    """Return what the runs say: the newest one, and when each node that there is was last done (``last_done``).

    ``longest``: the time without a run after which that is a finding.
    """
    if newest is None:
        return [Finding(environment, FindingKind.RUN_MISSING, "no run was made yet")]
    found = []
    if newest.outcome not in {Exit.OK.name, AT_WORK}:
        text = f"the last run {newest.identity} of {_day(newest.started)} ended with {newest.outcome}"
        found.append(Finding(environment, FindingKind.RUN_FAILED, text))
    if newest.started < now - longest:
        text = f"the last run was on {_day(newest.started)}"
        return [*found, Finding(environment, FindingKind.RUN_MISSING, text)]
    for node, done in sorted(last_done.items(), key=lambda item: natural_key(item[0])):
        if done is None or done < now - longest:
            text = "no run has done it yet" if done is None else f"the last run that did it was on {_day(done)}"
            found.append(Finding(environment, FindingKind.NODE_WITHOUT_RUN, text, node=node))
    return found


def of_error(environment: int, error: ProductError) -> Finding:
    """Return the finding that there could be no plan."""
    kind = FindingKind.NOT_WATCHED
    if isinstance(error, ConfigDBError):
        kind = FindingKind.CONFIGDB_AWAY
    elif isinstance(error, (BusError, NailgunError)):
        kind = FindingKind.NODES_AWAY
    return Finding(environment, kind, one_line(str(error), _LONGEST))


def settles(plan: Plan | None) -> Callable[[Finding], bool]:
    """Return what tells whether a finding that a round no longer found is settled: not if it couldn't look.

    ``plan``: None if there could be none.
    """
    blind = set() if plan is None else {node.node for node in plan.nodes if unread(node)}
    partly = set() if plan is None else {(node.node, one.data_source) for node in plan.nodes for one in node.problems}

    def settled(finding: Finding) -> bool:
        if finding.kind in FAILURES or finding.kind in _OF_RUNS:
            return True
        if plan is None:
            return False
        if finding.kind in {FindingKind.DRIFT, FindingKind.WITHHELD}:
            return finding.node not in blind and (finding.node, finding.data_source) not in partly
        # An override has its effect on nodes, and one that couldn't be read says nothing.
        return finding.kind is not FindingKind.OVERRIDE_WITHOUT_EFFECT or not blind

    return settled


def exit_of_findings(found: Iterable[Finding], failure: ProductError | None = None) -> Exit:
    """Return the exit code: why there is no plan, else as ``plan --exit-code`` has it."""
    kinds = {one.kind for one in found}
    if failure is not None:
        return exit_of(failure)
    if FindingKind.NODE_FAILED in kinds:
        return Exit.PARTIAL
    if FindingKind.WITHHELD in kinds:
        return Exit.UNSAFE
    return Exit.DRIFT if kinds else Exit.OK


def _drift(plan: Plan) -> Iterator[Finding]:
    environment = plan.environment
    if plan.change:
        lacks = plan.change.data_sources
        text = f"ConfigDB lacks {named(lacks)}" if lacks else "ConfigDB does not have the environment"
        yield Finding(environment, FindingKind.DRIFT, text, count=max(1, len(lacks)))
    for node in plan.nodes:
        moves: dict[str, list[str]] = defaultdict(list)
        for move in node.moves:
            moves[move.data_source].append(move.place)
        for change in node.changes:
            text, count = _changed(change)
            moved = moves.pop(change.data_source, None)
            text += f"; overrides are to be moved to it from {change.data_source}" if moved else ""
            lines = tuple(_lines(change))
            yield Finding(
                environment, FindingKind.DRIFT, text, node.node, change.data_source, count=count, changes=lines
            )
        for name, places in moves.items():
            text = "overrides are to be moved to it"
            yield Finding(environment, FindingKind.DRIFT, text, node.node, name, count=len(places))


def _changed(change: DocumentChange) -> tuple[str, int]:
    """Return how a document differs, and in how many keys."""
    on_node = {leaf.path for leaf in change.upload}
    written = {leaf.path for leaf in change.written}
    count = max(1, len(on_node | written))
    if change.first:
        return "ConfigDB holds nothing of it yet", count
    texts = []
    if on_node:
        texts.append(f"changed on the node: {named(map(shown_key, sorted(on_node)))}")
    if written - on_node:
        texts.append(f"to be written to the node: {named(map(shown_key, sorted(written - on_node)))}")
    return "; ".join(texts) or "the file is to be written anew", count


def _lines(change: DocumentChange) -> Iterator[str]:
    if change.first:
        return
    leaves = [("on the node", leaf) for leaf in change.upload] + [("to be written", leaf) for leaf in change.written]
    for where, leaf in leaves[:_MOST_LINES]:
        yield f"{where}: {one_line(change_text(leaf), _LONGEST_LINE)}"
    if len(leaves) > _MOST_LINES:
        yield f"and {len(leaves) - _MOST_LINES} more"


def _problems(plan: Plan) -> Iterator[Finding]:
    for node in plan.nodes:
        for one in node.unsafe:
            text = f"{one.reason}: withheld until someone approves it"
            lost = max(1, len(one.lost))
            yield Finding(plan.environment, FindingKind.WITHHELD, text, node.node, one.data_source, count=lost)
        problems = [one for one in node.problems if not isinstance(one, UnsafeError)]
        if problems:
            more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
            text = one_line(str(problems[0]), _LONGEST) + more
            yield Finding(plan.environment, FindingKind.NODE_FAILED, text, node.node, count=len(problems))


def _ended(plan: Plan) -> Iterator[Finding]:
    for one in plan.expired:
        text = f"the override ended on {one.until[:16].replace('T', ' ')} UTC; the next run removes it"
        yield Finding(
            plan.environment,
            FindingKind.OVERRIDE_ENDED,
            text,
            data_source=one.data_source,
            level=_innermost(one.level),
            key=shown_key(one.key),
        )


def _without_effect(plan: Plan, depth: int, listed: Iterable[OverrideNote]) -> Iterator[Finding]:
    found: dict[tuple[str, str, str], str] = {}
    for note in listed:
        for one in note.keys:
            if one.effect == "none":
                hidden = IneffectiveReason.HIDDEN if one.reason == "hidden" else IneffectiveReason.EQUAL
                found[note.data_source, _innermost(note.place), one.key] = _REASONS[hidden]
    seen: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    reasons: dict[tuple[str, str, str], str] = {}
    for node in plan.nodes:
        for idle in node.ineffective:
            place = idle.data_source, _innermost(idle.level), idle.key
            seen[place].add(node.node)
            reasons[place] = f"Puppet reads the key from {idle.by}" if idle.by else _REASONS[idle.why]
            if len(levels_of(idle.level)) == depth:
                found.setdefault(place, reasons[place])
    for place, nodes in seen.items():
        # Of a level between the root and the nodes' own it isn't known here which nodes read it.
        if place[1] == "/" and len(nodes) == len(plan.nodes):
            found.setdefault(place, reasons[place])
    for (data_source, level, key), why in sorted(found.items()):
        text = f"the override has no effect: {why}"
        kind = FindingKind.OVERRIDE_WITHOUT_EFFECT
        yield Finding(plan.environment, kind, text, data_source=data_source, level=level, key=shown_key((key,)))
    for orphan in plan.orphans:
        text = f"overrides of a node that is gone: {named(orphan.data_sources)}"
        yield Finding(
            plan.environment,
            FindingKind.OVERRIDE_WITHOUT_EFFECT,
            text,
            level=f"/{orphan.level}/{orphan.node}/",
            count=len(orphan.data_sources),
        )


def _innermost(level: str) -> str:
    """Return a place by its innermost level alone: a document is that level's."""
    return place_of(levels_of(level)[-1:])


def unread(node: NodePlan) -> bool:
    """Tell whether a node as a whole couldn't be looked at."""
    return any(one.data_source is None for one in node.problems)


def named(names: Iterable[str]) -> str:
    """Return the first few names, and how many more there are."""
    listed = [one_line(name, 60) for name in names]
    more = f" and {len(listed) - _NAMED} more" if len(listed) > _NAMED else ""
    return f"{', '.join(listed[:_NAMED])}{more}"


def _day(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
