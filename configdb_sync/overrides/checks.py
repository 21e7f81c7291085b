"""Whether an override does what its author means: what Puppet reads, what hides it, what is misspelt (U25).

Pure: what the nodes read comes in as layers, in the order of their hierarchy.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from configdb_sync.configdb import edits
from configdb_sync.configdb.edits import KeyPath, shown_key
from configdb_sync.errors import SettingsError
from configdb_sync.hiera.lookup import Layer
from configdb_sync.jsonvalues import Document, Json
from configdb_sync.names import did_you_mean

_MATCHES = 5
_NODES = 8


class Hidden(Enum):
    """How a data source above keeps a key of another from Puppet."""

    WHOLLY = "wholly"
    """It has the key itself, or something that is no mapping on the way to it."""
    UNLESS_MERGED = "unless merged"
    """It has the top-level key, without this one in it: a lookup that merges mappings still reads the key below."""


@dataclass(frozen=True)
class Hiding:
    """A data source that hides another one's key on some nodes."""

    data_source: str
    how: Hidden
    nodes: tuple[str, ...]


def source_of(nodes: Mapping[str, Sequence[Layer]], path: KeyPath) -> str | None:
    """Return the data source from which Puppet reads a key on these nodes; None if none has it.

    ``nodes``: the layers of each node, by data source's name, in the order of its hierarchy. Raises ``SettingsError``
    if the nodes read it from different ones.
    """
    found: dict[str, list[str]] = {}
    for node, layers in nodes.items():
        first = next((layer.name for layer in layers if edits.has(layer.document, path)), None)
        if first is not None:
            found.setdefault(first, []).append(node)
    if len(found) > 1:
        where = "; ".join(f"{name} on {_listed(there)}" for name, there in found.items())
        raise SettingsError(
            f"the nodes read {shown_key(path)} from different data sources: {where}",
            way_out="name one with --data-source, or each node with --level",
        )
    return next(iter(found), None)


def hidings(nodes: Mapping[str, Sequence[Layer]], data_source: str, path: KeyPath) -> tuple[Hiding, ...]:
    """Return what hides a key of a data source on these nodes, the data source that Puppet reads first coming first."""
    found: dict[tuple[str, Hidden], list[str]] = {}
    for node, layers in nodes.items():
        for layer in layers:
            if layer.name == data_source:
                break
            how = _hides(layer.document, path)
            if how is not None:
                found.setdefault((layer.name, how), []).append(node)
                break
    return tuple(Hiding(name, how, tuple(there)) for (name, how), there in found.items())


def _hides(document: Mapping[str, Json], path: KeyPath) -> Hidden | None:
    if path[0] not in document:
        return None
    here: Json = document
    for part in path:
        if not isinstance(here, Mapping):
            return Hidden.WHOLLY
        if part not in here:
            return Hidden.UNLESS_MERGED
        here = here[part]
    return Hidden.WHOLLY


def overridden_leaves(beneath: Document, overrides: Document, key: str) -> list[KeyPath]:
    """Return what the override of a top-level key changes in what is beneath it: the whole key if that is nothing."""
    value = overrides[key]
    covered = beneath.get(key, {} if isinstance(value, dict) else None)
    return edits.changed_leaves(covered, value, (key,)) or [(key,)]


def hidden_by(layers: Sequence[Layer], data_source: str, paths: Sequence[KeyPath]) -> str | None:
    """Return the data source for which Puppet on a node reads none of these keys of another one.

    None if it reads one of them, at least in a lookup that merges mappings, or if ``data_source`` is no layer.
    """
    if all(layer.name != data_source for layer in layers):
        return None
    found = [hidings({"": layers}, data_source, path) for path in paths]
    wholly = [one[0].data_source for one in found if one and one[0].how is Hidden.WHOLLY]
    return wholly[0] if wholly and len(wholly) == len(found) else None


def covered(nodes: Mapping[str, Sequence[Layer]], data_source: str, path: KeyPath) -> list[Json]:
    """Return the values that nodes have for a key of a data source."""
    documents = _documents(nodes, data_source)
    return [edits.get(document, path) for document in documents if edits.has(document, path)]


def _documents(nodes: Mapping[str, Sequence[Layer]], data_source: str) -> list[Document]:
    return [layer.document for layers in nodes.values() for layer in layers if layer.name == data_source]


def check_key(nodes: Mapping[str, Sequence[Layer]], data_source: str, path: KeyPath) -> None:
    """Raise ``SettingsError`` with close matches if no node has the key in this data source."""
    documents = _documents(nodes, data_source)
    if any(edits.has(document, path) for document in documents):
        return
    elsewhere = {layer.name for layers in nodes.values() for layer in layers if edits.has(layer.document, path)} - {
        data_source
    }
    close = close_keys(documents, path)
    hints = [f"did you mean {' or '.join(close)}?"] if close else []
    if elsewhere:
        hints.append(f"{' and '.join(sorted(elsewhere))} has it (--data-source)")
    raise SettingsError(
        f"no node of that level has the key {shown_key(path)} in {data_source}",
        way_out="; ".join([*hints, "--new-key adds it"]),
    )


def close_keys(documents: Sequence[Mapping[str, Json]], parts: Sequence[str]) -> list[str]:
    """Return keys that look like one: misspelt in one part, or the same key elsewhere; at most five."""
    path = tuple(parts)
    beside: dict[KeyPath, float] = {}
    last = path[-1]
    for document in documents:
        for depth in range(len(path)):
            if depth and not edits.has(document, path[:depth]):
                break
            here = edits.get(document, path[:depth]) if depth else document
            names = [str(name) for name in here] if isinstance(here, Mapping) else []
            for name in difflib.get_close_matches(path[depth], names, _MATCHES, 0.7):
                candidate = (*path[:depth], name, *path[depth + 1 :])
                if edits.has(document, candidate):
                    beside[candidate] = difflib.SequenceMatcher(None, path[depth], name).ratio()
        for top, block in document.items():
            if isinstance(block, dict) and last in block and (top, last) != path:
                beside.setdefault((top, last), 0.5)
    ranked = sorted(beside, key=lambda candidate: (-beside[candidate], candidate))
    return [shown_key(candidate) for candidate in ranked[:_MATCHES]]


def check_type(covered: Sequence[Json], value: Json, path: KeyPath) -> None:
    """Raise ``SettingsError`` if a value is of another type than all those that nodes have there.

    Null covers and is covered by any type, an integer stands for a decimal number. Where one node has the type, the
    others are exceptions.
    """
    if not covered or any(_alike(one, value) for one in covered):
        return
    raise SettingsError(
        f"{shown_key(path)} is a value of type {type_name(covered[0])}, the new value is of type {type_name(value)}",
        way_out="give --type, or --change-type to change the type",
    )


def _alike(one: Json, other: Json) -> bool:
    kinds = {type_name(one), type_name(other)}
    return len(kinds) == 1 or "null" in kinds or kinds == {"integer", "decimal number"}


def type_name(value: Json) -> str:
    """Return the name of a value's type, as messages have it."""
    if isinstance(value, bool):
        return "boolean"
    names = {dict: "mapping", list: "list", str: "text", int: "integer", float: "decimal number", type(None): "null"}
    return names.get(type(value), type(value).__name__)


def check_nodes(named: Sequence[str], known: Sequence[str], *, may_be_new: bool = True) -> None:
    """Raise ``SettingsError`` with close matches for a node that is not among the known ones.

    ``may_be_new``: the command has an option ``--new-node``, which the error names.
    """
    for name in named:
        if name not in known:
            hint = did_you_mean(name, known).strip() or f"known are {_listed(sorted(known)) or 'none'}"
            way_out = f"{hint}; --new-node lets it through" if may_be_new else hint
            raise SettingsError(f"there is no node {name!r}", way_out=way_out)


def _listed(nodes: Sequence[str]) -> str:
    more = f", ... ({len(nodes)})" if len(nodes) > _NODES else ""
    return ", ".join(nodes[:_NODES]) + more
