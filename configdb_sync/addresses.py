"""Where a node is in ConfigDB's hierarchy (U6, U16): from its facts, and from the id or FQDN that a person gives.

A hierarchy's levels have templates: ``cluster=%{deployment_id},nodes=%{fqdn}``. The last level is the nodes' own. A
document belongs to the value of its own level, whatever the values of the levels above it. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from configdb_sync.errors import NodeError, SettingsError
from configdb_sync.hiera.path_template import Template, expand, parse
from configdb_sync.jsonvalues import Document, Json
from configdb_sync.names import LevelPath, did_you_mean
from configdb_sync.setting_values import DEFAULT_LEVELS, Levels

Seen = Mapping[str, Collection[str]]
"""The FQDNs under which runs saw nodes, by identity."""

_KEY = "levels"
_SHAPES = {"uid": "[0-9]+"}
_OTHERS = r"(?![0-9]+\Z).+"  # Digits alone are a node's id.


def names_in(seen: Seen) -> list[str]:
    """Return the names that nodes have: their FQDNs, and these without the domain."""
    return sorted({name for fqdns in seen.values() for fqdn in fqdns for name in (fqdn, fqdn.partition(".")[0])})


def shown(levels: Levels) -> str:
    """Return levels as ``--levels`` takes them."""
    return ",".join(f"{name}={template}" for name, template in levels)


def from_records(document: Document) -> Levels | None:
    """Return the levels that an environment's root records name; None if they name none (someone else wrote there)."""
    found = document.get(_KEY)
    if not isinstance(found, list) or not found:
        return None
    pairs = [tuple(one) for one in found if isinstance(one, list) and len(one) == 2]
    if len(pairs) < len(found) or not all(isinstance(text, str) for pair in pairs for text in pair):
        return None
    levels = tuple((str(name), str(template)) for name, template in pairs)
    try:
        Addresses(0, levels).check()
    except SettingsError:
        return None
    return levels


def to_records(document: Document, levels: Levels) -> dict[str, Json]:
    """Return the root records with these levels in place of those that they name."""
    return {**document, _KEY: [list(level) for level in levels]}


@dataclass(frozen=True)
class Addresses:
    """The places of one environment's nodes under these levels."""

    environment: int
    levels: Levels = DEFAULT_LEVELS

    def check(self) -> None:
        """Raise ``SettingsError`` for a template that can't be read."""
        for name, template in self.levels:
            try:
                parse(template)
            except ValueError as error:
                raise SettingsError(
                    f"levels: {name}={template} can't be read: {error}",
                    way_out="like cluster=%{deployment_id},nodes=%{uid}",
                ) from None

    def begin_as(self, levels: Levels) -> bool:
        """Tell whether ``levels`` are the first of these, with templates that mean the same."""
        return _parsed(levels) == self._templates[: len(levels)]

    @cached_property
    def _templates(self) -> tuple[tuple[str, Template], ...]:
        return _parsed(self.levels)

    @property
    def node_level(self) -> str:
        """The name of the level that the nodes are at."""
        return self.levels[-1][0]

    def of_facts(self, facts: Mapping[str, Json]) -> LevelPath:
        """Return the place of a node with these facts. Raises ``NodeError`` if they don't suffice."""
        return tuple((name, self._value(name, template, facts)) for name, template in self._templates)

    def _value(self, name: str, template: Template, facts: Mapping[str, Json]) -> str:
        try:
            return expand(template, facts)
        except ValueError as error:
            raise NodeError(f"its hierarchy level {name} is unknown: {error}") from None

    def _known(self, node: str, fqdn: str | None) -> dict[str, Json]:
        return {"uid": node, "deployment_id": str(self.environment), **({} if fqdn is None else {"fqdn": fqdn})}

    def of_node(self, node: str, fqdn: str | None) -> LevelPath | None:
        """Return the place of a node of which no more is known, None if its levels ask for other facts."""
        if self.levels == DEFAULT_LEVELS and node.isalnum():
            return (("nodes", node),)  # as nearly always, and there are many
        try:
            return self.of_facts(self._known(node, fqdn))
        except NodeError:
            return None

    def value_of(self, node: str, fqdn: str | None) -> str | None:
        """Return the value that the nodes' level has for a node, None if it is unknown."""
        own = Addresses(self.environment, self.levels[-1:]).of_node(node, fqdn)
        return None if own is None else own[0][1]

    def values_of(self, node: str, seen: Seen) -> frozenset[str]:
        """Return all values that the nodes' level has, or had, for a node."""
        values = {self.value_of(node, name) for name in (*seen.get(node, ()), None)}
        return frozenset(value for value in values if value is not None)

    @property
    def by_name(self) -> bool:
        """Whether identity and FQDN suffice for the value that the nodes' level has."""
        return set(self._templates[-1][1].facts) <= {"uid", "fqdn", "deployment_id"}

    def paths(self, values: Collection[str], seen: Seen) -> dict[str, LevelPath]:
        """Return the whole path to each value of the nodes' level whose outer levels are known."""
        if not any(set(template.facts) - {"deployment_id"} for _, template in self._templates[:-1]):
            outer = Addresses(self.environment, self.levels[:-1]).of_facts(self._known("", None))
            return {value: (*outer, (self.node_level, value)) for value in values}
        found: dict[str, set[LevelPath]] = {}
        for node in {*seen, *values}:
            for name in (*seen.get(node, ()), None):
                path = self.of_node(node, name)
                if path is not None:
                    found.setdefault(path[-1][1], set()).add(path)
        return {value: next(iter(found[value])) for value in values if len(found.get(value, ())) == 1}

    def named(self, given: LevelPath, seen: Callable[[], Seen]) -> LevelPath:
        """Return the place that a person named: a node's by its id, its FQDN or its level's value.

        The levels over a node's may be left out where they can be told. ``seen`` is asked for only if it is needed.
        Raises ``SettingsError`` for a name that tells no node, or several.
        """
        names = dict(given)
        if self.node_level not in names:
            return given
        text = names[self.node_level]
        own = ((self.node_level, self.named_value(text, seen)),)
        if set(names) == {self.node_level} and len(self.levels) > 1:
            whole = self.paths([own[0][1]], seen()).get(own[0][1])
            if whole is None:
                over = ", ".join(name for name, _ in self.levels[:-1])
                raise SettingsError(
                    f"it is unknown which {over} node {text} belongs to",
                    way_out=f"name it too: --level {self.levels[0][0]}=..., then --level {own[0][0]}={own[0][1]}",
                )
            return whole
        return tuple((name, own[0][1] if name == self.node_level else value) for name, value in given)

    def named_value(self, text: str, seen: Callable[[], Seen]) -> str:
        """Return the value of the nodes' level for a node's id, its FQDN or that value. Raises as ``named``."""
        direct = self._could_be(text)
        if direct and self._templates[-1][1].parts == ("", "uid", ""):
            return text
        nodes = {
            (identity, name)
            for identity, names in seen().items()
            for name in names
            if text == identity
            or text.lower() in {name.lower(), name.lower().partition(".")[0]}
            or text == self.value_of(identity, name)
        }
        values = {self.value_of(*node) for node in nodes}
        found = sorted(value for value in values if value is not None)
        if len(found) == 1:
            return found[0]
        if not nodes:
            alone = text if direct else self.value_of(text, None) if text.isascii() and text.isdigit() else None
            if alone is not None:
                return alone
        if found:
            reason = f"nodes {' and '.join(sorted(identity for identity, _ in nodes))} had it: {', '.join(found)}"
        elif nodes:
            reason = f"its {self.node_level} depends on facts that only a run reads"
        else:
            reason = "no run has seen a node of that name"
        form = f"{self.node_level}={self.levels[-1][1]}"
        way_out = f"give its id: --level {self.node_level}=46, or the level value that this environment uses: {form}"
        raise SettingsError(
            f"the name {text!r} doesn't identify a node: {reason}",
            way_out=did_you_mean(text, names_in(seen())) + way_out,
        )

    def _could_be(self, text: str) -> bool:
        """Tell whether a text could be the value of some node's level."""
        parts = self._templates[-1][1].parts
        shapes = {**_SHAPES, "deployment_id": str(self.environment)}
        pattern = "".join(
            shapes.get(part, _OTHERS if parts[::2] == ("", "") else ".+") if place % 2 else re.escape(part)
            for place, part in enumerate(parts)
        )
        return re.fullmatch(pattern, text) is not None


def _parsed(levels: Levels) -> tuple[tuple[str, Template], ...]:
    return tuple((name, parse(template)) for name, template in levels)
