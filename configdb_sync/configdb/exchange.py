"""One request and its answer, and what every way to a ConfigDB server must do with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class Request:
    """``path`` is below the server's base, percent-encoded, with its query. Headers may hold a token: never shown."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Answer:
    """Status, headers (names in lower case) and the whole body."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)


class Exchange(Protocol):
    """A way to one server. Safe for several threads."""

    @property
    def base(self) -> str:
        """The server's address, fit to be shown."""

    def send(self, request: Request) -> Answer:
        """Carry out one request, once, without following redirects.

        Raises ``LostError`` if no whole answer came in time, ``TLSError`` if the peer couldn't be verified,
        ``UnexpectedAnswerError`` if the answer is larger than the limit or isn't HTTP.
        """

    def close(self) -> None:
        """Give back connections."""
