"""Moves an override out of a folder's document to the data source of the single file (U31).

Killed at any point it is at least at one of the two places, and the next run goes on: the new one is written,
read back, and only then the old one is taken away.
"""

from __future__ import annotations

from configdb_sync import failpoints
from configdb_sync.configdb import changes, edits
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.model import OVERRIDES, DocumentAddress
from configdb_sync.errors import AmbiguousError, UnexpectedAnswerError
from configdb_sync.jsonvalues import Json, same
from configdb_sync.names import LevelPath
from configdb_sync.sync.catalog import Catalog
from configdb_sync.sync.folders import Move

_LONGEST = 1000
"""Characters of a comment in the history."""


def move_override(client: ConfigDBClient, catalog: Catalog, environment: int, move: Move) -> None:
    """Carry out one move; one that is done already changes nothing.

    Raises ``AmbiguousError`` if someone overrode the same key of the file differently meanwhile, ``ConfigDBError`` as
    the client and where the server can't hold the file's data source; then the old override is still there.
    """
    refusal = catalog.refusal(move.data_source)
    if refusal is not None:
        raise refusal
    with catalog.moving:
        source = _place(catalog, environment, move.folder, move.source, move)
        target = _place(catalog, environment, move.data_source, move.target, move)
        there = changes.read(client, source, OVERRIDES)
        if not _holds(there, move):
            return
        reason = _reason(client, source, move)
        if source == target:
            changes.rewrite(
                client, source, lambda found: _put(_without(found, move), move), kind=OVERRIDES, reason=reason
            )
            failpoints.here("override-replaced")
            return
        changes.rewrite(client, target, lambda found: _put(found, move), kind=OVERRIDES, reason=reason)
        failpoints.here("override-copied")
        written = changes.read(client, target, OVERRIDES)
        if any(key not in written or not same(written[key], value) for key, value in move.content.items()):
            raise UnexpectedAnswerError(
                f"the override moved from {_origin(move)} isn't there after it was written; the old one was left",
                way_out="run again",
            )
        failpoints.here("override-confirmed")
        gone = f"moved to {move.data_source}"
        changes.rewrite(client, source, lambda found: _without(found, move), kind=OVERRIDES, reason=gone)
        failpoints.here("override-moved")


def _place(catalog: Catalog, environment: int, data_source: str, level: LevelPath, move: Move) -> DocumentAddress:
    definition = catalog.definition(data_source)
    if definition is None:
        raise UnexpectedAnswerError(
            f"ConfigDB has no data source {data_source}: the override stays in {_origin(move)}", way_out="run again"
        )
    return DocumentAddress(environment, level, data_source, definition, innermost=catalog.is_innermost(level))


def _holds(found: dict[str, Json], move: Move) -> bool:
    return move.stem in found and same(found[move.stem], dict(move.content))


def _put(found: dict[str, Json], move: Move) -> dict[str, Json]:
    other = [key for key, value in move.content.items() if key in found and not same(found[key], value)]
    if other:
        raise AmbiguousError(
            f"{', '.join(other)}: someone overrode it just now, and otherwise than {_origin(move)}, which stays",
            way_out="take one of the two overrides away with `configdb-sync rm-override`",
        )
    return {**found, **move.content}


def _without(found: dict[str, Json], move: Move) -> dict[str, Json]:
    # What someone changed in between is no longer what was moved: it stays, and the next run looks at it.
    return {key: value for key, value in found.items() if key != move.stem} if _holds(found, move) else found


def _origin(move: Move) -> str:
    return edits.shown_key((move.folder, move.stem))


def _reason(client: ConfigDBClient, source: DocumentAddress, move: Move) -> str:
    """Return what the history says: where it was, and who had set it, as far as the server knows."""
    reason = f"moved from {_origin(move)}"
    if move.source != move.target:
        reason += f" at {move.place}"
    if not client.keeps_versions:
        return reason
    last = next(iter(client.history(source.env, source.levels, source.definition, OVERRIDES)), None)
    if last is not None and last.author:
        reason += f", set by {last.author} on {last.time}"
    if last is not None and last.comment:
        reason += f": {last.comment}"
    return reason[:_LONGEST]
