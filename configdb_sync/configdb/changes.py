"""What a user's command does to one document: find it, change it, write it against its ETag (U16)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from configdb_sync.configdb import edits
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.edits import KeyPath
from configdb_sync.configdb.model import (
    OVERRIDES,
    VALUES,
    Definition,
    DocumentAddress,
    DocumentEdit,
    Environment,
    ServerKind,
)
from configdb_sync.errors import ConflictError, PreconditionError, ProductError, SettingsError, UnknownNameError
from configdb_sync.jsonvalues import Json, same
from configdb_sync.names import LevelPath, did_you_mean

_ATTEMPTS = 60

Make: TypeAlias = Callable[[dict[str, Json]], dict[str, Json]]
"""Makes another document of the one that is there. It may be called several times."""


def existing(client: ConfigDBClient, env: int) -> Environment:
    """Return an environment. Raises ``UnknownNameError`` if ConfigDB doesn't have it."""
    environment = client.environment(env)
    if environment is None:
        where = client.base.removesuffix(":")
        ids = ", ".join(str(other) for other in sorted(one.id for one in client.environments())) or "none"
        raise UnknownNameError(
            f"environment {env} isn't in ConfigDB {where}",
            way_out=f"see --env and --configdb; it has environments: {ids}",
        )
    return environment


def find(client: ConfigDBClient, env: int, levels: LevelPath, data_source: str) -> DocumentAddress:
    """Return the place that a command names.

    Raises ``UnknownNameError`` if environment or data source isn't there, ``SettingsError`` if ``levels`` isn't a
    beginning of the environment's hierarchy; both list what exists.
    """
    environment = existing(client, env)
    return find_in(client, environment, client.definitions(environment), levels, data_source)


def find_in(
    client: ConfigDBClient,
    environment: Environment,
    definitions: Mapping[str, Definition],
    levels: LevelPath,
    data_source: str,
) -> DocumentAddress:
    """Return the same of an environment that was read, with its definitions; raises the same."""
    env = environment.id
    inner = _ordered(environment.levels, levels, trusted=client.server() is not ServerKind.LEGACY)
    if inner is None:
        raise SettingsError(
            f"environment {env} has no level path {'/'.join(name for name, _ in levels)}",
            way_out=f"its levels, outermost first: {', '.join(environment.levels) or 'none'}",
        )
    if data_source not in definitions:
        raise UnknownNameError(
            f"environment {env} has no data source {data_source}",
            way_out=f"{did_you_mean(data_source, definitions)}it has {', '.join(sorted(definitions)) or 'none'}",
        )
    last = len(inner) == len(environment.levels) > 0
    return DocumentAddress(env, inner, data_source, definitions[data_source].id, innermost=last)


def _ordered(hierarchy: Sequence[str], levels: LevelPath, *, trusted: bool) -> LevelPath | None:
    """Return ``levels`` in the order of the hierarchy, None if they are no beginning of it.

    ``trusted``: the server names its levels in their order; 0.1.0 doesn't, there the user's order stands.
    """
    given = dict(levels)
    if not trusted:
        return levels if given.keys() <= set(hierarchy) else None
    begin = hierarchy[: len(given)]
    return tuple((name, given[name]) for name in begin) if given.keys() == set(begin) else None


def read(client: ConfigDBClient, place: DocumentAddress, kind: str) -> dict[str, Json]:
    """Return the raw document of a place; ``kind`` is ``VALUES`` or ``OVERRIDES``."""
    return client.tagged(place.env, place.levels, place.definition, kind)[0]


def above(client: ConfigDBClient, place: DocumentAddress) -> dict[str, Json]:
    """Return what a place inherits: the effective data of the level over it, ``{}`` over the root."""
    return client.effective(place.env, place.levels[:-1], place.definition) if place.levels else {}


def beneath(client: ConfigDBClient, place: DocumentAddress) -> dict[str, Json]:
    """Return what is seen at a place without its own overrides."""
    return {**above(client, place), **read(client, place, VALUES)}


def setting(client: ConfigDBClient, place: DocumentAddress, path: KeyPath | None, value: Json) -> Make:
    """Return what sets a key of a place's values, or the whole document if ``path`` is None.

    It raises the errors of ``edits.put``.
    """
    return _putting(place, path, value, lambda: above(client, place))


def deleting(place: DocumentAddress, path: KeyPath | None) -> Make:
    """Return what takes a key out of a place's document, or all if ``path`` is None.

    It raises the errors of ``edits.drop``.
    """
    return _at(place, lambda document: {} if path is None else edits.drop(document, path))


def override(client: ConfigDBClient, place: DocumentAddress, path: KeyPath | None, value: Json) -> DocumentEdit:
    """Override a key as ``overriding``. Raises the errors of ``edits.put``."""
    return rewrite(client, place, overriding(client, place, path, value), kind=OVERRIDES)


def overriding(client: ConfigDBClient, place: DocumentAddress, path: KeyPath | None, value: Json) -> Make:
    """Return what overrides a key in a place's overrides, or makes them ``value`` as a whole if ``path`` is None.

    Below a top-level key the block that is effective there now is pinned with the leaf set. It raises the errors of
    ``edits.put``.
    """
    return _putting(place, path, value, lambda: client.effective(place.env, place.levels, place.definition))


def free(client: ConfigDBClient, place: DocumentAddress, path: KeyPath | None) -> DocumentEdit:
    """Take the override of a key away as ``freeing``. Raises ``edits.NotOverriddenError``."""
    return rewrite(client, place, freeing(client, place, path), kind=OVERRIDES)


def freeing(client: ConfigDBClient, place: DocumentAddress, path: KeyPath | None) -> Make:
    """Return what takes the override of a key away from a place's overrides, or all of them if ``path`` is None.

    It raises ``edits.NotOverriddenError``.
    """
    if path is None:
        return _at(place, _emptied)

    def freed(document: dict[str, Json]) -> dict[str, Json]:
        return edits.free(document, beneath(client, place) if len(path) > 1 else {}, path)

    return _at(place, freed)


def write(
    client: ConfigDBClient, place: DocumentAddress, kind: str, document: dict[str, Json], *, reason: str | None = None
) -> DocumentEdit:
    """Write a whole document; ``reason`` is for the history, where the user gave no comment."""
    return rewrite(client, place, lambda _: document, kind=kind, reason=reason)


def rewrite(
    client: ConfigDBClient,
    place: DocumentAddress,
    make: Make,
    *,
    kind: str = VALUES,
    reason: str | None = None,
) -> DocumentEdit:
    """Read a document, change it by ``make`` and write it; from the start again while others write in between, where
    the server can tell (ETag). ``reason`` is for the history, where the user gave no comment."""
    put = client.put_values if kind == VALUES else client.put_overrides
    sent: DocumentEdit | None = None
    for _ in range(_ATTEMPTS):
        before, etag = client.tagged(place.env, place.levels, place.definition, kind)
        if sent is not None and same(before, sent.after):
            return sent  # the first attempt was carried out, its answer was lost, and the second was refused
        change = DocumentEdit(place, kind, before, make(before), reason)
        if same(change.before, change.after):
            return change
        try:
            put(place.env, place.levels, place.definition, change.after, if_match=etag, comment=reason)
        except PreconditionError:
            sent = change
            continue
        client.changed(change)
        return change
    raise ConflictError(
        f"others change the {kind} of {place.data_source} at {place.level_text} all the time; nothing was written",
        way_out="run the command again",
    )


def add_overrides(client: ConfigDBClient, place: DocumentAddress, overrides: dict[str, Json]) -> DocumentEdit:
    """Override keys that aren't overridden there yet; those that are stay as they are."""
    return rewrite(client, place, lambda document: {**overrides, **document}, kind=OVERRIDES)


def overrides_beside(
    client: ConfigDBClient, place: DocumentAddress, *nodes: str
) -> tuple[DocumentAddress, dict[str, Json]]:
    """Return what is overridden at another node's level than ``place``, a node's too, and where that is.

    ``nodes``: values that the level may have for the other node, the likeliest first. The first one with overrides
    counts: they may have been made when the level's template was another.
    Raises ``SettingsError`` if the place is no node's, ``NotOverriddenError`` if the other node has no overrides there.
    """
    if not place.innermost or not place.levels:
        raise SettingsError("overrides are copied from node to node", way_out="name the node with --level nodes=ID")
    others = [replace(place, levels=(*place.levels[:-1], (place.levels[-1][0], node))) for node in dict.fromkeys(nodes)]
    for other in others:
        if found := read(client, other, OVERRIDES):
            return other, found
    raise edits.NotOverriddenError(
        f"{place.data_source} has no overrides at {' or '.join(other.level_text for other in others)}",
        way_out=f"`configdb-sync overrides --env {place.env}` lists them",
    )


def _emptied(document: dict[str, Json]) -> dict[str, Json]:
    if not document:
        raise edits.NotOverriddenError("nothing is overridden there", way_out=edits.ALL_OVERRIDES)
    return {}


def _at(place: DocumentAddress, make: Make) -> Make:
    """Return ``make`` with errors that name the place."""

    def made(document: dict[str, Json]) -> dict[str, Json]:
        try:
            return make(document)
        except SettingsError as error:
            raise located(error, place) from None

    return made


def located(error: SettingsError, place: DocumentAddress) -> ProductError:
    """Return the error of a wrong key with the place where it was looked for."""
    return error.located(data_source=f"{place.data_source} at {place.level_text}")


def _putting(place: DocumentAddress, path: KeyPath | None, value: Json, beneath: Callable[[], dict[str, Json]]) -> Make:
    if path is not None:
        # What is beneath is read after the document: it is never older than what is written against the ETag.
        return _at(place, lambda document: edits.put(document, beneath() if len(path) > 1 else {}, path, value))
    if not isinstance(value, dict):
        raise SettingsError(
            "a whole data source must be a mapping", way_out="name a key with --key, or --type json|yaml"
        )
    return lambda _: value


def parse_levels(texts: Sequence[str]) -> LevelPath:
    """Return the level path of ``nodes=46`` texts, each of which may list several, separated by commas.

    Raises ``SettingsError`` for a text without ``=``, and for a level named twice; ``UnicodeEncodeError`` for what is
    no text, as any call to a server would.
    """
    found: dict[str, str] = {}
    "".join(texts).encode()
    for item in (item.strip() for text in texts for item in text.split(",")):
        name, equals, value = item.partition("=")
        if not equals or not name or not value:
            raise SettingsError(f"level {item!r} isn't of the form NAME=VALUE", way_out="like --level nodes=46")
        if name in found:
            raise SettingsError(f"level {name} is given twice", way_out="one command works at one place")
        found[name] = value
    return tuple(found.items())
