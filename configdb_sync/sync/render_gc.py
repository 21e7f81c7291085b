"""What is left of nodes that are no more, as text and as JSON: keys, never values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from configdb_sync.errors import ProductError
from configdb_sync.sync.gc import GoneNode, LeftDocument, Leftovers
from configdb_sync.sync.render_json import problem_json
from configdb_sync.sync.wording import count

_SHOWN = 12


def leftover_lines(found: Leftovers, *, removes: bool, overrides: bool) -> Iterator[str]:
    """Yield the lines of what was found: overrides before all else, then each node."""
    if found.whole:
        yield f"Nailgun has no environment {found.environment}. The environment itself, and what isn't a node's, stays."
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
            yield f"  note: also known from {', '.join(node.seen_at)}; what is remembered of it there stays"
    if not removes:
        yield ""
        yield "Nothing was removed. --remove takes values and records away; with --remove-overrides what is under an"
        yield "override too. A node that comes back afterwards counts as new."


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
    shown = [_plain(key) for key in keys[:_SHOWN]]
    return ", ".join(shown) + (f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else "")


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


def leftover_json(
    found: Leftovers, gone: Mapping[str, Sequence[str]] | None, problems: Sequence[ProductError]
) -> dict[str, Any]:
    """Return what was found and done; ``removed`` is null where nothing was to be."""
    return {
        "environment": found.environment,
        "environment_gone": found.whole,
        "notes": list(found.notes),
        "nodes": [_node(node) for node in found.nodes],
        "removed": None if gone is None else {node: list(names) for node, names in gone.items()},
        "problems": [problem_json(problem) for problem in problems],
    }


def _node(node: GoneNode) -> dict[str, Any]:
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
