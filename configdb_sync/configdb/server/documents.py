"""Values, overrides and effective data of one data source at one level."""

from __future__ import annotations

from sqlalchemy import Connection
from werkzeug.wrappers import Response

from configdb_sync.configdb import level_merge
from configdb_sync.configdb.server.answers import json_answer, no_content, not_modified, tagged, text_answer
from configdb_sync.configdb.server.call import Call
from configdb_sync.configdb.server.contents import Content, content_of, document_of, text_of
from configdb_sync.configdb.server.history import version_of
from configdb_sync.configdb.server.locks import change_contents
from configdb_sync.configdb.server.operations import checked_result, operate, read_paths
from configdb_sync.configdb.server.paths import DocumentPath
from configdb_sync.configdb.server.places import Place, find
from configdb_sync.configdb.server.refusals import refuse
from configdb_sync.configdb.server.stored import (
    Both,
    Changed,
    Half,
    change,
    effective_digest,
    filled_halves,
    read_chain,
    read_one,
)
from configdb_sync.jsonvalues import Json
from configdb_sync.names import place_of


def get_document(call: Call, environment: int, path: DocumentPath) -> Response:
    """GET .../values or .../overrides: as stored, of a version, effective, with where it is from, or one key."""
    arguments = call.request.args
    effective = "effective" in arguments and path.kind == "values"
    if "show_lookup" in arguments and not effective:
        raise refuse(409, "show_lookup tells where effective values come from: ask for values?effective&show_lookup")
    if "version" in arguments and effective:
        raise refuse(409, "effective data has no versions: leave out version or effective")

    def work(connection: Connection) -> Response:
        place = find(connection, environment, path.levels, path.resource)
        if effective:
            return _effective(call, connection, place)
        if "version" in arguments:
            return _stored(call, version_of(connection, place, path.kind, arguments["version"], call.limits))
        return _stored(call, read_one(connection, place).half(path.kind))

    return call.read(work)


def put_document(call: Call, environment: int, path: DocumentPath) -> Response:
    """PUT .../values or .../overrides: replaces the whole document; 412 if a condition fails."""
    with call.missing_first(lambda connection: find(connection, environment, path.levels, path.resource)):
        content = call.document()
    conditions = call.conditions()
    writer = call.writer()

    def work(connection: Connection) -> Changed:
        place = find(connection, environment, path.levels, path.resource)
        return change(call, connection, place, path.kind, conditions=conditions, writer=writer, new=lambda _: content)

    return _changed(change_contents(call.database, environment, work))


def change_keys(call: Call, environment: int, path: DocumentPath) -> Response:
    """PUT or PATCH .../keys/{set,delete}: 204; ``get`` answers the values and changes nothing."""
    with call.missing_first(lambda connection: find(connection, environment, path.levels, path.resource)):
        paths = read_paths(call)
    if path.argument == "get":
        return call.read(lambda connection: _get_keys(connection, environment, path, paths))
    conditions = call.conditions()
    writer = call.writer()

    def new(half: Half) -> Content:
        result = operate(path.argument, document_of(half.body), paths)
        checked_result(result, call.limits.body)
        return content_of(result)

    def work(connection: Connection) -> Changed:
        place = find(connection, environment, path.levels, path.resource)
        return change(
            call, connection, place, path.kind, conditions=conditions, writer=writer, new=new, must_exist=True
        )

    return _changed(change_contents(call.database, environment, work))


def _get_keys(connection: Connection, environment: int, path: DocumentPath, paths: list[list[Json]]) -> Response:
    place = find(connection, environment, path.levels, path.resource)
    document = document_of(read_one(connection, place).half(path.kind).body)
    return json_answer(operate("get", document, paths))


def _changed(changed: Changed) -> Response:
    return tagged(no_content(), changed.digest, changed.version)


def _stored(call: Call, half: Half) -> Response:
    if (early := _condition(call, half.digest)) is not None:
        return early
    if "key" in call.request.args:
        return json_answer(_one_key(call, document_of(half.body)))
    return tagged(text_answer(text_of(half.body)), half.digest, half.version)


def _effective(call: Call, connection: Connection, place: Place) -> Response:
    lookup = "show_lookup" in call.request.args
    conditional = "If-None-Match" in call.request.headers or "If-Match" in call.request.headers
    if conditional and not lookup:
        digest = effective_digest(connection, read_chain(connection, place, bodies=False))
        if (early := _condition(call, digest)) is not None:
            return early
    chain = read_chain(connection, place, bodies=True)
    if lookup:
        return _lookup(call, place, chain)
    if "key" in call.request.args:
        return json_answer(_one_key(call, _merged(chain)))
    halves = filled_halves(chain)
    if len(halves) <= 1:
        half = halves[0] if halves else Half()
        return tagged(text_answer(text_of(half.body)), half.digest)
    document = _merged(chain)
    return tagged(json_answer(document), effective_digest(connection, chain))


def _merged(chain: list[Both]) -> dict[str, Json]:
    return level_merge.effective((document_of(both.values.body), document_of(both.overrides.body)) for both in chain)


def _lookup(call: Call, place: Place, chain: list[Both]) -> Response:
    found = level_merge.lookup(
        (
            place_of(place.levels[:depth]),
            document_of(both.values.body),
            document_of(both.overrides.body),
        )
        for depth, both in enumerate(chain)
    )
    if "key" not in call.request.args:
        return json_answer({key: [value, where] for key, (value, where) in found.items()})
    value = _one_key(call, {key: value for key, (value, _) in found.items()})
    return json_answer([value, found[call.request.args["key"].split(".")[0]][1]])


def _one_key(call: Call, document: Json) -> Json:
    return operate("get", document, [list(call.request.args["key"].split("."))])[0]


def _condition(call: Call, digest: str) -> Response | None:
    conditions = call.conditions()
    if conditions.match is not None and not conditions.match.any and digest not in conditions.match.strong:
        raise refuse(412, "the document isn't what the condition names", ("ETag", f'"{digest}"'))
    return not_modified(digest) if conditions.unchanged(digest) else None
