"""A small model of how Nailgun resolves the relations of tasks (LCM, Fuel 9.0 and later).

Every node of the environment and ``master`` has the tasks of its roles; stages are on a virtual node, ``None``. A
``requires`` or ``required_for`` is looked for on the task's own node and on the virtual one; a ``cross-depends`` or
``cross-depended-by`` on all nodes of the environment whose role fits (``*`` without a role), not on the master
unless its role is named. Names and roles between slashes are regular expressions. What names nothing is dropped
without a word.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

MASTER = "master"
Node = str | None
Place = tuple[str, Node]
Task = Mapping[str, Any]
RELATIONS = ("requires", "required_for", "cross-depends", "cross-depended-by")
RELEASES = ("9.0.1", "9.2", "newton", "ocata")
_ROLE_KEYS = ("tags", "role", "roles", "groups")
_FUEL = Path(__file__).with_name("fuel_tasks.yaml")


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
        return _reached(place, self.before)

    def all_after(self, place: Place) -> set[Place]:
        """Return everything that waits for a task."""
        return _reached(place, self._after)

    def beside(self, place: Place) -> set[Place]:
        """Return what may run before, after or at the same time as a task: nothing ties the two."""
        return self.before.keys() - self.all_before(place) - self.all_after(place) - {place}

    @functools.cached_property
    def _after(self) -> Mapping[Place, set[Place]]:
        found: dict[Place, set[Place]] = {place: set() for place in self.before}
        for place, others in self.before.items():
            for other in others:
                found[other].add(place)
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


@functools.cache
def fuel_tasks(release: str) -> tuple[Task, ...]:
    """Return the tasks that Fuel itself has in one of ``RELEASES``."""
    everything = yaml.load(_FUEL.read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return tuple(task for task in everything if release in task.get("in", RELEASES))


def relations(tasks: Iterable[Task]) -> Iterator[tuple[str, str, str]]:
    """Yield each declared relation as task, kind and name."""
    for task in tasks:
        for kind in RELATIONS:
            for relation in task.get(kind) or ():
                yield task["id"], kind, _name(relation)


def names_no_task(tasks: Iterable[Task], known: Iterable[str]) -> list[tuple[str, str, str]]:
    """Return the relations that name no task of a release.

    Nailgun's drawing of a graph takes a name in ``requires`` or ``required_for`` as it stands, without expressions, and
    fails on one that isn't a task's.
    """
    ids = set(known)
    return [
        (task, kind, name)
        for task, kind, name in relations(tasks)
        if not (name in ids if kind in {"requires", "required_for"} else any(_matches(name, one) for one in ids))
    ]


def build(tasks: Iterable[Task], roles: Mapping[str, Iterable[str]]) -> Graph:
    """Return the graph of an environment: ``roles`` by node, without the master."""
    nodes: dict[Node, set[str]] = {**{node: set(each) for node, each in roles.items()}, MASTER: {MASTER}, None: set()}
    groups = [task for task in tasks if task["type"] == "group"]
    listed = [task for task in tasks if task["type"] != "group"]
    places = {task["id"]: set(_nodes_of(task, nodes)) for task in listed}
    for group in groups:
        for name in group.get("tasks") or ():
            places[name].update(_nodes_of(group, nodes))
    before: dict[Place, set[Place]] = {(name, node): set() for name, each in places.items() for node in each}
    resolved: dict[tuple[str, str, str], set[Place]] = {}
    for task in listed:
        for kind in RELATIONS:
            for relation in task.get(kind) or ():
                found = resolved.setdefault((task["id"], kind, _name(relation)), set())
                for node in places[task["id"]]:
                    for other in _others(relation, node, places, nodes):
                        found.add(other)
                        first, then = (other, (task["id"], node))
                        if kind in {"required_for", "cross-depended-by"}:
                            first, then = then, first
                        # Fuel 9 has an expression that means its own task too; Astute knows better than to wait.
                        before[then] |= {first} - {then}
    return Graph(
        {place: frozenset(others) for place, others in before.items()},
        {relation: frozenset(found) for relation, found in resolved.items()},
    )


def _reached(place: Place, steps: Mapping[Place, Iterable[Place]]) -> set[Place]:
    found: set[Place] = set()
    left = [place]
    while left:
        for each in set(steps[left.pop()]) - found:
            found.add(each)
            left.append(each)
    return found


def _name(relation: Any) -> str:
    name: str = relation if isinstance(relation, str) else relation["name"]
    return name


def _nodes_of(task: Task, nodes: Mapping[Node, set[str]]) -> Iterator[Node]:
    if task["type"] == "stage":
        yield None
        return
    wanted = next((task[key] for key in _ROLE_KEYS if task.get(key)), ())
    yield from _with_role(wanted, nodes)


def _others(
    relation: Any, node: Node, places: Mapping[str, set[Node]], nodes: Mapping[Node, set[str]]
) -> Iterator[Place]:
    role = None if isinstance(relation, str) else relation.get("role", "*")
    if isinstance(relation, str):
        wanted: set[Node] = {node, None}
    elif role is None or role == "self":
        wanted = {node if role else None}
    else:
        wanted = set(_with_role(role, nodes))
    for name in places:
        if _matches(_name(relation), name):
            yield from ((name, other) for other in places[name] & wanted)


def _with_role(wanted: str | Iterable[str], nodes: Mapping[Node, set[str]]) -> Iterator[Node]:
    """Yield the nodes with one of the roles; ``*`` and expressions never mean the master."""
    roles = [wanted] if isinstance(wanted, str) else list(wanted)
    for node, its in nodes.items():
        if node == MASTER and MASTER in roles:
            yield node
        if node not in {None, MASTER} and any(role == "*" or any(_matches(role, one) for one in its) for role in roles):
            yield node


def _matches(name: str, other: str) -> bool:
    """Tell whether a name, or an expression between slashes, means another name."""
    if len(name) > 1 and name.startswith("/") and name.endswith("/"):
        return re.match(name[1:-1], other) is not None
    return name == other
