"""One connection to one server, as the client's parts use it: calls, answers read, and which server it is."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar

from configdb_sync import jsonvalues
from configdb_sync.configdb import answers
from configdb_sync.configdb.calls import Call, Caller
from configdb_sync.configdb.exchange import Answer
from configdb_sync.configdb.model import ServerKind
from configdb_sync.errors import DocumentError
from configdb_sync.jsonvalues import Json

T = TypeVar("T")

_PRODUCT = re.compile(r"configdb-sync/\S")


class Link:
    """What every part of the client stands on. Safe for several threads."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._kind: ServerKind | None = None
        self._finding = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give back connections."""
        self._caller.close()

    @property
    def base(self) -> str:
        """The server's address, fit to be shown."""
        return self._caller.base

    def server(self) -> ServerKind:
        """Return which server this is; found out once.

        Raises ``UnexpectedAnswerError`` if it is no ConfigDB.
        """
        with self._finding:
            if self._kind is None:
                self._get("/components", answers.components)
            if self._kind is None:
                self._kind = self._told()
            return self._kind

    def server_now(self) -> ServerKind:
        """Return which server this is; asked anew, whatever it was before. Raises as ``server``, and if it is away."""
        kind = self._told()
        if kind is ServerKind.LEGACY:
            self._get("/components", answers.components)  # it says little, as what is no ConfigDB would
        return kind

    def _told(self) -> ServerKind:
        # Only definitions without a component, which nobody makes: the whole list may be large.
        call = Call("GET", "/resource_definitions?component_id=", repeatable=True, accept=frozenset({404, 405}))
        answer = self._caller.call(call)
        if _PRODUCT.match(answer.headers.get("server-product", "")):
            return ServerKind.EMBEDDED
        if answer.status != 200:
            return ServerKind.LEGACY
        self._read(call, answer, answers.definitions)
        return ServerKind.MASTER

    def _get(self, path: str, parse: Callable[[Json], T], *, conflict: bool = False) -> T:
        call = Call("GET", path, repeatable=True, conflict=conflict)
        return self._read(call, self._call(call), parse)

    def _call(self, call: Call) -> Answer:
        answer = self._caller.call(call)
        if _PRODUCT.match(answer.headers.get("server-product", "")):
            self._kind = ServerKind.EMBEDDED
        return answer

    def _read(self, call: Call, answer: Answer, parse: Callable[[Json], T]) -> T:
        try:
            return parse(answers.read(answer))
        except ValueError as error:
            raise self._caller.unexpected(call, answer, error) from None


def json_body(document: dict[str, Json]) -> bytes:
    """Return the JSON text of an object; ``DocumentError`` for anything else, and for what JSON can't carry."""
    if not isinstance(document, dict):
        raise DocumentError("a document for ConfigDB must be a mapping")
    try:
        return jsonvalues.dumps(document).encode("ascii")
    except (ValueError, TypeError, RecursionError) as error:
        raise DocumentError(
            f"a document can't be carried as JSON: {type(error).__name__}",
            way_out="NaN, infinities and dates aren't JSON",
        ) from None
