"""Whether an override does anything: pure, on digests of keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from configdb_sync.configdb import level_merge


@dataclass(frozen=True)
class Layer:
    """One document of a data source. ``depth`` is 0 for the root and 1 for the level nearest to it."""

    depth: int
    values: Mapping[str, str]
    overrides: Mapping[str, str]

    def has(self, key: str) -> bool:
        """Tell whether it says anything of a key."""
        return key in self.values or key in self.overrides


def key_effects(layer: Layer, others: Sequence[Layer]) -> dict[str, dict[str, Any]]:
    """Return for each overridden key ``effect`` (full, partial, none), ``reason`` and ``hidden_by``.

    ``others`` are the data source's other documents of the environment. An override has none if it equals what
    it covers (``equal``), or if every document at a deeper level says something of the key itself (``hidden``);
    ``partial`` where only some do. ``hidden_by`` counts them. Which deeper documents a node at this level has
    is not known to ConfigDB, so all count.
    """
    deeper = [other for other in others if other.depth > layer.depth]
    above = [other for other in others if other.depth < layer.depth]
    found = {}
    for key, digest in layer.overrides.items():
        hidden_by = sum(other.has(key) for other in deeper)
        if _covered(key, layer, above) == digest:
            effect, reason = "none", "equal"
        elif hidden_by:
            effect, reason = ("none" if hidden_by == len(deeper) else "partial"), "hidden"
        else:
            effect, reason = "full", None
        found[key] = {"effect": effect, "reason": reason, "hidden_by": hidden_by}
    return found


def _covered(key: str, layer: Layer, above: Sequence[Layer]) -> str | None:
    # Between the root and the layer stand several documents, and which of them are above a node isn't known.
    if key in layer.values:
        return layer.values[key]
    if any(other.has(key) for other in above if other.depth):
        return None
    return level_merge.effective((other.values, other.overrides) for other in above if not other.depth).get(key)
