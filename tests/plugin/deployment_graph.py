"""A small model of how Nailgun resolves the relations of tasks (LCM, Fuel 9.0 and later).

Every node of the environment and ``master`` has the tasks of its roles; stages are on a virtual node, ``None``. A
``requires`` or ``required_for`` is looked for on the task's own node and on the virtual one; a ``cross-depends`` or
``cross-depended-by`` on all nodes of the environment whose role fits (``*`` without a role), not on the master
unless its role is named. What names nothing is dropped without a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

MASTER = "master"
Node = str | None
Place = tuple[str, Node]
RELATIONS = ("requires", "required_for", "cross-depends", "cross-depended-by")


@dataclass(frozen=True)
class Graph:
    """Tasks at nodes, and for each those that come just before it."""

    before: Mapping[Place, frozenset[Place]]
    resolved: Mapping[tuple[str, str, str], frozenset[Place]] = field(repr=False)
    """What each declared relation (task, kind, name) came to; empty for one that was dropped."""

    def at(self, task: str) -> set[Place]:
        """Return where a task is."""
        return {place for place in self.before if place[0] == task}

    def all_before(self, place: Place) -> set[Place]:
        """Return everything that is done before a task begins."""
        found: set[Place] = set()
        left = [place]
        while left:
            for each in self.before[left.pop()] - found:
                found.add(each)
                left.append(each)
        return found

    def cycle(self) -> list[Place]:
        """Return tasks that wait for each other, none if there are none."""
        left = {place: set(others) for place, others in self.before.items()}
        while True:
            free = [place for place, others in left.items() if not others]
            if not free:
                return sorted(left, key=str)
            for place in free:
                del left[place]
            for others in left.values():
                others.difference_update(free)


def build(tasks: Iterable[Mapping[str, Any]], roles: Mapping[str, Iterable[str]]) -> Graph:
    """Return the graph of an environment: ``roles`` by node, without the master."""
    nodes: dict[Node, set[str]] = {**{node: set(each) for node, each in roles.items()}, MASTER: {MASTER}, None: set()}
    listed = list(tasks)
    places = {task["id"]: set(_nodes_of(task, nodes)) for task in listed}
    before: dict[Place, set[Place]] = {(name, node): set() for name, each in places.items() for node in each}
    resolved: dict[tuple[str, str, str], set[Place]] = {}
    for task in listed:
        for kind in RELATIONS:
            for relation in task.get(kind) or ():
                name = relation if isinstance(relation, str) else relation["name"]
                found = resolved.setdefault((task["id"], kind, name), set())
                for node in places[task["id"]]:
                    for other in _others(relation, node, places, nodes):
                        found.add(other)
                        first, then = (other, (task["id"], node))
                        if kind in {"required_for", "cross-depended-by"}:
                            first, then = then, first
                        before[then].add(first)
    return Graph(
        {place: frozenset(others) for place, others in before.items()},
        {relation: frozenset(found) for relation, found in resolved.items()},
    )


def _nodes_of(task: Mapping[str, Any], nodes: Mapping[Node, set[str]]) -> Iterator[Node]:
    if task["type"] == "stage":
        yield None
        return
    wanted = next((task[key] for key in ("role", "roles", "groups", "tags") if task.get(key)), ())
    for node, roles in nodes.items():
        if node is not None and any(_fits(role, node, roles) for role in _as_list(wanted)):
            yield node


def _others(
    relation: Any, node: Node, places: Mapping[str, set[Node]], nodes: Mapping[Node, set[str]]
) -> Iterator[Place]:
    if isinstance(relation, str):
        yield from ((relation, other) for other in {node, None} if other in places.get(relation, ()))
        return
    for other in places.get(relation["name"], ()):
        if other is not None and any(_fits(role, other, nodes[other]) for role in _as_list(relation.get("role", "*"))):
            yield relation["name"], other


def _fits(role: str, node: str, roles: set[str]) -> bool:
    """Tell whether a node has a role: a name, ``*`` or ``/regular expression/``; the last two never mean the master."""
    if role == "*":
        return node != MASTER
    if role.startswith("/"):
        return node != MASTER and any(re.search(role.strip("/"), each) for each in roles)
    return role in roles


def _as_list(value: Any) -> Iterable[str]:
    return [value] if isinstance(value, str) else value
