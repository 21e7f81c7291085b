"""Plans, reports, past runs and what is left of removed nodes, as JSON for programs, uncut (U14, U20)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from configdb_sync.errors import ProductError
from configdb_sync.jsonvalues import OUTPUT_VERSION
from configdb_sync.store.approvals import UnsafeChange
from configdb_sync.store.runs import PastRun
from configdb_sync.sync.diff import change_json
from configdb_sync.sync.folder_documents import OverrideMove
from configdb_sync.sync.gc import GoneNode, Leftovers
from configdb_sync.sync.plan import DocumentChange, EnvironmentChange, NodePlan, Plan
from configdb_sync.sync.report import Report, exit_of_plan


def plan_json(plan: Plan) -> dict[str, Any]:
    """Return a plan as JSON values."""
    return {
        "version": OUTPUT_VERSION,
        "environment": plan.environment,
        "digest": plan.digest,
        "unsafe_digest": plan.unsafe_digest,
        "uploads": plan.uploads,
        "writes": plan.writes,
        "configdb": _environment(plan.change),
        "expired": [asdict(one) for one in plan.expired],
        "nodes": [_node(node) for node in plan.nodes],
        "orphans": [{"node": one.node, "data_sources": list(one.data_sources)} for one in plan.orphans],
        "exit": int(exit_of_plan(plan)),
    }


def report_json(report: Report) -> dict[str, Any]:
    """Return a report as JSON values."""
    nodes = []
    for node in report.nodes:
        shown = _node(node.plan)
        shown["uploaded"], shown["written"] = list(node.uploaded), list(node.written)
        shown["moves"] = [_move(move) for move in node.moved]
        shown["problems"] = [problem_json(problem) for problem in node.problems]
        nodes.append(shown)
    return {
        "version": OUTPUT_VERSION,
        "run": report.run,
        "environment": report.environment,
        "started": report.started.isoformat(timespec="seconds"),
        "stage": report.stage,
        "seconds": round(report.seconds, 3),
        "uploads": report.uploads,
        "writes": report.writes,
        "digest": report.plan_digest,
        "unsafe_digest": report.unsafe_digest,
        "configdb": _environment(report.change),
        "expired": [asdict(one) for one in report.expired],
        "nodes": nodes,
        "stopped": None if report.stopped is None else problem_json(report.stopped),
        "not_attempted": list(report.not_attempted),
        "exit": int(report.exit),
    }


def problem_json(problem: ProductError) -> dict[str, Any]:
    """Return an error's facts; ``kind`` is the name of its class."""
    return {
        "kind": type(problem).__name__.removesuffix("Error"),
        "what": problem.what,
        "way_out": problem.way_out,
        "node": problem.node,
        "data_source": problem.data_source,
        "file": problem.file,
        "phase": problem.phase,
        "request_id": problem.request_id,
    }


def _environment(change: EnvironmentChange) -> dict[str, Any]:
    return {
        "creates_environment": change.creates_environment,
        "component": change.component,
        "adds_data_sources": list(change.data_sources),
    }


def _node(node: NodePlan) -> dict[str, Any]:
    return {
        "node": node.node,
        "fqdn": node.fqdn,
        "documents": [_document(change) for change in node.changes],
        "unchanged": list(node.unchanged),
        "undeclared": list(node.undeclared),
        "notes": list(node.notes),
        "problems": [problem_json(problem) for problem in node.problems],
        "unsafe": [_unsafe(change) for change in node.unsafe],
        "without_effect": [
            {"data_source": one.data_source, "level": one.level, "key": one.key, "why": one.why.value, "by": one.by}
            for one in node.ineffective
        ],
        "moves": [_move(move) for move in node.moves],
        "held": [{"folder": one.folder, "key": one.stem, "level": one.place, "why": one.why} for one in node.held],
    }


def _move(move: OverrideMove) -> dict[str, Any]:
    return {
        "folder": move.folder,
        "key": move.stem,
        "level": move.place,
        "data_source": move.data_source,
        "to_level": move.destination,
        "keys": list(move.content),
        "left_out": list(move.left_out),
    }


def _document(change: DocumentChange) -> dict[str, Any]:
    return {
        "data_source": change.data_source,
        "file": change.path,
        "first": change.first,
        "uploads": change.uploads,
        "upload": [change_json(one) for one in change.upload],
        "write": change.write.value,
        "written": [change_json(one) for one in change.written],
        "ordered": [change_json(one) for one in change.ordered],
    }


def _unsafe(change: UnsafeChange) -> dict[str, Any]:
    return {"data_source": change.data_source, "file": change.path, "removes": list(change.lost), "of": change.of}


def leftover_json(
    found: Leftovers, gone: Mapping[str, Sequence[str]] | None, problems: Sequence[ProductError]
) -> dict[str, Any]:
    """Return what was found and done; ``removed`` is null where nothing was to be."""
    return {
        "environment": found.environment,
        "environment_gone": found.whole,
        "notes": list(found.notes),
        "nodes": [_gone_node(node) for node in found.nodes],
        "removed": None if gone is None else {node: list(names) for node, names in gone.items()},
        "problems": [problem_json(problem) for problem in problems],
    }


def run_json(run: PastRun) -> dict[str, Any]:
    """Return a run as JSON values."""
    facts = {"run": run.identity, **asdict(run)}
    del facts["identity"]
    for name in ("started", "finished"):
        facts[name] = None if facts[name] is None else facts[name].isoformat(timespec="seconds")
    return facts


def _gone_node(node: GoneNode) -> dict[str, Any]:
    return {
        "node": node.identity,
        "fqdn": node.fqdn,
        "known_from": [*node.places, *node.seen_at],
        "documents": [
            {
                "data_source": one.data_source,
                "values": len(one.values),
                "overrides": list(one.overrides),
                "author": one.set_by.author if one.set_by else None,
                "comment": one.set_by.comment if one.set_by else None,
                "time": one.set_by.time if one.set_by else None,
                "record": bool(one.places or one.kept_digest),
                "covered": one.covered,
            }
            for one in node.documents
        ],
    }
