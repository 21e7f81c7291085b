"""Small pieces of text that every rendering uses. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from configdb_sync.configdb.edits import shown_key
from configdb_sync.names import one_line
from configdb_sync.overrides.notes import time_text
from configdb_sync.sync.diff import LeafChange
from configdb_sync.sync.expiry import EndedOverride
from configdb_sync.sync.folder_documents import OverrideMove
from configdb_sync.sync.ineffective_overrides import IneffectiveOverride, IneffectiveReason
from configdb_sync.sync.plan import NodePlan

_LONGEST_NOTE = 200


def count(number: int, noun: str) -> str:
    """Return ``1 node``, ``2 nodes``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def shortened(names: Iterable[str]) -> str:
    """Return names in a row, the first ten of them where they are more."""
    listed = list(names)
    return ", ".join(listed) if len(listed) <= 10 else f"{', '.join(listed[:10])}, ... ({len(listed)})"


def key_text(path: Sequence[str]) -> str:
    """Return the name of a key, as ``--key`` takes it, on one line: ``nova.debug``, or a JSON list of its parts."""
    return one_line(shown_key(path))


def change_text(change: LeafChange) -> str:
    """Return one change in one line: ``~ nova.debug: false -> true``, and who overrides it, until when and why."""
    sides = " -> ".join(side for side in (change.before, change.after) if side is not None)
    about = "" if change.note is None else f" (override by {one_line(change.note.about, _LONGEST_NOTE)})"
    return f"{change.sign} {key_text(change.path)}: {sides}{about}"


def notes_of(node: NodePlan) -> list[str]:
    """Return all that is noted of a node."""
    left = [f"not a data source, left alone: {', '.join(node.undeclared)}"] if node.undeclared else []
    return [*node.notes, *left]


def shared_notes(nodes: Iterable[NodePlan], least: int = 2) -> dict[str, list[str]]:
    """Return the notes that at least this many nodes have, with the nodes."""
    where: dict[str, list[str]] = defaultdict(list)
    for node in nodes:
        for note in dict.fromkeys(notes_of(node)):
            where[note].append(node.node)
    return {note: names for note, names in where.items() if len(names) >= least}


def nodes_text(names: Sequence[str]) -> str:
    """Return ``node 7``, or ``nodes 1, 2, ... (12)``."""
    return f"node{'' if len(names) == 1 else 's'} {shortened(names)}"


def on_nodes(lines: Mapping[str, Sequence[str]]) -> list[str]:
    """Return each line with the nodes that it is about."""
    return [f"{text} ({nodes_text(names)})" for text, names in lines.items()]


def takeover_lines(nodes: Iterable[NodePlan]) -> list[str]:
    """Return a line for each override in a folder's document: where it moves to, or why it stays; with the nodes."""
    listed = list(nodes)
    where: dict[str, list[str]] = defaultdict(list)
    moved = {(move.folder, move.stem, move.place) for node in listed for move in node.moves}
    for node in listed:
        for move in node.moves:
            where[_move_text(move)].append(node.node)
        for held in node.held:
            # What one node can't place may be another's.
            if (held.folder, held.stem, held.place) not in moved:
                text = f"{key_text([held.folder, held.stem])} at {held.place} stays, and reaches no node: {held.why}"
                where[text].append(node.node)
    return on_nodes(where)


def _move_text(move: OverrideMove) -> str:
    at = f" at {move.destination}" if move.target != move.source else ""
    text = f"{key_text([move.folder, move.stem])} at {move.place} -> {move.data_source}{at}"
    if move.left_out:
        text += f"; it leaves out {', '.join(map(repr, move.left_out))}, which the file then has again"
    return f"{text}: {', '.join(map(repr, move.content))}"


def expired_lines(expired: Iterable[EndedOverride]) -> list[str]:
    """Return a line for each override whose end has come: which, when, who set it and why."""
    return [
        f"{key_text(one.key)} of {one.data_source} at {one.level}, until {time_text(datetime.fromisoformat(one.until))}"
        f" (set by {one.author}{'' if one.reason is None else f': {one.reason}'})"
        for one in expired
    ]


def ineffective_lines(nodes: Iterable[NodePlan]) -> list[str]:
    """Return a line for each override without effect, with the nodes on which it has none."""
    where: dict[IneffectiveOverride, list[str]] = defaultdict(list)
    for node in nodes:
        for override in node.ineffective:
            where[override].append(node.node)
    return [
        f"{key_text([override.key])} of {override.data_source} at {override.level}: {_why(override)}"
        f" ({nodes_text(names)})"
        for override, names in where.items()
    ]


def _why(override: IneffectiveOverride) -> str:
    return {
        IneffectiveReason.OTHER_DATA_SOURCE: f"Puppet reads it from {override.by}",
        IneffectiveReason.HIDDEN: "a deeper level has the key too and hides it",
        IneffectiveReason.EQUAL: "it equals the value that it covers",
    }[override.why]
