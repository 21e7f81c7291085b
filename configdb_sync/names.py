"""Names of the product's own things in ConfigDB, and the bound that ConfigDB sets to all names. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

NAME_LIMIT = 128
"""Characters of a name or a level value that ConfigDB stores: the width of tuning-box's columns."""

RECORDS = "records"
"""The data source that holds the product's own records of an environment (U18); it is no file and no tenant's."""

LevelPath = tuple[tuple[str, str], ...]
"""Hierarchy levels from the root's side with the value at each: ``(("nodes", "46"),)``; ``()`` is the root."""

_DIGEST = 32


def component_name(tenant: str, environment: int) -> str:
    """Return the name of the component that groups a tenant's data sources of an environment.

    ``<tenant>/<environment>``; where that is longer than ``NAME_LIMIT`` it is cut and ends in a digest of the whole.
    """
    name = f"{tenant}/{environment}"
    if len(name) <= NAME_LIMIT:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGEST]
    return f"{name[: NAME_LIMIT - _DIGEST - 1]}~{digest}"


def records_component(environment: int) -> str:
    """Return the name of the component of the product's own records; no tenant's can begin with a slash."""
    return f"/configdb-sync/{environment}"


def place_of(levels: Iterable[tuple[str, str]]) -> str:
    """Return a path as ConfigDB shows it: ``/cluster/c1/nodes/n1/``, ``/`` for the root."""
    return "/" + "".join(f"{name}/{value}/" for name, value in levels)
