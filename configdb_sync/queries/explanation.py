"""Why a lookup gives what it gives: every document that has the key, in order, and what became of each (U24)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from configdb_sync.configdb import edits
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.model import OVERRIDES, VALUES, Environment
from configdb_sync.hiera.arrangement import NodeSettings
from configdb_sync.hiera.lookup import Answer, Key, Merge, lookup
from configdb_sync.jsonvalues import ABSENT, OUTPUT_VERSION, Document, Json, Slot
from configdb_sync.masking import Masker
from configdb_sync.names import LevelPath, place_of

WINS, MERGED, COVERED, HIDDEN = "wins", "merged", "covered", "hidden"
"""What becomes of a document's value: it is the answer; it is part of it; a nearer document of the same data source
covers it; a data source that Hiera asks earlier hides it."""


@dataclass(frozen=True)
class Contribution:
    """One document that has the key's first part. ``value``: what it has for the key, ``ABSENT`` if its block lacks it.

    ``place``: ``/`` or ``/nodes/46/``. ``kind``: ``values`` or ``overrides``. ``outcome``: see ``WINS``.
    """

    data_source: str
    place: str
    kind: str
    value: Slot = field(repr=False)
    outcome: str


@dataclass(frozen=True)
class Explanation:
    """A lookup's answer on one node, and the documents that have the key, in Hiera's order."""

    node: str
    answer: Answer
    contributions: tuple[Contribution, ...]
    data_source: str | None
    """The data source that gave the answer, None if none or several did."""


def explain(
    client: ConfigDBClient | None, environment: Environment | None, settings: NodeSettings, key: Key, merge: Merge
) -> Explanation:
    """Look a key up on a node and say why. Without a client the layers are a node's files, each one document.

    Raises ``HieraLookupError``, ``ConfigDBError``.
    """
    answer = lookup(key, settings.layers, merge, settings.variables)
    path = tuple(map(str, key))
    definitions = {} if client is None or environment is None else client.definitions(environment)
    found: list[Contribution] = []
    for order, place in enumerate(answer.layers):
        layer = settings.layers[place]
        read = merge is not Merge.FIRST or order == 0
        if client is None or environment is None:
            documents: Iterator[tuple[str, str, Document]] = iter([("/", "file", layer.document)])
        else:
            documents = _documents(client, environment.id, settings.levels, definitions[layer.name].id)
        nearest = True
        for where, kind, document in documents:
            if path[0] not in document:
                continue
            value = edits.get(document, path) if edits.has(document, path) else ABSENT
            outcome = (WINS if merge is Merge.FIRST else MERGED) if read and nearest else COVERED if read else HIDDEN
            found.append(Contribution(layer.name, where, kind, value, outcome))
            nearest = False
    names = {one.data_source for one in found if one.outcome in {WINS, MERGED} and one.value is not ABSENT}
    return Explanation(settings.node, answer, tuple(found), next(iter(names)) if len(names) == 1 else None)


def _documents(
    client: ConfigDBClient, environment: int, levels: LevelPath, definition: int
) -> Iterator[tuple[str, str, Document]]:
    """Yield the documents of a data source from the node's own to the root's; overrides cover values of their level."""
    for depth in range(len(levels), -1, -1):
        here = levels[:depth]
        yield place_of(here), OVERRIDES, client.overrides(environment, here, definition)
        yield place_of(here), VALUES, client.values(environment, here, definition)


def to_json(explanation: Explanation, key: Key, masker: Masker) -> dict[str, Json]:
    """Return an explanation as JSON values, secrets masked."""
    path = tuple(map(str, key))
    answer = explanation.answer
    return {
        "version": OUTPUT_VERSION,
        "node": explanation.node,
        "key": list(path),
        "found": answer.found,
        **({"value": masker.shown(path, answer.value)} if answer.found else {}),
        "data_source": explanation.data_source,
        "layers": [
            {
                "data_source": one.data_source,
                "level": one.place,
                "kind": one.kind,
                "outcome": one.outcome,
                **({} if one.value is ABSENT else {"value": masker.shown(path, one.value)}),
            }
            for one in explanation.contributions
        ],
        "unknown_variables": sorted(answer.unknown),
    }
