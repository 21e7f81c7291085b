"""Versions of values and overrides: who, when, in which run, why; and going back to one."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, select
from werkzeug.wrappers import Response

from configdb_sync.configdb_server import schema
from configdb_sync.configdb_server.answers import json_answer, no_content, tagged
from configdb_sync.configdb_server.call import Call, Limits
from configdb_sync.configdb_server.contents import Content, digests_of, text_of
from configdb_sync.configdb_server.locks import change_contents
from configdb_sync.configdb_server.paths import DocumentPath, Kind
from configdb_sync.configdb_server.places import Place, find
from configdb_sync.configdb_server.refusals import refuse, shown
from configdb_sync.configdb_server.stored import Changed, Half, change

_DOCUMENTS = schema.documents
_CONTENTS = schema.contents
_VERSIONS = schema.versions

_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


def show_history(call: Call, environment: int, path: DocumentPath) -> Response:
    """GET .../history: the versions that are kept, newest first."""

    def work(connection: Connection) -> list[dict[str, Any]]:
        place = find(connection, environment, path.levels, path.resource)
        statement = (
            select(*_VERSIONS.c, _CONTENTS.c.digest)
            .select_from(
                _DOCUMENTS.join(_VERSIONS, _VERSIONS.c.document_id == _DOCUMENTS.c.id).join(
                    _CONTENTS, _CONTENTS.c.address == _VERSIONS.c.content
                )
            )
            .where(*_kept(place, path.kind, call.limits))
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

    return json_answer(call.read(work))


def revert(call: Call, environment: int, path: DocumentPath) -> Response:
    """POST .../history/{version}/revert: the old content becomes a new version; 204."""
    conditions = call.conditions()
    writer = call.writer()

    def work(connection: Connection) -> Changed:
        place = find(connection, environment, path.levels, path.resource)
        old = version_of(connection, place, path.kind, path.argument, call.limits)
        content = Content(text_of(old.body), old.address or "", old.digest, _key_digests(connection, old.address or ""))
        said = writer if writer.comment else replace(writer, comment=f"revert to version {old.version}")
        return change(call, connection, place, path.kind, conditions=conditions, writer=said, new=lambda _: content)

    changed = change_contents(call.database, environment, work)
    return tagged(no_content(), changed.digest, changed.version)


def version_of(connection: Connection, place: Place, kind: Kind, text: str, limits: Limits) -> Half:
    """Return one version by the text of its number.

    Raises ``RefusalError``: 400 for no number, 404 if it isn't kept.
    """
    if not (text.isascii() and text.isdigit()):
        raise refuse(400, f"a version is a number, not {shown(text)}")
    number = int(text) if len(text) < 10 else 0
    row = connection.execute(
        select(_VERSIONS.c.number, _CONTENTS.c.digest, _CONTENTS.c.address, _CONTENTS.c.body)
        .select_from(
            _DOCUMENTS.join(_VERSIONS, _VERSIONS.c.document_id == _DOCUMENTS.c.id).join(
                _CONTENTS, _CONTENTS.c.address == _VERSIONS.c.content
            )
        )
        .where(*_kept(place, kind, limits), _VERSIONS.c.number == number)
    ).first()
    if row is None:
        raise refuse(404, f"version {shown(text, 20)} of these {kind} isn't kept; history lists those that are")
    return Half(row.number, row.digest, row.address, row.body)


def time_text(microseconds: int) -> str:
    """Return a stored time as ISO 8601 in UTC."""
    return (_BEGINNING + timedelta(microseconds=microseconds)).isoformat(timespec="microseconds")


def _kept(place: Place, kind: Kind, limits: Limits) -> tuple[Any, ...]:
    level, value = place.own
    return (
        _DOCUMENTS.c.environment_id == place.environment,
        _DOCUMENTS.c.definition_id == place.definition,
        _DOCUMENTS.c.level == level,
        _DOCUMENTS.c.level_value == value,
        _VERSIONS.c.kind == kind,
        _VERSIONS.c.number > _DOCUMENTS.c[f"{kind}_version"] - limits.versions,
    )


def _key_digests(connection: Connection, address: str) -> dict[str, str]:
    stored = connection.execute(select(_CONTENTS.c.key_digests).where(_CONTENTS.c.address == address)).scalar_one()
    return digests_of(stored)
