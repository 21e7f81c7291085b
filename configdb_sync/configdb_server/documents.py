"""Values, overrides and effective data of one data source at one level, and their versions.

``/etags`` gives the digests of all data sources at one level, and reads no document for it.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Select, select, union_all

from configdb_sync.configdb import level_merge
from configdb_sync.configdb_server import schema
from configdb_sync.configdb_server.contents import DocumentContent, content_of, document_of, text_of
from configdb_sync.configdb_server.document_paths import (
    ROOT,
    DocumentPath,
    DocumentPlace,
    Kind,
    Levels,
    check_chain,
    find_document,
    quoted,
)
from configdb_sync.configdb_server.document_store import (
    ENVIRONMENT,
    Both,
    Changed,
    Half,
    at_place,
    both_of,
    chain_parameters,
    change,
    effective_digest,
    filled_halves,
    key_digests,
    merged_digest,
    read_chain,
    read_one,
)
from configdb_sync.configdb_server.key_operations import checked_result, operate, read_paths
from configdb_sync.configdb_server.locks import change_contents
from configdb_sync.configdb_server.messages import (
    ConfigDBRequest,
    ServerLimits,
    listing,
    no_content,
    not_modified,
    text_response,
)
from configdb_sync.jsonvalues import Json, dumps
from configdb_sync.names import place_of
from configdb_sync.web.refusals import refuse
from configdb_sync.web.requests import is_conditional
from configdb_sync.web.responses import ApiResponse, json_response

_DOCUMENTS = schema.documents
_CONTENTS = schema.contents
_VERSIONS = schema.versions
_DEFINITIONS = schema.resource_definitions
_LINKS = schema.environment_components
_VERSIONS_OF_DOCUMENTS = _DOCUMENTS.join(_VERSIONS, _VERSIONS.c.document_id == _DOCUMENTS.c.id).join(
    _CONTENTS, _CONTENTS.c.address == _VERSIONS.c.content
)

_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


def get_document(request: ConfigDBRequest, environment: int, path: DocumentPath) -> ApiResponse:
    """GET .../values or .../overrides: as stored, of a version, effective, with where it is from, or one key."""
    arguments = request.args
    effective = "effective" in arguments and path.kind == "values"
    if "show_lookup" in arguments and not effective:
        raise refuse(409, "show_lookup tells where effective values come from: ask for values?effective&show_lookup")
    if "version" in arguments and effective:
        raise refuse(409, "effective data has no versions: leave out version or effective")

    def work(connection: Connection) -> ApiResponse:
        place = find_document(connection, environment, path)
        if effective:
            return _effective(request, connection, place)
        if "version" in arguments:
            return _stored(request, version_of(connection, place, path.kind, arguments["version"], request.limits))
        return _stored(request, read_one(connection, place).half(path.kind))

    return request.read(work)


def put_document(request: ConfigDBRequest, environment: int, path: DocumentPath) -> ApiResponse:
    """PUT .../values or .../overrides: replaces the whole document; 412 if a condition fails."""
    with request.missing_first(lambda connection: find_document(connection, environment, path)):
        content = request.document()
    return _written(request, environment, path, lambda _: content)


def change_keys(request: ConfigDBRequest, environment: int, path: DocumentPath) -> ApiResponse:
    """PUT or PATCH .../keys/{set,delete}: 204; ``get`` answers the values and changes nothing."""
    with request.missing_first(lambda connection: find_document(connection, environment, path)):
        paths = read_paths(request)
    if path.argument == "get":
        return request.read(lambda connection: _get_keys(connection, environment, path, paths))

    def new(half: Half) -> DocumentContent:
        result = operate(path.argument, document_of(half.body), paths)
        checked_result(result, request.limits.body)
        return content_of(result)

    return _written(request, environment, path, new, must_exist=True)


def _written(
    request: ConfigDBRequest,
    environment: int,
    path: DocumentPath,
    new: Callable[[Half], DocumentContent],
    *,
    must_exist: bool = False,
) -> ApiResponse:
    preconditions, authorship = request.preconditions(), request.authorship()

    def work(connection: Connection) -> Changed:
        place = find_document(connection, environment, path)
        return change(
            request,
            connection,
            place,
            path.kind,
            preconditions=preconditions,
            authorship=authorship,
            new=new,
            must_exist=must_exist,
        )

    changed = change_contents(request.database, environment, work)
    return no_content(changed.digest, changed.version)


def _get_keys(connection: Connection, environment: int, path: DocumentPath, paths: list[list[Json]]) -> ApiResponse:
    place = find_document(connection, environment, path)
    document = document_of(read_one(connection, place).half(path.kind).body)
    return json_response(operate("get", document, paths))


def _stored(request: ConfigDBRequest, half: Half) -> ApiResponse:
    if (early := _condition(request, half.digest)) is not None:
        return early
    if "key" in request.args:
        return json_response(_one_key(request, document_of(half.body)))
    return text_response(text_of(half.body), half.digest, half.version)


def _effective(request: ConfigDBRequest, connection: Connection, place: DocumentPlace) -> ApiResponse:
    lookup = "show_lookup" in request.args
    if is_conditional(request.environ) and not lookup:
        digest = effective_digest(connection, read_chain(connection, place, bodies=False))
        if (early := _condition(request, digest)) is not None:
            return early
    chain = read_chain(connection, place, bodies=True)
    if lookup:
        return _lookup(request, place, chain)
    if "key" in request.args:
        return json_response(_one_key(request, _merged(chain)))
    halves = filled_halves(chain)
    if len(halves) <= 1:
        half = halves[0] if halves else Half()
        return text_response(text_of(half.body), half.digest)
    return text_response(dumps(_merged(chain)), effective_digest(connection, chain))


def _merged(chain: list[Both]) -> dict[str, Json]:
    return level_merge.effective((document_of(both.values.body), document_of(both.overrides.body)) for both in chain)


def _lookup(request: ConfigDBRequest, place: DocumentPlace, chain: list[Both]) -> ApiResponse:
    found = level_merge.lookup(
        (
            place_of(place.levels[:depth]),
            document_of(both.values.body),
            document_of(both.overrides.body),
        )
        for depth, both in enumerate(chain)
    )
    if "key" not in request.args:
        return json_response({key: [value, where] for key, (value, where) in found.items()})
    value = _one_key(request, {key: value for key, (value, _) in found.items()})
    return json_response([value, found[request.args["key"].split(".")[0]][1]])


def _one_key(request: ConfigDBRequest, document: Json) -> Json:
    return operate("get", document, [list(request.args["key"].split("."))])[0]


def _condition(request: ConfigDBRequest, digest: str) -> ApiResponse | None:
    preconditions = request.preconditions()
    if not preconditions.matches(digest):
        raise refuse(412, "the document isn't what the condition names", ("ETag", f'"{digest}"'))
    return None if preconditions.none_matches(digest) else not_modified(digest)


def show_history(request: ConfigDBRequest, environment: int, path: DocumentPath) -> ApiResponse:
    """GET .../history: the versions that are kept, newest first."""

    def work(connection: Connection) -> list[dict[str, Any]]:
        place = find_document(connection, environment, path)
        statement = (
            select(*_VERSIONS.c, _CONTENTS.c.digest)
            .select_from(_VERSIONS_OF_DOCUMENTS)
            .where(*_kept(place, path.kind, request.limits))
            .order_by(_VERSIONS.c.number.desc())
        )
        return [
            {
                "version": row.number,
                "author": row.author,
                "run": row.run,
                "comment": row.comment,
                "time": time_text(row.time),
                "digest": row.digest,
            }
            for row in connection.execute(statement)
        ]

    return json_response(request.read(work))


def revert(request: ConfigDBRequest, environment: int, path: DocumentPath) -> ApiResponse:
    """POST .../history/{version}/revert: the old content becomes a new version; 204."""
    preconditions, authorship = request.preconditions(), request.authorship()

    def work(connection: Connection) -> Changed:
        place = find_document(connection, environment, path)
        old = version_of(connection, place, path.kind, path.argument, request.limits)
        address = old.address or ""
        digests = key_digests(connection, [address])[address]
        content = DocumentContent(text_of(old.body), address, old.digest, digests)
        said = authorship if authorship.comment else replace(authorship, comment=f"revert to version {old.version}")
        return change(
            request, connection, place, path.kind, preconditions=preconditions, authorship=said, new=lambda _: content
        )

    changed = change_contents(request.database, environment, work)
    return no_content(changed.digest, changed.version)


def version_of(connection: Connection, place: DocumentPlace, kind: Kind, text: str, limits: ServerLimits) -> Half:
    """Return one version by the text of its number.

    Raises ``RefusalError``: 400 for no number, 404 if it isn't kept.
    """
    if not (text.isascii() and text.isdigit()):
        raise refuse(400, f"a version is a number, not {quoted(text)}")
    number = int(text) if len(text) < 10 else 0
    row = connection.execute(
        select(_VERSIONS.c.number, _CONTENTS.c.digest, _CONTENTS.c.address, _CONTENTS.c.body)
        .select_from(_VERSIONS_OF_DOCUMENTS)
        .where(*_kept(place, kind, limits), _VERSIONS.c.number == number)
    ).first()
    if row is None:
        raise refuse(404, f"version {quoted(text, 20)} of these {kind} isn't kept; history lists those that are")
    return Half(row.number, row.digest, row.address, row.body)


def time_text(microseconds: int) -> str:
    """Return a stored time as ISO 8601 in UTC."""
    return (_BEGINNING + timedelta(microseconds=microseconds)).isoformat(timespec="microseconds")


def _kept(place: DocumentPlace, kind: Kind, limits: ServerLimits) -> tuple[Any, ...]:
    level, value = place.own
    return (
        _DOCUMENTS.c.environment_id == place.environment,
        _DOCUMENTS.c.definition_id == place.definition,
        _DOCUMENTS.c.level == level,
        _DOCUMENTS.c.level_value == value,
        _VERSIONS.c.kind == kind,
        _VERSIONS.c.number > _DOCUMENTS.c[f"{kind}_version"] - limits.versions,
    )


def show_etags(request: ConfigDBRequest, environment: int, levels: Levels) -> ApiResponse:
    """GET .../etags: definition id -> digests of values, overrides and effective data at these levels."""

    def work(connection: Connection) -> dict[str, dict[str, str]]:
        check_chain(connection, environment, levels)
        return _etags(connection, environment, [ROOT, *levels])

    return listing(request.read(work), request.preconditions())


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


@functools.lru_cache(64)
def _all_documents(depth: int) -> Select[Any]:
    # One exact look into the index for each place, as ``document_store`` does.
    here = union_all(
        *(
            select(*(column for column in _DOCUMENTS.c if column.name != "id")).where(*at_place(number))
            for number in range(depth)
        )
    ).subquery("here")
    return (
        select(_DEFINITIONS.c.id.label("definition"), *here.c)
        .select_from(
            _LINKS.join(_DEFINITIONS, _DEFINITIONS.c.component_id == _LINKS.c.component_id).outerjoin(
                here, here.c.definition_id == _DEFINITIONS.c.id
            )
        )
        .where(_LINKS.c.environment_id == ENVIRONMENT)
        .order_by(_DEFINITIONS.c.id)
    )


def _read(
    connection: Connection, environment: int, chain: list[tuple[str, str]]
) -> dict[int, dict[tuple[str, str], Both]]:
    found: dict[int, dict[tuple[str, str], Both]] = defaultdict(dict)
    for row in connection.execute(_all_documents(len(chain)), chain_parameters(environment, chain)):
        documents = found[row.definition]
        if row.level is not None:
            documents[row.level, row.level_value] = both_of(row)
    return found
