"""The ConfigDB client: the calls that the product makes, the same against all three servers (U6, U9, U13, U16, U17).

All methods raise the errors of ``ApiSession.call`` beside those that they name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Self, TypeVar

from configdb_sync import jsonvalues
from configdb_sync.configdb import api_paths, level_merge, model
from configdb_sync.configdb.connection import ServerConnection
from configdb_sync.configdb.model import (
    ChangeAuthor,
    ChangeObserver,
    Component,
    Definition,
    DocumentEdit,
    DocumentVersion,
    Environment,
    Etags,
    OverrideNote,
    ServerKind,
)
from configdb_sync.errors import (
    ConfigDBError,
    ConflictError,
    ConnectionLostError,
    DocumentError,
    MissingError,
    SettingsError,
    UnexpectedAnswerError,
    UnknownNameError,
    UnsupportedError,
)
from configdb_sync.http import json_bodies
from configdb_sync.http.session import ApiCall, ApiSession
from configdb_sync.jsonvalues import Json, Loads
from configdb_sync.names import NAME_LIMIT, LevelPath, place_of

T = TypeVar("T")

_PATCHES = 5
"""How often an environment is changed again that others change at the same time."""


class ConfigDBClient:
    """One server, one pool of connections; safe for several threads."""

    def __init__(self, session: ApiSession) -> None:
        self._connection = ServerConnection(session)
        self._observer: ChangeObserver | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the kept connections."""
        self._connection.close()

    @property
    def base(self) -> str:
        """The server's address, fit to be shown."""
        return self._connection.base

    def server(self) -> ServerKind:
        """Return which server this is; found out once. Raises ``UnexpectedAnswerError`` if it is no ConfigDB."""
        return self._connection.kind()

    def server_now(self) -> ServerKind:
        """Return which server this is; asked anew, whatever it was before. Raises as ``server``, and if it is away."""
        return self._connection.kind_now()

    # Components, definitions and environments

    def components(self) -> list[Component]:
        """Return all components with their definitions."""
        return self._connection.get("/components", model.components)

    def create_component(self, name: str, data_sources: Sequence[str]) -> Component:
        """Create a component with definitions of these names and return it.

        If one of this name is there already (409, or the connection broke after it was made) that one is returned,
        whatever it holds. Raises ``SettingsError`` for names that the server can't keep, or that are named twice.
        """
        for text in (name, *data_sources):
            _check_name(text)
        if len(set(data_sources)) != len(data_sources):
            raise SettingsError(f"a data source of component {name} is named twice", way_out="name it once")
        definitions: Json = [{"name": text, "content": None} for text in data_sources]
        return self._connection.create(
            "/components",
            {"name": name, "resource_definitions": definitions},
            model.component,
            lambda: next((one for one in self.components() if one.name == name), None),
        )

    def delete_empty_component(self, component: int) -> bool:
        """Delete a component that has no definitions and return True; also if it doesn't exist (any more).

        Returns False if it has definitions. Raises ``UnsupportedError`` on servers other than the embedded one: these
        would delete it with whatever was put into it meanwhile.
        """
        if self.server() is not ServerKind.EMBEDDED:
            raise UnsupportedError(
                f"component {component} can't be deleted: {self.base} has no way to do so only if it is empty",
                way_out="it does no harm",
            )
        try:
            self._delete(f"/components/{component}/empty")
        except ConflictError:
            return False
        return True

    def definitions(
        self, environment: Environment, components: Sequence[Component] | None = None
    ) -> dict[str, Definition]:
        """Return the environment's definitions by name; ``components``: those of the server, if known, else asked.

        Raises ``ConfigDBError`` if it has a name twice: the server then fails every access by name.
        """
        listed = {one.id: one for one in (self.components() if components is None else components)}
        found: dict[str, Definition] = {}
        for number in environment.components:
            if number not in listed:
                raise UnexpectedAnswerError(
                    f"environment {environment.id} has component {number}, which {self.base} doesn't list"
                )
            for definition in listed[number].definitions:
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

    def add_definition(self, component: int, name: str) -> Definition:
        """Add a definition to a component and return it, or the one of this name that is there already.

        Raises ``UnsupportedError`` on 0.1.0.
        """
        _check_name(name)
        self._connection.refuse_legacy(f"data source {name} can't be added to component {component}")

        def look() -> Definition | None:
            found = next((one for one in self.components() if one.id == component), None)
            if found is None:
                raise MissingError(f"component {component} isn't there at {self.base}")
            return next((definition for definition in found.definitions if definition.name == name), None)

        there = look()
        if there is not None:
            return there
        body: dict[str, Json] = {"name": name, "component_id": component, "content": None}
        made = self._connection.create("/resource_definitions", body, model.definition, look)
        # Names aren't unique on the server: of two that were added at once the older one stays.
        first = look()
        if first is None or first.id == made.id:
            return made
        self._delete(f"/resource_definitions/{made.id}", repeatable=False)
        return first

    def move_definition(self, definition: int, component: int) -> None:
        """Put a definition into another component; its values belong to its id and stay. May be repeated.

        Raises ``UnsupportedError`` on 0.1.0, ``MissingError`` if it isn't there, ``ConflictError`` if the component has
        one of that name.
        """
        self._connection.refuse_legacy(f"definition {definition} can't be moved to component {component}")
        body = json_bodies.encode({"component_id": component})
        self._connection.call(ApiCall("PATCH", f"/resource_definitions/{definition}", body, repeatable=True))

    def delete_definition(self, definition: int) -> None:
        """Delete a definition with its values in all environments; no error if it doesn't exist.

        Raises ``UnsupportedError`` on 0.1.0.
        """
        self._connection.refuse_legacy(f"definition {definition} can't be deleted")
        self._delete(f"/resource_definitions/{definition}")

    def environments(self) -> list[Environment]:
        """Return all environments."""
        return self._connection.get("/environments", model.environments)

    def environment(self, env: int) -> Environment | None:
        """Return an environment, or None if the server says that there is none."""
        return self._connection.environment(env)

    def create_environment(self, env: int, components: Sequence[int], levels: Sequence[str]) -> Environment:
        """Create an environment and return it; one that is there already must be equal, else ``ConflictError``
        (S04)."""
        for level in levels:
            api_paths.segment(level, "the level")
        body: dict[str, Json] = {"id": env, "components": list(components), "hierarchy_levels": list(levels)}
        made = self._connection.create("/environments", body, model.made_environment, lambda: self.environment(env))
        there, wanted = list(made.levels), list(levels)
        if self.server() is ServerKind.LEGACY:
            # 0.1.0 names the levels in any order; its merge keeps the right one.
            there, wanted = sorted(there), sorted(wanted)
        if made.id != env or set(made.components) != set(components) or there != wanted:
            raise ConflictError(
                f"environment {env} is there with components {list(made.components)} and levels "
                f"{list(made.levels)}, not {list(components)} and {list(levels)}",
                way_out="another run made it meanwhile: run again",
            )
        return made

    def attach_component(self, environment: Environment, component: int) -> Environment:
        """Add a component to an environment and return the environment as it then is.

        Others may do the same at once: what they attached stays. Raises ``UnsupportedError`` on 0.1.0.
        """
        self._connection.refuse_legacy(f"component {component} can't be added to environment {environment.id}")

        def attached(current: Environment) -> dict[str, Json] | None:
            return None if component in current.components else {"components": [*current.components, component]}

        return self._patch_environment(
            environment.id,
            attached,
            f"component {component} doesn't stay in environment {environment.id}: others change it",
        )

    def extend_levels(self, environment: Environment, levels: Sequence[str]) -> Environment:
        """Append hierarchy levels to an environment, so that they are ``levels``, and return it as it then is.

        Only appending is done: taking a level out would take its documents away. Raises
        ``ConflictError`` if ``levels`` doesn't begin with those that are there, ``UnsupportedError`` on 0.1.0.
        """
        self._connection.refuse_legacy(f"environment {environment.id} can't get the levels {list(levels)}")
        for level in levels:
            api_paths.segment(level, "the level")
        refusal = f"environment {environment.id} can't get the levels {list(levels)} by appending"

        def extended(current: Environment) -> dict[str, Json] | None:
            if current.levels != tuple(levels[: len(current.levels)]):
                raise ConflictError(refusal)
            return None if len(current.levels) == len(levels) else {"hierarchy_levels": list(levels)}

        return self._patch_environment(environment.id, extended, refusal)

    def level_values(self, environment: int, level: str) -> tuple[str, ...]:
        """Return the values that a hierarchy level has in an environment: the nodes that ConfigDB knows, for ``nodes``.

        Raises ``UnsupportedError`` on 0.1.0.
        """
        self._connection.refuse_legacy(f"the nodes of environment {environment} can't be listed")
        path = f"{api_paths.environment_path(environment)}/hierarchy_levels/{api_paths.segment(level, 'the level')}"
        return self._connection.get(path, model.level_values)

    # Documents: values and overrides

    def values(self, env: int, levels: LevelPath, definition: int) -> dict[str, Json]:
        """Return the values document at these levels, ``{}`` when nothing was written there."""
        return self.tagged(env, levels, definition, "values")[0]

    def overrides(self, env: int, levels: LevelPath, definition: int) -> dict[str, Json]:
        """Return the overrides document at these levels, ``{}`` when nothing was written there."""
        return self.tagged(env, levels, definition, "overrides")[0]

    def effective(
        self, env: int, levels: LevelPath, definition: int, loads: Loads = jsonvalues.loads
    ) -> dict[str, Json]:
        """Return values and overrides merged from the root down to these levels, by the server; ``loads`` reads it."""
        return self.tagged(env, levels, definition, "values?effective", loads)[0]

    def tagged(
        self, env: int, levels: LevelPath, definition: int, kind: str, loads: Loads = jsonvalues.loads
    ) -> tuple[dict[str, Json], str | None]:
        """Return a document (``kind``: ``values`` or ``overrides``) and its ETag, None where the server gives none."""
        path = api_paths.document_path(env, levels, definition, kind)
        call = ApiCall("GET", path, repeatable=True, conflict=True)
        document, answer = self._connection.documented(
            env, levels, definition, lambda: self._connection.read(call, model.document, loads)
        )
        return document, answer.headers.get("etag")

    def put_values(
        self,
        env: int,
        levels: LevelPath,
        definition: int,
        document: dict[str, Json] | bytes,
        *,
        if_match: str | None = None,
        comment: str | None = None,
    ) -> None:
        """Replace the values document whole. Bytes must be the JSON text of an object.

        ``if_match`` is an ETag: the write happens only if the document is still that one, else ``PreconditionError``.
        ``comment`` is for the server's history, where the client's author has none.
        Raises ``DocumentError`` for what isn't a JSON object.
        """
        self._put(env, levels, definition, "values", document, if_match=if_match, comment=comment)

    def put_overrides(
        self,
        env: int,
        levels: LevelPath,
        definition: int,
        document: dict[str, Json] | bytes,
        *,
        if_match: str | None = None,
        comment: str | None = None,
    ) -> None:
        """Replace the overrides document whole; as ``put_values``."""
        self._put(env, levels, definition, "overrides", document, if_match=if_match, comment=comment)

    def lookup(self, env: int, levels: LevelPath, definition: int) -> dict[str, tuple[Json, str]]:
        """Return the effective value of each top-level key and the level that gave it (``/`` or ``/nodes/46/``)."""
        if self.server() is not ServerKind.LEGACY:
            path = api_paths.document_path(env, levels, definition, "values?effective&show_lookup")
            return self._connection.documented(
                env, levels, definition, lambda: self._connection.get(path, model.lookup, conflict=True)
            )
        chain = [levels[:depth] for depth in range(len(levels) + 1)]
        return level_merge.lookup(
            (place_of(here), self.values(env, here, definition), self.overrides(env, here, definition))
            for here in chain
        )

    def etags(self, env: int, levels: LevelPath) -> dict[int, Etags] | None:
        """Return the digests of all documents at these levels by definition id; None if the server has none."""
        if self.server() is not ServerKind.EMBEDDED:
            return None
        path = f"{api_paths.environment_path(env)}/{api_paths.level_path(levels)}etags"
        return self._connection.documented(env, levels, None, lambda: self._connection.get(path, model.etags))

    # Versions and overrides of a whole environment: on a server without them ``UnsupportedError``

    @property
    def keeps_versions(self) -> bool:
        """Whether the server keeps versions."""
        return self.server() is ServerKind.EMBEDDED

    def history(self, env: int, levels: LevelPath, definition: int, kind: str) -> list[DocumentVersion]:
        """Return the versions that are kept of a document (``kind``: ``values`` or ``overrides``), newest first."""
        self._connection.require_versions()
        path = f"{api_paths.document_path(env, levels, definition, kind)}/history"
        return self._connection.documented(env, levels, definition, lambda: self._connection.get(path, model.versions))

    def version(self, env: int, levels: LevelPath, definition: int, kind: str, number: int) -> dict[str, Json]:
        """Return a document as it was in one version; ``MissingError`` if that isn't kept."""
        self._connection.require_versions()
        path = f"{api_paths.document_path(env, levels, definition, kind)}?version={number}"
        return self._connection.get(path, model.document)

    def revert(self, env: int, levels: LevelPath, definition: int, kind: str, number: int) -> None:
        """Make a document what it was in one version; ``MissingError`` if that isn't kept. May be repeated."""
        self._connection.require_versions()
        path = f"{api_paths.document_path(env, levels, definition, kind)}/history/{number}/revert"
        self._connection.call(ApiCall("POST", path, b"{}", repeatable=True))

    def overrides_of(self, env: int) -> list[OverrideNote]:
        """Return all overrides of an environment: their place, author and time, and the effect of each key."""
        self._connection.require_versions()
        try:
            return self._connection.get(f"{api_paths.environment_path(env)}/overrides", model.override_notes)
        except MissingError as error:
            raise UnknownNameError(
                f"environment {env} isn't there", way_out="see --env and --configdb", request_id=error.request_id
            ) from None

    # Changes, for those who keep versions where the server doesn't

    def observe(self, observer: ChangeObserver) -> None:
        """Call ``observer`` with every change from now on, if the server keeps no versions itself."""
        self._observer = observer

    @property
    def observed(self) -> bool:
        """Whether ``changed`` calls an observer."""
        return self._observer is not None and not self.keeps_versions

    def changed(self, change: DocumentEdit) -> None:
        """Pass a change that was made to the observer. Raises what the observer raises."""
        if self._observer is not None and not self.keeps_versions:
            self._observer(change)

    def _delete(self, path: str, *, repeatable: bool = True) -> None:
        self._connection.call(ApiCall("DELETE", path, repeatable=repeatable, accept=frozenset({404})))

    def _patch_environment(
        self, env: int, patch: Callable[[Environment], dict[str, Json] | None], refusal: str
    ) -> Environment:
        """PATCH an environment with what ``patch`` makes of it, until that is None; ``ConflictError`` if it never is.

        PATCH replaces whole lists: only a second look shows whether another writer's came after ours.
        """
        for _ in range(_PATCHES):
            current = self.environment(env)
            if current is None:
                raise MissingError(f"environment {env} isn't there any more at {self.base}")
            body = patch(current)
            if body is None:
                return current
            try:
                self._connection.call(ApiCall("PATCH", api_paths.environment_path(env), json_bodies.encode(body)))
            except (ConnectionLostError, ConflictError):
                continue
        raise ConflictError(refusal)

    def _put(
        self,
        env: int,
        levels: LevelPath,
        definition: int,
        kind: str,
        document: dict[str, Json] | bytes,
        *,
        if_match: str | None,
        comment: str | None,
    ) -> None:
        body = document if isinstance(document, bytes) else json_bodies.encode(document)
        if not body.startswith(b"{") or not body.endswith(b"}"):
            raise DocumentError("a document for ConfigDB must be the JSON text of an object")

        def is_there() -> bool:
            # The answer was lost, not surely the write: what stands there now decides (S07).
            try:
                return jsonvalues.same(self.tagged(env, levels, definition, kind)[0], jsonvalues.loads(body))
            except (ConfigDBError, ValueError):
                return False

        headers = {} if if_match is None else {"If-Match": if_match}
        call = ApiCall(
            "PUT",
            api_paths.document_path(env, levels, definition, kind),
            body,
            headers={**headers, **api_paths.author_headers(ChangeAuthor(comment=comment))},
            repeatable=True,
            conflict=True,
            settled=is_there,
            confidential=True,
        )
        self._connection.documented(env, levels, definition, lambda: self._connection.call(call))


def _check_name(name: str) -> None:
    if not name or len(name) > NAME_LIMIT or "\0" in name:
        raise SettingsError(f"{name[:60]!r} is no name", way_out=f"give 1 to {NAME_LIMIT} characters without NUL")
