"""What one environment has in ConfigDB: its levels and data sources, and the making of what it lacks (U6)."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence

from configdb_sync import addresses
from configdb_sync.configdb import changes
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.model import Component, Definition, DocumentAddress, Environment, Etags, ServerKind
from configdb_sync.errors import ConfigDBError, EnvironmentMismatchError, NodeError, ProductError, UnsupportedError
from configdb_sync.jsonvalues import EMPTY_DIGEST, Document, document_digest
from configdb_sync.names import RECORDS, LevelPath, component_name, records_component
from configdb_sync.overrides.notes import to_records
from configdb_sync.setting_values import DEFAULT_LEVELS, Levels
from configdb_sync.sync.decide import Level
from configdb_sync.sync.owners import NoOwners, Owners
from configdb_sync.sync.plan import EnvironmentChange
from configdb_sync.sync.run_options import RunOptions
from configdb_sync.sync.standing_overrides import StandingOverride, from_records


class RemoteEnvironment:
    """The environment in ConfigDB as one run sees it. Safe for several threads; one of them at a time makes things."""

    def __init__(self, client: ConfigDBClient, options: RunOptions, owners: Owners | None = None) -> None:
        self._client = client
        self._number = options.environment
        self._addresses = options.addresses
        self._levels = tuple(name for name, _ in options.levels)
        self._recorded: Levels | None = None
        self._setting = self._tenant = options.tenant
        self._owners: Owners = owners or NoOwners()
        self._registered: dict[str, int] | None = None
        self._components: dict[int, str] = {}
        self._records: int | None = None
        self._told = EMPTY_DIGEST
        """Digest of the environment's records without the notes on overrides, which no node's state depends on."""
        self._standing: tuple[StandingOverride, ...] = ()
        self._without_records = False
        self._lock = threading.Lock()
        self.moving = threading.Lock()
        """Held while an override is moved: a document over the nodes' is changed for all of them."""
        self._environment: Environment | None = None
        self._definitions: dict[str, Definition] = {}
        self._refused: dict[str, ConfigDBError] = {}
        self._absent_at_start = False
        self._made = False
        self._missing_at_start: set[str] = set()
        self._above: dict[tuple[LevelPath, int], Level] = {}
        self._claimed: dict[str, str] = {}
        self._etags: dict[LevelPath, dict[int, Etags] | None] = {}

    def load(self) -> None:
        """Read the environment.

        Raises ``EnvironmentMismatchError`` if it has levels that the settings don't know; ``ConfigDBError``.
        """
        self._environment = self._client.environment(self._number)
        self._absent_at_start = self._environment is None
        if self._environment is None:
            self._tenant = self._owners.home(self._number, None, self._setting)
            return
        found = self._environment.levels
        # 0.1.0 names the levels in any order; its merge keeps the right one.
        any_order = self._client.server() is ServerKind.LEGACY and sorted(found) == sorted(self._levels)
        if found != self._levels[: len(found)] and not any_order:
            raise EnvironmentMismatchError(
                f"environment {self._number} in ConfigDB has the hierarchy levels {_listed(found)},"
                f" the settings say {_listed(self._levels)}; nothing was changed",
                way_out="name its levels with --levels, outermost first (nodes=%{uid} is the default)",
            )
        self._know(self._environment)
        recorded = None
        if self._records is not None:
            told = self._client.values(self._number, (), self._records)
            self._tell(told)
            recorded = told["tenant"] if isinstance(told.get("tenant"), str) else None
            self._standing = from_records(told)
            self._check_templates(addresses.from_records(told))
        self._tenant = self._owners.home(self._number, recorded, self._setting)

    def _check_templates(self, recorded: Levels | None) -> None:
        """Refuse other templates than the environment's nodes are kept by: no node would find its overrides (U6)."""
        self._recorded = recorded
        if recorded is not None and not self._addresses.begin_as(recorded):
            raise EnvironmentMismatchError(
                f"environment {self._number} keeps its nodes at {addresses.shown(recorded)},"
                f" the settings say {addresses.shown(self._addresses.levels)}; nothing was changed",
                way_out=f"use --levels '{addresses.shown(recorded)}'; to begin anew at other places, first run"
                f" `configdb-sync del --env {self._number} -r {RECORDS} --key levels`",
            )

    def _record_levels(self) -> None:
        """Note the templates where commands and later runs find them, unless they are the default, and always were."""
        levels = self._addresses.levels
        noted = levels == DEFAULT_LEVELS if self._recorded is None else len(self._recorded) == len(levels)
        if self._records is None or noted:
            return
        root = DocumentAddress(self._number, (), RECORDS, self._records, innermost=False)
        self._tell(changes.rewrite(self._client, root, lambda found: addresses.to_records(found, levels)).after)
        self._recorded = levels

    def _know(self, environment: Environment, components: Sequence[Component] | None = None) -> None:
        listed = self._client.components() if components is None else components
        definitions = self._client.definitions(environment, listed)
        self._components = {component.id: component.name for component in listed}
        own = definitions.get(RECORDS)
        if own is not None and self._component_of(own) == records_component(self._number):
            self._records = own.id
            definitions = {name: found for name, found in definitions.items() if name != RECORDS}
        self._definitions = definitions

    def _component_of(self, definition: Definition) -> str | None:
        return None if definition.component_id is None else self._components.get(definition.component_id)

    def check_owner(self, data_source: str) -> None:
        """Raise ``ProductError`` if a data source's tenant is marked for deletion: it isn't worked on then."""
        self._owners.check(self._number, data_source, self._tenant)

    def register(self) -> None:
        """Let the registry know the environment's home and the data sources in its component, if it is there."""
        if self._environment is None:
            return
        name = self._component()
        ours = {one.name: one.id for one in self._definitions.values() if self._component_of(one) == name}
        if ours != self._registered:
            self._owners.made(self._number, self._tenant, ours)
            self._registered = ours

    @property
    def records(self) -> int | None:
        """The definition that holds our own records; None if the environment has none (by now)."""
        return self._records

    @property
    def standing(self) -> tuple[StandingOverride, ...]:
        """The overrides that hold for all nodes of the environment."""
        return self._standing

    @property
    def exists(self) -> bool:
        """Whether the environment is in ConfigDB by now."""
        return self._environment is not None

    def reaches(self, levels: LevelPath) -> bool:
        """Whether the environment has all these levels by now; nothing is stored below the last that it has."""
        return self._environment is not None and len(levels) <= len(self._environment.levels)

    def may_hold(self, levels: LevelPath) -> bool:
        """Whether a document may be stored at these levels; none is in an environment that this run has just made.

        What others store there meanwhile is found when the effective data is compared with the prediction (U20).
        """
        return self.reaches(levels) and not self._made

    def met_others(self) -> None:
        """Ask about the nodes that follow even if this run made the environment: others write here."""
        with self._lock:
            self._made = False
            self._etags.clear()

    @property
    def names(self) -> tuple[str, ...]:
        """The data sources that the environment has by now."""
        return tuple(self._definitions)

    def is_innermost(self, levels: LevelPath) -> bool:
        """Tell whether a level is that of single nodes."""
        return 0 < len(levels) == len(self._levels)

    def definition(self, data_source: str) -> int | None:
        """Return the id of a data source's resource definition, None if the environment has none of that name."""
        found = self._definitions.get(data_source)
        return None if found is None else found.id

    @property
    def claimed(self) -> Mapping[str, str]:
        """The nodes that this run has examined, by the value of their level."""
        return self._claimed

    def claim(self, levels: LevelPath, node: str) -> None:
        """Take the place of a node in the hierarchy; ``NodeError`` if another node of this run has it already.

        A document belongs to the value of its innermost level, whatever the levels over it are: two nodes there would
        overwrite each other's.
        """
        name, value = levels[-1]
        with self._lock:
            owner = self._claimed.setdefault(value, node)
        if owner != node:
            raise NodeError(
                f"its hierarchy level {name} is {value!r}, as that of node {owner}: both would share one document",
                way_out="the last level of --levels must differ for each node, as nodes=%{uid} does",
            )

    def want(self, data_sources: Iterable[str]) -> None:
        """Note data sources that nodes have or may get, for ``change``."""
        with self._lock:
            self._missing_at_start.update(name for name in data_sources if name not in self._definitions)

    @property
    def change(self) -> EnvironmentChange:
        """What the environment lacked of all that was wanted; one of which nothing is wanted isn't made."""
        wanted = self._absent_at_start and bool(self._missing_at_start)
        return EnvironmentChange(wanted, self._component(), tuple(sorted(self._missing_at_start)))

    @property
    def made(self) -> EnvironmentChange:
        """What of ``change`` is there by now."""
        made = tuple(sorted(name for name in self._missing_at_start if name in self._definitions))
        return EnvironmentChange(self._absent_at_start and self.exists, self._component(), made)

    def ensure(self, data_sources: Collection[str]) -> None:
        """Make the environment and the tenant's data sources where they are missing.

        What the server can't add is remembered: ``refusal`` tells. Raises ``ConfigDBError`` as the client.
        """
        with self._lock:
            missing = [name for name in data_sources if name not in self._definitions and name not in self._refused]
            missing = [name for name in missing if self._may_make(name)]
            if self._environment is None:
                self._create(missing)
            elif len(self._environment.levels) < len(self._levels):
                self._environment = self._client.extend_levels(self._environment, self._levels)
            if self._records is None and not self._without_records:
                self._add_records(self._existing())
            if missing and any(name not in self._definitions for name in missing):
                self._add(self._existing(), missing)
            self._record_levels()
            self.register()

    def may_work_on(self, data_sources: Iterable[str]) -> bool:
        """Tell whether no data source's tenant is marked for deletion."""
        return all(self._may_make(name) for name in data_sources)

    def _may_make(self, data_source: str) -> bool:
        try:
            self.check_owner(data_source)
        except ProductError:
            return False
        return True

    def refusal(self, data_source: str) -> ConfigDBError | None:
        """Return why the server can't hold a data source, None if it can."""
        return self._refused.get(data_source)

    def _existing(self) -> Environment:
        assert self._environment is not None
        return self._environment

    def _component(self) -> str:
        return component_name(self._tenant, self._number)

    def _create(self, data_sources: Collection[str]) -> None:
        component = self._client.create_component(self._component(), list(data_sources))
        records = self._client.create_component(records_component(self._number), [RECORDS])
        components = [component.id, records.id]
        self._environment = self._client.create_environment(self._number, components, self._levels)
        self._made = self._environment.made
        self._know(self._environment, [component, records])
        if self._records is not None:
            document = addresses.to_records({"tenant": self._tenant}, self._addresses.levels)
            self._client.put_values(self._number, (), self._records, document)
            self._tell(document)
            self._recorded = self._addresses.levels

    def _add(self, environment: Environment, data_sources: Collection[str]) -> None:
        try:
            component = self._client.create_component(self._component(), list(data_sources))
            if component.id not in environment.components:
                self._environment = self._client.attach_component(environment, component.id)
        except ConfigDBError as error:
            self._refused |= dict.fromkeys(data_sources, error)
            return
        there = {definition.name for definition in component.definitions}
        for name in data_sources:
            if name not in there:
                try:
                    self._client.add_definition(component.id, name)
                except ConfigDBError as error:
                    self._refused[name] = error
        self._know(self._existing())

    def _add_records(self, environment: Environment) -> None:
        # A server that can't attach a component to an existing environment keeps none: then only this master's own
        # records hold.
        try:
            component = self._client.create_component(records_component(self._number), [RECORDS])
            self._environment = self._client.attach_component(environment, component.id)
            self._know(self._environment)
        except UnsupportedError:
            self._without_records = True

    def _tell(self, records: Document) -> None:
        self._told = document_digest(to_records(records, ()))

    def without_notes(self, levels: LevelPath, etags: Mapping[int, Etags]) -> Mapping[int, Etags]:
        """Return the digests at a level as far as a node's state depends on them: not on notes on overrides."""
        found = None if self._records is None else etags.get(self._records)
        if found is None or self._records is None:
            return etags
        values = found.values if levels else self._told
        return {**etags, self._records: Etags(values, found.overrides, EMPTY_DIGEST)}

    def etags_above(self, levels: LevelPath) -> list[Mapping[int, Etags]] | None:
        """Return the digests at each level over the node's, root first, ``without_notes``; None if the server has
        none."""
        found: list[Mapping[int, Etags]] = []
        for depth in range(len(levels)):
            with self._lock:
                if levels[:depth] not in self._etags:
                    self._etags[levels[:depth]] = self._client.etags(self._number, levels[:depth])
                etags = self._etags[levels[:depth]]
            if etags is None:
                return None
            found.append(self.without_notes(levels[:depth], etags))
        return found

    def above(self, definition: int, levels: LevelPath) -> tuple[Level, ...]:
        """Return the levels over the node's for one data source, root first; each is read once a run."""
        return tuple(self._level(levels[:depth], definition) for depth in range(len(levels)))

    def _level(self, levels: LevelPath, definition: int) -> Level:
        if not self.may_hold(levels):
            return {}, {}
        with self._lock:
            if levels not in self._etags:
                self._etags[levels] = self._client.etags(self._number, levels)
            etags = self._etags[levels]
            known = None if etags is None else etags.get(definition)
            if known is not None and known.values == known.overrides == EMPTY_DIGEST:
                return {}, {}
            if (levels, definition) not in self._above:
                self._above[levels, definition] = (
                    self._client.values(self._number, levels, definition),
                    self._client.overrides(self._number, levels, definition),
                )
            return self._above[levels, definition]


def _listed(levels: tuple[str, ...]) -> str:
    return ", ".join(levels) if levels else "(none)"
