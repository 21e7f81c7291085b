"""ConfigDB's merge rule, in one place: the embedded server answers by it and ``plan`` computes by it (U20).

From the root to the deepest level asked for, each level's values and then its overrides replace whole
top-level keys (``docs/configdb-api.md``, Effective data). Nothing is merged below the top,
nothing takes a key away, and a plain value at a deeper level beats an override above it. A key stands where it
first appeared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

Value = TypeVar("Value")


def effective(levels: Iterable[tuple[Mapping[str, Value], Mapping[str, Value]]]) -> dict[str, Value]:
    """Return the merged document of (values, overrides) pairs, root first.

    The values may be anything: documents' JSON, or digests of it where only equality is asked for.
    """
    merged: dict[str, Value] = {}
    for values, overrides in levels:
        merged.update(values)
        merged.update(overrides)
    return merged


def lookup(
    levels: Iterable[tuple[str, Mapping[str, Value], Mapping[str, Value]]],
) -> dict[str, tuple[Value, str]]:
    """Return key -> (value, place) of (place, values, overrides) triples, root first.

    A place is the level's path as ``show_lookup`` gives it: ``/`` for the root, ``/nodes/1/``. It doesn't tell
    values from overrides, as tuning-box's does not.
    """
    merged: dict[str, tuple[Value, str]] = {}
    for place, values, overrides in levels:
        for document in (values, overrides):
            merged.update((key, (value, place)) for key, value in document.items())
    return merged
