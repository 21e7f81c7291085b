"""Where ConfigDB has a key: in which data sources, at which levels, as a value or as an override (U16)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from configdb_sync.configdb import edits
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.edits import KeyPath
from configdb_sync.configdb.model import OVERRIDES, VALUES, Definition
from configdb_sync.jsonvalues import ABSENT, EMPTY_DIGEST, Json, Slot, canonical
from configdb_sync.names import LevelPath

KINDS = (VALUES, OVERRIDES)


@dataclass(frozen=True)
class PlacedKey:
    """A data source that has a key at a level. ``kind``: ``values`` or ``overrides``."""

    data_source: str
    levels: LevelPath
    kind: str
    value: Json = field(repr=False)


def find_places(
    client: ConfigDBClient,
    environment: int,
    definitions: Iterable[Definition],
    places: Iterable[LevelPath],
    path: KeyPath,
    *,
    kinds: Sequence[str] = KINDS,
    parallel: int = 4,
) -> Iterator[PlacedKey]:
    """Yield where a key is, of these data sources and levels. Raises ``ConfigDBError``."""
    wanted = list(definitions)
    found: dict[tuple[int, str], Slot] = {}

    def read(levels: LevelPath) -> list[PlacedKey]:
        etags = client.etags(environment, levels)
        here = []
        for definition in wanted:
            for kind in kinds:
                known = None if etags is None else etags.get(definition.id)
                digest = None if known is None else getattr(known, kind)
                if digest == EMPTY_DIGEST:
                    continue
                # Many nodes have the same document: it is fetched once.
                value = ABSENT if digest is None else found.get((definition.id, digest), ABSENT)
                if digest is None or (definition.id, digest) not in found:
                    document, _ = client.tagged(environment, levels, definition.id, kind)
                    value = edits.get(document, path) if edits.has(document, path) else ABSENT
                    if digest is not None:
                        found[definition.id, digest] = value
                if value is not ABSENT:
                    here.append(PlacedKey(definition.name, levels, kind, value))
        return here

    with ThreadPoolExecutor(max_workers=max(1, parallel)) as pool:
        for some in pool.map(read, places):
            yield from some


def alike(places: Iterable[PlacedKey]) -> list[list[PlacedKey]]:
    """Return places in groups: those of one data source, kind and value at one level, overrides after values. Pure."""
    groups: dict[tuple[str, int, str, str], list[PlacedKey]] = {}
    for one in places:
        level = one.levels[-1][0] if one.levels else ""
        group = (one.data_source, len(one.levels), level, one.kind + canonical(one.value))
        groups.setdefault(group, []).append(one)
    return [groups[key] for key in sorted(groups, key=lambda key: (key[0], key[1], groups[key][0].kind == OVERRIDES))]
