"""All overrides of an environment: where, whose, since when, and whether each key of them has any effect.

The effect is computed from digests of keys: no document is read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from configdb_sync.configdb import level_merge
from configdb_sync.configdb_server import schema
from configdb_sync.configdb_server.document_store import key_digests
from configdb_sync.configdb_server.documents import time_text
from configdb_sync.configdb_server.environments import level_names
from configdb_sync.configdb_server.messages import ConfigDBRequest
from configdb_sync.jsonvalues import EMPTY_DIGEST
from configdb_sync.names import place_of
from configdb_sync.web.responses import ApiResponse, json_response

_DOCUMENTS = schema.documents
_DEFINITIONS = schema.resource_definitions
_LINKS = schema.environment_components
_VERSIONS = schema.versions


def show_overrides(request: ConfigDBRequest, environment: int) -> ApiResponse:
    """GET /environments/{id}/overrides: those that aren't empty, by definition id, then root first."""
    return json_response(request.read(lambda connection: _overrides(connection, environment)))


@dataclass(frozen=True)
class _Stored:
    row: Any
    depth: int

    @property
    def addresses(self) -> tuple[str | None, str | None]:
        return self.row.values_content, self.row.overrides_content

    @property
    def overridden(self) -> bool:
        return bool(self.row.overrides_digest != EMPTY_DIGEST)


def _overrides(connection: Connection, environment: int) -> list[dict[str, Any]]:
    depths = {name: depth for depth, name in enumerate(["", *level_names(connection, environment)])}
    by_definition: dict[int, list[_Stored]] = defaultdict(list)
    for row in _rows(connection, environment):
        by_definition[row.definition_id].append(_Stored(row, depths.get(row.level, len(depths))))
    answer = []
    for documents in by_definition.values():
        if not any(document.overridden for document in documents):
            continue  # all of them were taken away
        documents.sort(key=lambda document: (document.depth, document.row.level_value))
        answer.extend(_of_definition(connection, documents))
    return answer


def _of_definition(connection: Connection, documents: Sequence[_Stored]) -> list[dict[str, Any]]:
    # One data source at a time: the digests of all of an environment needn't be held at once.
    shallowest = min(document.depth for document in documents if document.overridden)
    needed = [document for document in documents if document.overridden or document.depth != shallowest]
    needed += [document for document in documents if not document.depth and document not in needed]
    digests = key_digests(connection, (address for document in needed for address in document.addresses))
    layers = {
        document.row.id: LevelDigests(document.depth, *(digests[address] for address in document.addresses))
        for document in needed
    }
    return [
        {
            "resource_definition": {"id": document.row.definition_id, "name": document.row.name},
            "level": document.row.level or None,
            "level_value": document.row.level_value or None,
            "place": place_of([(document.row.level, document.row.level_value)] if document.row.level else []),
            "version": document.row.overrides_version,
            "digest": document.row.overrides_digest,
            "author": document.row.author,
            "run": document.row.run,
            "comment": document.row.comment,
            "time": None if document.row.time is None else time_text(document.row.time),
            "keys": key_effects(
                layers[document.row.id],
                [layer for number, layer in layers.items() if number != document.row.id],
            ),
        }
        for document in documents
        if document.overridden
    ]


def _rows(connection: Connection, environment: int) -> Sequence[Any]:
    here = _DOCUMENTS.c.environment_id == environment
    overridden = select(_DOCUMENTS.c.definition_id).where(here, _DOCUMENTS.c.overrides_version > 0)
    newest = (
        (_VERSIONS.c.document_id == _DOCUMENTS.c.id)
        & (_VERSIONS.c.kind == "overrides")
        & (_VERSIONS.c.number == _DOCUMENTS.c.overrides_version)
    )
    statement = (
        select(
            *_DOCUMENTS.c,
            _DEFINITIONS.c.name,
            *(_VERSIONS.c[name] for name in ("author", "run", "comment", "time")),
        )
        .select_from(
            _DOCUMENTS.join(_DEFINITIONS, _DEFINITIONS.c.id == _DOCUMENTS.c.definition_id)
            .join(
                _LINKS,
                (_LINKS.c.component_id == _DEFINITIONS.c.component_id)
                & (_LINKS.c.environment_id == _DOCUMENTS.c.environment_id),
            )
            .outerjoin(_VERSIONS, newest)
        )
        .where(here, _DOCUMENTS.c.definition_id.in_(overridden))
        .order_by(_DOCUMENTS.c.definition_id)
    )
    return connection.execute(statement).all()


@dataclass(frozen=True)
class LevelDigests:
    """One document of a data source. ``depth`` is 0 for the root and 1 for the level nearest to it."""

    depth: int
    values: Mapping[str, str]
    overrides: Mapping[str, str]

    def has(self, key: str) -> bool:
        """Tell whether it says anything of a key."""
        return key in self.values or key in self.overrides


def key_effects(layer: LevelDigests, others: Sequence[LevelDigests]) -> dict[str, dict[str, Any]]:
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


def _covered(key: str, layer: LevelDigests, above: Sequence[LevelDigests]) -> str | None:
    # Between the root and the layer stand several documents, and which of them are above a node isn't known.
    if key in layer.values:
        return layer.values[key]
    if any(other.has(key) for other in above if other.depth):
        return None
    return level_merge.effective((other.values, other.overrides) for other in above if not other.depth).get(key)
