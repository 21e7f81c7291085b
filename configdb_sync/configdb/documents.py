"""Values, overrides and what they merge to: reading and writing the documents of a data source (U9, U10, S07)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from configdb_sync import jsonvalues
from configdb_sync.configdb import answers, merge, urls
from configdb_sync.configdb.calls import Call, Caller
from configdb_sync.configdb.gates import Gates
from configdb_sync.configdb.link import json_body
from configdb_sync.configdb.model import Etags, ServerKind
from configdb_sync.configdb.objects import Objects
from configdb_sync.errors import ConfigDBError, DocumentError, MissingError
from configdb_sync.jsonvalues import Json
from configdb_sync.names import LevelPath, place_of

T = TypeVar("T")


class Documents(Objects):
    """The client's calls about documents."""

    def __init__(self, caller: Caller) -> None:
        super().__init__(caller)
        self._gates = Gates()

    def values(self, env: int, levels: LevelPath, definition: int) -> dict[str, Json]:
        """Return the values document at these levels, ``{}`` when nothing was written there."""
        return self._document(env, levels, definition, "values")[0]

    def overrides(self, env: int, levels: LevelPath, definition: int) -> dict[str, Json]:
        """Return the overrides document at these levels, ``{}`` when nothing was written there."""
        return self._document(env, levels, definition, "overrides")[0]

    def effective(self, env: int, levels: LevelPath, definition: int) -> dict[str, Json]:
        """Return values and overrides merged from the root down to these levels, by the server."""
        return self._document(env, levels, definition, "values", "?effective")[0]

    def tagged(self, env: int, levels: LevelPath, definition: int, kind: str) -> tuple[dict[str, Json], str | None]:
        """Return a document (``kind``: ``values`` or ``overrides``) and its ETag, None where the server gives none."""
        return self._document(env, levels, definition, kind)

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
        """Replace the values document whole. Bytes are taken for the ready JSON text of an object.

        ``if_match`` is an ETag: the write happens only if the document is still that one, else ``PreconditionError``.
        ``comment`` is for the server's history, where the client's writer has none.
        Raises ``DocumentError`` for what isn't a JSON object.
        """
        self._put(env, levels, definition, document, kind="values", if_match=if_match, comment=comment)

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
        self._put(env, levels, definition, document, kind="overrides", if_match=if_match, comment=comment)

    def lookup(self, env: int, levels: LevelPath, definition: int) -> dict[str, tuple[Json, str]]:
        """Return the effective value of each top-level key and the level that gave it (``/`` or ``/nodes/46/``)."""
        if self.server() is not ServerKind.LEGACY:
            path = urls.document_path(env, levels, definition, "values") + "?effective&show_lookup"
            return self._documented(env, levels, definition, lambda: self._get(path, answers.lookup, conflict=True))
        chain = [levels[:depth] for depth in range(len(levels) + 1)]
        return merge.lookup(
            (place_of(here), self.values(env, here, definition), self.overrides(env, here, definition))
            for here in chain
        )

    def etags(self, env: int, levels: LevelPath) -> dict[int, Etags] | None:
        """Return the digests of all documents at these levels by definition id; None where the server has none to
        give."""
        if self.server() is not ServerKind.EMBEDDED:
            return None
        path = f"{urls.environment_path(env)}/{urls.level_path(levels)}etags"
        return self._documented(env, levels, None, lambda: self._get(path, answers.etags))

    def _document(
        self, env: int, levels: LevelPath, definition: int, kind: str, query: str = ""
    ) -> tuple[dict[str, Json], str | None]:
        call = Call("GET", urls.document_path(env, levels, definition, kind) + query, repeatable=True, conflict=True)

        def fetch() -> tuple[dict[str, Json], str | None]:
            answer = self._call(call)
            return self._read(call, answer, answers.document), answer.headers.get("etag")

        return self._documented(env, levels, definition, fetch)

    def _put(
        self,
        env: int,
        levels: LevelPath,
        definition: int,
        document: dict[str, Json] | bytes,
        *,
        kind: str,
        if_match: str | None,
        comment: str | None,
    ) -> None:
        body = document if isinstance(document, bytes) else json_body(document)
        if not body.startswith(b"{") or not body.endswith(b"}"):
            raise DocumentError("a document for ConfigDB must be the JSON text of an object")

        def there() -> bool:
            # The answer was lost, not surely the write: what stands there now decides (S07).
            try:
                return jsonvalues.same(self._document(env, levels, definition, kind)[0], jsonvalues.loads(body))
            except (ConfigDBError, ValueError):
                return False

        call = Call(
            "PUT",
            urls.document_path(env, levels, definition, kind),
            body,
            headers={
                **({} if if_match is None else {"If-Match": if_match}),
                **urls.writer_headers(None, None, comment),
            },
            repeatable=True,
            conflict=True,
            settled=there,
            confidential=True,
        )
        self._documented(env, levels, definition, lambda: self._call(call))

    def _documented(self, env: int, levels: LevelPath, definition: int | None, fetch: Callable[[], T]) -> T:
        """Call ``fetch``: gated where the server can't take two first requests at once, and its 404 explained."""
        try:
            if self._kind is ServerKind.EMBEDDED:
                return fetch()
            key = (env, levels) if levels else (env, levels, definition)
            with self._gates.through(key):
                return fetch()
        except MissingError as error:
            raise self._explained(error, env, levels, definition) from None

    def _explained(self, error: MissingError, env: int, levels: LevelPath, definition: int | None) -> ConfigDBError:
        try:
            environment = self.environment(env)
        except ConfigDBError:
            return error
        if environment is None:
            reason = f"environment {env} isn't there"
        elif [name for name, _ in levels] != list(environment.levels)[: len(levels)]:
            reason = f"environment {env} has the levels {list(environment.levels)}"
        else:
            reason = f"environment {env} has no data source with the id {definition}"
        return MissingError(f"{error.what.partition(' answered ')[0]}: {reason}", request_id=error.request_id)
