"""One connection to one ConfigDB server: calls, JSON answers, and which of the three servers it is."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from configdb_sync import jsonvalues
from configdb_sync.configdb import api_paths, model
from configdb_sync.configdb.model import Environment, ServerKind
from configdb_sync.errors import (
    ConfigDBError,
    MissingError,
    UnexpectedAnswerError,
    UnknownNameError,
    UnsupportedError,
)
from configdb_sync.http import json_bodies
from configdb_sync.http.session import ApiCall, ApiSession
from configdb_sync.http.transport import HttpAnswer
from configdb_sync.jsonvalues import Json, Loads
from configdb_sync.names import LevelPath

T = TypeVar("T")

_PRODUCT = re.compile(r"configdb-sync/\S")


class ServerConnection:
    """One server and what it can do. Safe for several threads."""

    def __init__(self, session: ApiSession) -> None:
        self._session = session
        self._kind: ServerKind | None = None
        self._finding = threading.Lock()
        self._first = FirstRequestLock()

    @property
    def base(self) -> str:
        """The server's address, fit to be shown."""
        return self._session.base

    def close(self) -> None:
        """Close the kept connections."""
        self._session.close()

    def kind(self) -> ServerKind:
        """Return which server this is; found out once. Raises ``UnexpectedAnswerError`` if it is no ConfigDB."""
        with self._finding:
            if self._kind is None:
                self.get("/components", model.components)
            if self._kind is None:
                self._kind = self._asked_kind()
            return self._kind

    def kind_now(self) -> ServerKind:
        """Return which server this is; asked anew, whatever it was before. Raises as ``kind``, and if it is away."""
        kind = self._asked_kind()
        if kind is ServerKind.LEGACY:
            # 0.1.0 has no such list, and neither has what is no ConfigDB.
            self.get("/components", model.components)
        return kind

    def call(self, call: ApiCall) -> HttpAnswer:
        """Carry out a call; see ``ApiSession.call``."""
        answer = self._session.call(call)
        if _PRODUCT.match(answer.headers.get("server-product", "")):
            self._kind = ServerKind.EMBEDDED
        return answer

    def read(self, call: ApiCall, parse: Callable[[Json], T], loads: Loads = jsonvalues.loads) -> tuple[T, HttpAnswer]:
        """Carry out a call; return what ``parse`` makes of the answer's JSON, which ``loads`` reads, and the answer."""
        answer = self.call(call)
        return self._session.parsed(call, answer, parse, loads), answer

    def get(self, path: str, parse: Callable[[Json], T], *, conflict: bool = False) -> T:
        """GET a path and return what ``parse`` makes of the JSON; ``conflict`` as in ``ApiCall``."""
        return self.read(ApiCall("GET", path, repeatable=True, conflict=conflict), parse)[0]

    def create(self, path: str, body: dict[str, Json], parse: Callable[[Json], T], look: Callable[[], T | None]) -> T:
        """POST and return what was made; if that failed, or its outcome isn't known, what ``look`` finds (S04)."""
        found: list[T] = []

        def is_there() -> bool:
            one = look()
            found.extend([] if one is None else [one])
            return one is not None

        call = ApiCall("POST", path, json_bodies.encode(body), creates=True, settled=is_there)
        answer = self.call(call)
        return found[-1] if found else self._session.parsed(call, answer, parse)

    def environment(self, env: int) -> Environment | None:
        """Return an environment, or None if the server says that there is none."""
        path = api_paths.environment_path(env)
        try:
            found = self.get(path, model.environment)
        except MissingError:
            return None
        if found.id != env:
            raise UnexpectedAnswerError(
                f"GET {self.base}{path} answered with environment {found.id}", way_out=f"is {self.base} a ConfigDB?"
            )
        return found

    def documented(self, env: int, levels: LevelPath, definition: int | None, fetch: Callable[[], T]) -> T:
        """Call ``fetch``, alone where the server can't take two first requests at once; explain its 404."""
        try:
            if self._kind is ServerKind.EMBEDDED:
                return fetch()
            with self._first.hold((env, levels) if levels else (env, levels, definition)):
                return fetch()
        except MissingError as error:
            raise self._explained(error, env, levels, definition) from None

    def refuse_legacy(self, what: str) -> None:
        """Raise ``UnsupportedError`` on 0.1.0: ``what`` can't be done there."""
        if self.kind() is ServerKind.LEGACY:
            raise UnsupportedError(
                f"{what}: {self.base} is tuning-box 0.1.0, which can't change what was once made",
                way_out="make it whole before the first run, or use the embedded server",
            )

    def require_versions(self) -> None:
        """Raise ``UnsupportedError`` on a server that keeps no versions."""
        if self.kind() is not ServerKind.EMBEDDED:
            raise UnsupportedError(
                f"{self.base} is {self.kind().value}, which keeps no versions and lists no overrides",
                way_out="use the embedded server; get --overrides --level ... shows those of one place",
            )

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
        return UnknownNameError(f"{error.what.partition(' answered ')[0]}: {reason}", request_id=error.request_id)

    def _asked_kind(self) -> ServerKind:
        # Only definitions without a component, which nobody makes: the whole list may be large.
        call = ApiCall("GET", "/resource_definitions?component_id=", repeatable=True, accept=frozenset({404, 405}))
        answer = self._session.call(call)
        if _PRODUCT.match(answer.headers.get("server-product", "")):
            return ServerKind.EMBEDDED
        if answer.status != 200:
            return ServerKind.LEGACY
        self._session.parsed(call, answer, model.definitions)
        return ServerKind.MASTER


class FirstRequestLock:
    """One first request at a time for what tuning-box breaks when two come at once (U6, R1).

    For each key one thread goes first, until it came back without an exception; from then on nobody waits.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._done: set[Hashable] = set()
        self._locks: dict[Hashable, threading.RLock] = {}

    @contextmanager
    def hold(self, key: Hashable) -> Iterator[None]:
        """Hold the lock of ``key`` unless its first request is done. The thread that holds it may enter again."""
        with self._lock:
            lock = None if key in self._done else self._locks.setdefault(key, threading.RLock())
        if lock is None:
            yield
            return
        with lock:
            yield
            with self._lock:
                self._done.add(key)
                self._locks.pop(key, None)
