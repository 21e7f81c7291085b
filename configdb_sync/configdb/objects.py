"""Components, definitions and environments: what there is in ConfigDB, and making what is missing (U6)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from configdb_sync import jsonvalues
from configdb_sync.configdb import answers, urls
from configdb_sync.configdb.calls import Call
from configdb_sync.configdb.faults import ConflictError, LostError, UnsupportedError
from configdb_sync.configdb.link import Link, json_body
from configdb_sync.configdb.model import Component, Definition, Environment, ServerKind
from configdb_sync.errors import (
    ConfigDBError,
    MissingError,
    SettingsError,
    UnavailableError,
    UnexpectedAnswerError,
)
from configdb_sync.jsonvalues import Json
from configdb_sync.names import NAME_LIMIT

T = TypeVar("T")

_ATTACHING = 5


class Objects(Link):
    """The client's calls about what holds documents."""

    def components(self) -> list[Component]:
        """Return all components with their definitions."""
        return self._get("/components", answers.components)

    def environment(self, env: int) -> Environment | None:
        """Return an environment, or None if the server says that there is none."""
        path = urls.environment_path(env)
        try:
            found = self._get(path, answers.environment)
        except MissingError:
            return None
        if found.id != env:
            raise UnexpectedAnswerError(
                f"GET {self.base}{path} answered with environment {found.id}",
                way_out=f"is {self.base} a ConfigDB?",
            )
        return found

    def definitions(self, environment: Environment) -> dict[str, Definition]:
        """Return the environment's definitions by name.

        Raises ``ConfigDBError`` if a name stands twice in it: the server then fails every access by name.
        """
        listed = {component.id: component for component in self.components()}
        found: dict[str, Definition] = {}
        for number in environment.components:
            component = listed.get(number)
            if component is None:
                raise UnexpectedAnswerError(
                    f"environment {environment.id} has component {number}, which {self.base} doesn't list"
                )
            for definition in component.definitions:
                other = found.setdefault(definition.name, definition)
                if other.id != definition.id:
                    raise ConfigDBError(
                        f"data source {definition.name} stands twice in environment {environment.id}: "
                        f"definitions {other.id} (component {other.component_id}) and "
                        f"{definition.id} (component {definition.component_id})",
                        way_out="take one of the two out of the environment",
                        data_source=definition.name,
                    )
        return found

    def create_component(self, name: str, data_sources: Sequence[str]) -> Component:
        """Create a component with definitions of these names and return it.

        If one of this name is there already (409, or the connection broke after it was made) that one is returned,
        whatever it holds. Raises ``SettingsError`` for names that the server can't keep, or that stand twice.
        """
        for text in (name, *data_sources):
            _check_name(text)
        if len(set(data_sources)) != len(data_sources):
            raise SettingsError(f"a data source of component {name} is named twice")
        body = {
            "name": name,
            "resource_definitions": [{"name": text, "content": None} for text in data_sources],
        }

        def look() -> Component | None:
            return next((one for one in self.components() if one.name == name), None)

        return self._create("/components", body, answers.component, look)

    def create_environment(self, env: int, components: Sequence[int], levels: Sequence[str]) -> Environment:
        """Create an environment and return it; one that is there already must be equal, else ``ConflictError``
        (S04)."""
        for level in levels:
            urls.segment(level, "the level")
        wanted = Environment(env, tuple(components), tuple(levels))
        body = {"id": env, "components": list(components), "hierarchy_levels": list(levels)}
        created = self._create("/environments", body, answers.environment, lambda: self.environment(env))
        if created.id != env or set(created.components) != set(components) or not self._same_levels(created, wanted):
            raise ConflictError(
                f"environment {env} is there with components {list(created.components)} and levels "
                f"{list(created.levels)}, not {list(components)} and {list(levels)}",
                way_out="another run made it meanwhile: run again",
            )
        return created

    def attach_component(self, environment: Environment, component: int) -> Environment:
        """Add a component to an environment and return the environment as it then is.

        Others may do the same at once: what they attached stays. Raises ``UnsupportedError`` on 0.1.0.
        """
        self._refuse_legacy(f"component {component} can't be added to environment {environment.id}")
        current: Environment | None = environment
        path = urls.environment_path(environment.id)
        for _ in range(_ATTACHING):
            current = self.environment(environment.id)
            if current is None:
                raise MissingError(f"environment {environment.id} isn't there any more at {self.base}")
            if component in current.components:
                return current
            body = jsonvalues.dumps({"components": [*current.components, component]}).encode("ascii")
            try:
                self._caller.call(Call("PATCH", path, body))
            except (LostError, ConflictError):
                continue
            # PATCH replaces the set: only a second look shows whether another writer's came after ours.
        raise ConflictError(f"component {component} doesn't stay in environment {environment.id}: others change it")

    def extend_levels(self, environment: Environment, levels: Sequence[str]) -> Environment:
        """Append hierarchy levels to an environment, so that they are ``levels``, and return it as it then is.

        Only appending is done: taking a level out would take its documents away. Raises
        ``ConflictError`` if ``levels`` doesn't begin with those that are there, ``UnsupportedError`` on 0.1.0.
        """
        self._refuse_legacy(f"environment {environment.id} can't get the levels {list(levels)}")
        for level in levels:
            urls.segment(level, "the level")
        wanted = tuple(levels)
        for _ in range(_ATTACHING):
            current = self.environment(environment.id)
            if current is None:
                raise MissingError(f"environment {environment.id} isn't there any more at {self.base}")
            if current.levels == wanted:
                return current
            if current.levels != wanted[: len(current.levels)]:
                break
            body = jsonvalues.dumps({"hierarchy_levels": list(wanted)}).encode("ascii")
            try:
                self._caller.call(Call("PATCH", urls.environment_path(environment.id), body))
            except (LostError, ConflictError):
                continue
        raise ConflictError(f"environment {environment.id} can't get the levels {list(levels)} by appending")

    def level_values(self, environment: int, level: str) -> tuple[str, ...]:
        """Return the values that a hierarchy level has in an environment: the nodes that ConfigDB knows, for ``nodes``.

        Raises ``UnsupportedError`` on 0.1.0.
        """
        self._refuse_legacy(f"the nodes of environment {environment} can't be listed")
        path = f"{urls.environment_path(environment)}/hierarchy_levels/{urls.segment(level, 'the level')}"
        return self._get(path, answers.level_values)

    def add_definition(self, component: int, name: str) -> Definition:
        """Add a definition to a component and return it, or the one of this name that is there already.

        Raises ``UnsupportedError`` on 0.1.0.
        """
        _check_name(name)
        self._refuse_legacy(f"data source {name} can't be added to component {component}")
        there = self._definitions_named(component, name)
        if there:
            return there[0]
        body = {"name": name, "component_id": component, "content": None}

        def look() -> Definition | None:
            return next(iter(self._definitions_named(component, name)), None)

        made = self._create("/resource_definitions", body, answers.definition, look)
        # Names aren't unique on the server: of two that were added at once the older one stays.
        first = look()
        if first is None or first.id == made.id:
            return made
        self._caller.call(Call("DELETE", f"/resource_definitions/{made.id}", accept=frozenset({404})))
        return first

    def environments(self) -> list[Environment]:
        """Return all environments."""
        return self._get("/environments", answers.environments)

    def move_definition(self, definition: int, component: int) -> None:
        """Put a definition into another component; its values hang on its id and stay. Twice is as good as once.

        Raises ``UnsupportedError`` on 0.1.0, ``MissingError`` if it isn't there, ``ConflictError`` if the component has
        one of that name.
        """
        self._refuse_legacy(f"definition {definition} can't be moved to component {component}")
        body = json_body({"component_id": component})
        self._call(Call("PATCH", f"/resource_definitions/{definition}", body, repeatable=True))

    def delete_definition(self, definition: int) -> None:
        """Delete a definition with its values in all environments; one that isn't there is as good.

        Raises ``UnsupportedError`` on 0.1.0.
        """
        self._refuse_legacy(f"definition {definition} can't be deleted")
        call = Call("DELETE", f"/resource_definitions/{definition}", repeatable=True, accept=frozenset({404}))
        self._call(call)

    def delete_empty_component(self, component: int) -> bool:
        """Delete a component that has no definitions and return True; one that isn't there (any more) is as good.

        Returns False if it has definitions. Raises ``UnsupportedError`` on servers other than the embedded one: these
        would delete it with whatever was put into it meanwhile.
        """
        if self.server() is not ServerKind.EMBEDDED:
            raise UnsupportedError(
                f"component {component} can't be deleted: {self.base} has no way to do so only if it is empty",
                way_out="it does no harm",
            )
        call = Call("DELETE", f"/components/{component}/empty", repeatable=True, accept=frozenset({404}))
        try:
            self._call(call)
        except ConflictError:
            return False
        return True

    def _create(self, path: str, body: dict[str, Json], parse: Callable[[Json], T], look: Callable[[], T | None]) -> T:
        """POST and return what was made; where that didn't work, or isn't known, return what ``look`` finds (S04)."""
        call = Call("POST", path, json_body(body))
        try:
            answer = self._call(call)
        except (ConflictError, UnavailableError) as error:
            try:
                found = look()
            except ConfigDBError:
                raise error from None
            if found is None:
                raise
            return found
        return self._read(call, answer, parse)

    def _definitions_named(self, component: int, name: str) -> list[Definition]:
        found = next((one for one in self.components() if one.id == component), None)
        if found is None:
            raise MissingError(f"component {component} isn't there at {self.base}")
        return [definition for definition in found.definitions if definition.name == name]

    def _refuse_legacy(self, what: str) -> None:
        if self.server() is ServerKind.LEGACY:
            raise UnsupportedError(
                f"{what}: {self.base} is tuning-box 0.1.0, which can't change what was once made",
                way_out="make it whole before the first run, or use the embedded server",
            )

    def _same_levels(self, one: Environment, other: Environment) -> bool:
        # 0.1.0 names the levels in any order; its merge keeps the right one.
        if self.server() is ServerKind.LEGACY:
            return sorted(one.levels) == sorted(other.levels)
        return one.levels == other.levels


def _check_name(name: str) -> None:
    if not name or len(name) > NAME_LIMIT or "\0" in name:
        raise SettingsError(f"{name[:60]!r} is no name: 1 to {NAME_LIMIT} characters without NUL")
