"""An environment as a whole, read from one server and given to another, whichever two they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from configdb_sync.configdb.change import OVERRIDES, VALUES, Change, Place
from configdb_sync.configdb.changes import existing
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.faults import ConflictError
from configdb_sync.configdb.model import Component, Environment, ServerKind
from configdb_sync.errors import ConfigDBError, EnvironmentMismatchError, SettingsError
from configdb_sync.jsonvalues import EMPTY_DIGEST, Document, Json, same
from configdb_sync.names import LevelPath


@dataclass(frozen=True)
class Outline:
    """What an environment is made of: number, levels, and each component's data sources by the component's name."""

    env: int
    levels: tuple[str, ...]
    components: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Stored:
    """Both documents of one data source at one place."""

    levels: LevelPath
    data_source: str
    values: Document = field(repr=False)
    overrides: Document = field(repr=False)


@dataclass(frozen=True)
class Loaded:
    """What a load did: how many documents were written, and how many were so already."""

    written: int
    same: int


class Source:
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
            raise SettingsError("--level is for tuning-box 0.1.0 alone: this server tells what it has")
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

    def documents(self) -> Iterator[Stored]:
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
                    yield Stored(levels, name, values, overrides)


class Target:
    """One environment of one server, to be written."""

    def __init__(self, client: ConfigDBClient, outline: Outline) -> None:
        self._client = client
        self._outline = outline

    def load(self, documents: Iterable[Stored], *, replace: bool) -> Loaded:
        """Make the environment what the outline says and write the documents; what it has beside them stays.

        Without ``replace`` nothing is written if a document is there already that isn't empty and differs.
        ``documents`` is gone through twice. Raises ``ConflictError`` then, ``EnvironmentMismatchError`` if the
        environment has other levels.
        """
        known = list(documents) if not isinstance(documents, Sequence) else documents
        environment = self._client.environment(self._outline.env)
        if environment is not None:
            self._check_levels(environment)
            if not replace:
                self._check_free(environment, known)
        made = self._make(environment)
        ids = {name: definition.id for name, definition in self._client.definitions(made).items()}
        written = equal = 0
        for stored in known:
            for changed in self._write(stored, ids[stored.data_source]):
                written, equal = written + changed, equal + (not changed)
        return Loaded(written, equal)

    def _write(self, stored: Stored, definition: int) -> Iterator[bool]:
        env, client = self._outline.env, self._client
        place = Place(env, stored.levels, stored.data_source, definition, innermost=bool(stored.levels))
        for kind, wanted, there, put in (
            (VALUES, stored.values, client.values, client.put_values),
            (OVERRIDES, stored.overrides, client.overrides, client.put_overrides),
        ):
            before = there(env, stored.levels, definition)
            changed = not same(before, dict(wanted))
            if changed:
                put(env, stored.levels, definition, dict(wanted))
                client.changed(Change(place, kind, before, dict(wanted)))
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

    def _check_free(self, environment: Environment, documents: Iterable[Stored]) -> None:
        ids = {name: definition.id for name, definition in self._client.definitions(environment).items()}
        for stored in documents:
            definition = ids.get(stored.data_source)
            if definition is None:
                continue
            found: Json
            for kind, wanted in (("values", stored.values), ("overrides", stored.overrides)):
                found = self._client.tagged(environment.id, stored.levels, definition, kind)[0]
                if found and not same(found, dict(wanted)):
                    place = "/" + "".join(f"{name}/{value}/" for name, value in stored.levels)
                    raise ConflictError(
                        f"{stored.data_source} at {place} of environment {environment.id} has other {kind} already;"
                        " nothing was written",
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
    """Yield a path to each value of each level; a document hangs on its own level alone, so any way there will do."""
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
