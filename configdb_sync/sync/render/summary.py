"""A plan of many nodes in brief: the same change of many nodes once, with the nodes (U20). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from configdb_sync.sync.decide import Write
from configdb_sync.sync.diff import LeafChange
from configdb_sync.sync.plan import DocumentChange, NodePlan
from configdb_sync.sync.render.wording import change_text

TO_WRITE = {Write.REPLACE: "write", Write.CREATE: "write the new file", Write.REMOVE: "remove"}


@dataclass
class ChangeGroup:
    """What is to happen with one document of ``nodes``: ``name`` is its data source or file, ``action`` what is done.

    ``changes``: the text of each change with its nodes.
    """

    name: str
    action: str
    nodes: list[str] = field(default_factory=list)
    changes: dict[str, list[str]] = field(default_factory=dict)

    def add(self, node: str, changes: Iterable[LeafChange]) -> None:
        """Add a node with its changes."""
        self.nodes.append(node)
        for text in dict.fromkeys(map(change_text, changes)):
            self.changes.setdefault(text, []).append(node)

    @property
    def most_frequent(self) -> list[tuple[str, list[str]]]:
        """The changes, those of the most nodes first; of all of the group's nodes without naming them."""
        ranked = sorted(self.changes.items(), key=lambda change: -len(change[1]))
        return [(text, [] if len(nodes) == len(self.nodes) else nodes) for text, nodes in ranked]


def change_groups(nodes: Iterable[NodePlan]) -> list[ChangeGroup]:
    """Return what is to happen with the nodes, by document and action, in the order in which they come."""
    groups: dict[tuple[str, str], ChangeGroup] = {}
    for node in nodes:
        for document in node.changes:
            for name, action, changes in _actions(document):
                groups.setdefault((name, action), ChangeGroup(name, action)).add(node.node, changes)
    return list(groups.values())


def _actions(document: DocumentChange) -> Iterator[tuple[str, str, Sequence[LeafChange]]]:
    if document.uploads and document.first:
        yield document.data_source, "upload, the first time", ()
    elif document.uploads:
        yield document.data_source, "upload", document.upload
    if document.ordered:
        yield document.data_source, "standing override for all nodes", document.ordered
    if document.write is not Write.NONE:
        yield document.path, TO_WRITE[document.write], document.written
