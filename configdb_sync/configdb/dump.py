"""A whole environment: read from a server, written into another, and kept in files for their owner alone.

A dump is a folder of ``environment.json`` and one file for each data source at each place.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeGuard

from configdb_sync import jsonvalues
from configdb_sync.configdb.changes import existing
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.model import (
    OVERRIDES,
    VALUES,
    Component,
    DocumentAddress,
    DocumentEdit,
    Environment,
    ServerKind,
)
from configdb_sync.errors import ConfigDBError, ConflictError, DocumentError, EnvironmentMismatchError, SettingsError
from configdb_sync.jsonvalues import EMPTY_DIGEST, Document, Json, same
from configdb_sync.names import LevelPath, place_of
from configdb_sync.store.encryption import Sealing
from configdb_sync.store.keyring import Keyring

FORMAT = 1
_ANOTHER = "name a folder that `configdb-sync dump` wrote"
OUTLINE = "environment.json"


@dataclass(frozen=True)
class Outline:
    """What an environment is made of: number, levels, and each component's data sources by the component's name."""

    env: int
    levels: tuple[str, ...]
    components: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class StoredDocuments:
    """Both documents of one data source at one place."""

    levels: LevelPath
    data_source: str
    values: Document = field(repr=False)
    overrides: Document = field(repr=False)


@dataclass(frozen=True)
class LoadResult:
    """What a load did: how many documents were written, and how many were so already."""

    written: int
    same: int


class EnvironmentExport:
    """One environment of one server, to be read."""

    def __init__(self, client: ConfigDBClient, env: int, places: Sequence[LevelPath]) -> None:
        """Look at the environment.

        ``places`` are the level paths to read beside the root, for servers that don't list them (0.1.0); elsewhere they
        must be empty. Raises ``MissingError`` if the environment isn't there, ``SettingsError`` for places too few or
        too many.
        """
        self._client = client
        self._environment = existing(client, env)
        self._definitions = client.definitions(self._environment)
        listed = _listed(client, self._environment)
        if listed is None and not places:
            raise SettingsError(
                f"{client.base} is tuning-box 0.1.0, which doesn't tell which nodes it has data of",
                way_out="name them: --level nodes=1 --level nodes=2 ...",
            )
        if listed is not None and places:
            raise SettingsError(
                f"--level is for tuning-box 0.1.0 alone: {client.base} tells what it has", way_out="leave --level out"
            )
        self._places = [(), *(places if listed is None else _places(self._environment, listed))]

    @property
    def outline(self) -> Outline:
        """What the environment is made of."""
        own = set(self._environment.components)
        components = {
            component.name: tuple(definition.name for definition in component.definitions)
            for component in self._client.components()
            if component.id in own
        }
        return Outline(self._environment.id, self._environment.levels, components)

    def documents(self) -> Iterator[StoredDocuments]:
        """Yield the documents that aren't empty, place by place."""
        env = self._environment.id
        for levels in self._places:
            etags = self._client.etags(env, levels)
            for name, definition in sorted(self._definitions.items()):
                known = None if etags is None else etags.get(definition.id)
                if known is not None and known.values == known.overrides == EMPTY_DIGEST:
                    continue
                values = self._client.values(env, levels, definition.id)
                overrides = self._client.overrides(env, levels, definition.id)
                if values or overrides:
                    yield StoredDocuments(levels, name, values, overrides)


class EnvironmentImport:
    """One environment of one server, to be written."""

    def __init__(self, client: ConfigDBClient, outline: Outline) -> None:
        self._client = client
        self._outline = outline

    def load(self, documents: Iterable[StoredDocuments], *, replace: bool) -> LoadResult:
        """Make the environment what the outline says and write the documents; what it has beside them stays.

        Without ``replace`` nothing is written if a document is there already that isn't empty and differs.
        ``documents`` is iterated twice. Raises ``ConflictError`` then, ``EnvironmentMismatchError`` if the
        environment has other levels.
        """
        environment = self._client.environment(self._outline.env)
        if environment is not None:
            self._check_levels(environment)
            if not replace:
                self._check_free(environment, documents)
        made = self._make(environment)
        ids = {name: definition.id for name, definition in self._client.definitions(made).items()}
        written = equal = 0
        for stored in documents:
            for changed in self._write(stored, ids[stored.data_source]):
                written, equal = written + changed, equal + (not changed)
        return LoadResult(written, equal)

    def _write(self, stored: StoredDocuments, definition: int) -> Iterator[bool]:
        env, client = self._outline.env, self._client
        place = DocumentAddress(env, stored.levels, stored.data_source, definition, innermost=bool(stored.levels))
        for kind, wanted, there, put in (
            (VALUES, stored.values, client.values, client.put_values),
            (OVERRIDES, stored.overrides, client.overrides, client.put_overrides),
        ):
            before = there(env, stored.levels, definition)
            changed = not same(before, dict(wanted))
            if changed:
                put(env, stored.levels, definition, dict(wanted))
                client.changed(DocumentEdit(place, kind, before, dict(wanted)))
            if changed or wanted:
                yield changed

    def _check_levels(self, environment: Environment) -> None:
        there, wanted = environment.levels, self._outline.levels
        if self._client.server() is ServerKind.LEGACY:
            there, wanted = tuple(sorted(there)), tuple(sorted(wanted))
        if there != wanted:
            raise EnvironmentMismatchError(
                f"environment {environment.id} at {self._client.base} has the levels {list(environment.levels)},"
                f" the dump {list(self._outline.levels)}",
                way_out="load it under another number with --env",
            )

    def _check_free(self, environment: Environment, documents: Iterable[StoredDocuments]) -> None:
        ids = {name: definition.id for name, definition in self._client.definitions(environment).items()}
        for stored in documents:
            definition = ids.get(stored.data_source)
            if definition is None:
                continue
            for kind, wanted in ((VALUES, stored.values), (OVERRIDES, stored.overrides)):
                found = self._client.tagged(environment.id, stored.levels, definition, kind)[0]
                if found and not same(found, dict(wanted)):
                    raise ConflictError(
                        f"{stored.data_source} at {place_of(stored.levels)} of environment {environment.id} has other"
                        f" {kind} already; nothing was written",
                        way_out="--replace overwrites what differs",
                    )

    def _make(self, environment: Environment | None) -> Environment:
        existing = {component.name: component for component in self._client.components()}
        components = [self._component(name, names, existing) for name, names in self._outline.components.items()]
        if environment is None:
            return self._client.create_environment(
                self._outline.env, [component.id for component in components], self._outline.levels
            )
        for component in components:
            if component.id not in environment.components:
                environment = self._client.attach_component(environment, component.id)
        return environment

    def _component(self, name: str, data_sources: Sequence[str], existing: Mapping[str, Component]) -> Component:
        component = existing.get(name) or self._client.create_component(name, data_sources)
        there = {definition.name for definition in component.definitions}
        for data_source in data_sources:
            if data_source not in there:
                self._client.add_definition(component.id, data_source)
        return component


def renumbered(outline: Outline, env: int) -> Outline:
    """Return the outline for another number; components named after the environment are named after the new one."""
    end = f"/{outline.env}"
    components = {
        f"{name.removesuffix(end)}/{env}" if name.endswith(end) else name: data_sources
        for name, data_sources in outline.components.items()
    }
    return Outline(env, outline.levels, components)


def _listed(client: ConfigDBClient, environment: Environment) -> dict[str, tuple[str, ...]] | None:
    """Return the values of each level, None where the server doesn't tell."""
    if client.server() is ServerKind.LEGACY:
        return None
    return {level: client.level_values(environment.id, level) for level in environment.levels}


def _places(environment: Environment, listed: Mapping[str, Sequence[str]]) -> Iterator[LevelPath]:
    """Yield a path to each value of each level; a document belongs to its own level, so any path to it will do."""
    above: LevelPath = ()
    for name in environment.levels:
        values = listed.get(name, ())
        for value in values:
            yield (*above, (name, value))
        deeper = environment.levels[-1] != name and any(listed.get(other) for other in environment.levels)
        if not values and deeper:
            raise ConfigDBError(
                f"environment {environment.id} has nothing at the level {name}: what is below it can't be reached"
            )
        above = (*above, (name, values[0])) if values else above


class DumpWriter:
    """Writes a dump into a folder that isn't there yet or is empty; with ``keyring`` encrypted (U30)."""

    def __init__(self, folder: Path, keyring: Keyring | None = None) -> None:
        """Make the folder. Raises ``SettingsError`` if it can't be made or holds something."""
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if any(folder.iterdir()):
                raise SettingsError(f"{folder} isn't empty", way_out="name a new folder")
            folder.chmod(0o700)
        except OSError as error:
            raise SettingsError(
                f"the folder {folder} can't be used: {error.strerror}", way_out="name another folder"
            ) from error
        self._folder = folder
        self._keyring = keyring

    def document(self, stored: StoredDocuments) -> None:
        """Write one data source at one place."""
        content = {
            "levels": [list(pair) for pair in stored.levels],
            "data_source": stored.data_source,
            "values": stored.values,
            "overrides": stored.overrides,
        }
        self._write(_name(stored.levels, stored.data_source), content)

    def outline(self, outline: Outline) -> None:
        """Write what the environment consists of. This comes last, so an interrupted dump is not taken for one."""
        components = [{"name": name, "data_sources": list(names)} for name, names in outline.components.items()]
        content = {
            "format": FORMAT,
            "environment": outline.env,
            "levels": list(outline.levels),
            "components": components,
        }
        self._write(OUTLINE, content)

    def _write(self, name: str, content: Json) -> None:
        path = self._folder / name
        try:
            text = f"{json.dumps(content, indent=1, allow_nan=False)}\n".encode("ascii")
            handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(text if self._keyring is None else self._keyring.seal(text))
        except OSError as error:
            raise SettingsError(f"{path} can't be written: {error.strerror}", way_out="name a new folder") from error


class DumpFiles:
    """The documents of a dump; each iteration reads the files anew, one at a time.

    Raises ``DocumentError`` for a file that isn't of a dump.
    """

    def __init__(self, paths: Sequence[Path], sealing: Sealing) -> None:
        self._paths = paths
        self._sealing = sealing

    def __iter__(self) -> Iterator[StoredDocuments]:
        return (_stored(path, self._sealing) for path in self._paths)


def read(folder: Path, keyring: Keyring | None = None) -> tuple[Outline, DumpFiles]:
    """Return a dump of a folder; all its files are read once, so that a broken one is found before anything is sent.

    Raises ``SettingsError`` if there is no dump, ``DocumentError`` for a file that isn't of one, ``StateError`` for one
    that is encrypted with a key that isn't in ``keyring``.
    """
    sealing = Sealing(f"the dump {folder}", keyring)
    if not (folder / OUTLINE).is_file():
        raise SettingsError(f"{folder} holds no dump: there is no {OUTLINE}", way_out=_ANOTHER)
    outline = _outline(folder / OUTLINE, sealing)
    documents = DumpFiles(sorted(path for path in folder.glob("*.json") if path.name != OUTLINE), sealing)
    known = {name for names in outline.components.values() for name in names}
    for stored in documents:
        if stored.data_source not in known:
            raise DocumentError(
                f"{folder} has a document of {stored.data_source!r}, which {OUTLINE} doesn't name", way_out=_ANOTHER
            )
    return outline, documents


def _name(levels: LevelPath, data_source: str) -> str:
    """Return a file's name: for people what it begins with, for the rest a digest of place and data source."""
    place = [value for pair in levels for value in pair] or ["root"]
    digest = hashlib.sha256(jsonvalues.dumps([list(map(list, levels)), data_source]).encode("ascii")).hexdigest()
    return f"{re.sub(r'[^A-Za-z0-9_-]+', '_', '-'.join([*place, data_source]))[:80]}.{digest[:12]}.json"


def _content(path: Path, sealing: Sealing) -> dict[str, Json]:
    try:
        content = jsonvalues.loads(sealing.open(path.read_bytes()))
    except OSError as error:
        raise SettingsError(f"{path} can't be read: {error.strerror}", way_out=_ANOTHER) from error
    except ValueError as error:
        raise DocumentError(f"{path} isn't JSON of a dump: {type(error).__name__}", way_out=_ANOTHER) from None
    if not isinstance(content, dict):
        raise DocumentError(f"{path} isn't of a dump: it holds no object", way_out=_ANOTHER)
    return content


def _outline(path: Path, sealing: Sealing) -> Outline:
    content = _content(path, sealing)
    env, levels, components = (content.get(name) for name in ("environment", "levels", "components"))
    if content.get("format") != FORMAT:
        raise DocumentError(f"{path} isn't of format {FORMAT}", way_out=_ANOTHER)
    if not isinstance(env, int) or isinstance(env, bool) or not _texts(levels) or not isinstance(components, list):
        raise DocumentError(
            f"{path} isn't of a dump: environment, levels or components are missing or wrong", way_out=_ANOTHER
        )
    named = {}
    for component in components:
        if not isinstance(component, dict) or not isinstance(component.get("name"), str):
            raise DocumentError(f"{path} has a component without a name", way_out=_ANOTHER)
        if not _texts(component.get("data_sources")):
            raise DocumentError(f"{path} has a component without data sources: {component['name']!r}", way_out=_ANOTHER)
        named[component["name"]] = tuple(component["data_sources"])
    return Outline(env, tuple(levels), named)


def _stored(path: Path, sealing: Sealing) -> StoredDocuments:
    content = _content(path, sealing)
    levels, name, values, overrides = (content.get(key) for key in ("levels", "data_source", "values", "overrides"))
    if not isinstance(levels, list) or not all(_texts(pair) and len(pair) == 2 for pair in levels):
        raise DocumentError(f"{path} isn't of a dump: its levels are wrong", way_out=_ANOTHER)
    if not isinstance(name, str) or not isinstance(values, dict) or not isinstance(overrides, dict):
        raise DocumentError(
            f"{path} isn't of a dump: data source, values or overrides are missing or wrong", way_out=_ANOTHER
        )
    return StoredDocuments(tuple((pair[0], pair[1]) for pair in levels), name, values, overrides)


def _texts(value: Json) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
