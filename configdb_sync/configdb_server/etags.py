"""The digests of all data sources of a node (or any other place) in one answer, without reading a document."""

from __future__ import annotations

from collections import defaultdict

from sqlalchemy import Connection, select, union_all
from werkzeug.wrappers import Response

from configdb_sync.configdb_server import schema
from configdb_sync.configdb_server.answers import listing
from configdb_sync.configdb_server.call import Call
from configdb_sync.configdb_server.paths import Levels
from configdb_sync.configdb_server.places import ROOT, check_chain
from configdb_sync.configdb_server.stored import Both, both_of, filled_halves, key_digests, merged_digest

_DOCUMENTS = schema.documents
_DEFINITIONS = schema.resource_definitions
_LINKS = schema.environment_components


def show_etags(call: Call, environment: int, levels: Levels) -> Response:
    """GET .../etags: definition id -> digests of values, overrides and effective data at these levels."""

    def work(connection: Connection) -> dict[str, dict[str, str]]:
        check_chain(connection, environment, levels)
        return _etags(connection, environment, [ROOT, *levels])

    return listing(call.read(work), call.conditions())


def _etags(connection: Connection, environment: int, chain: list[tuple[str, str]]) -> dict[str, dict[str, str]]:
    found: dict[int, list[Both]] = {}
    for definition, documents in _read(connection, environment, chain).items():
        found[definition] = [documents.get(key, Both()) for key in chain]
    merged = {definition: halves for definition, both in found.items() if len(halves := filled_halves(both)) > 1}
    digests = key_digests(connection, (half.address for halves in merged.values() for half in halves))
    return {
        str(definition): {
            "values": both[-1].values.digest,
            "overrides": both[-1].overrides.digest,
            "effective": merged_digest(filled_halves(both), digests),
        }
        for definition, both in found.items()
    }


def _read(
    connection: Connection, environment: int, chain: list[tuple[str, str]]
) -> dict[int, dict[tuple[str, str], Both]]:
    # One exact look into the index for each place, as ``stored`` does.
    here = union_all(
        *(
            select(*(column for column in _DOCUMENTS.c if column.name != "id")).where(
                _DOCUMENTS.c.environment_id == environment,
                _DOCUMENTS.c.level == level,
                _DOCUMENTS.c.level_value == value,
            )
            for level, value in chain
        )
    ).subquery("here")
    statement = (
        select(_DEFINITIONS.c.id.label("definition"), *here.c)
        .select_from(
            _LINKS.join(_DEFINITIONS, _DEFINITIONS.c.component_id == _LINKS.c.component_id).outerjoin(
                here, here.c.definition_id == _DEFINITIONS.c.id
            )
        )
        .where(_LINKS.c.environment_id == environment)
        .order_by(_DEFINITIONS.c.id)
    )
    found: dict[int, dict[tuple[str, str], Both]] = defaultdict(dict)
    for row in connection.execute(statement):
        documents = found[row.definition]
        if row.level is not None:
            documents[row.level, row.level_value] = both_of(row)
    return found
