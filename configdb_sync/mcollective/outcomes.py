"""The outcome of a call for each node, and the interface of whatever makes calls."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from configdb_sync.mcollective.marshal import Value

UNREADABLE = -1
"""Code of a reply with the right hash that couldn't be read."""


@dataclass(frozen=True)
class Reply:
    """The agent did what was asked (status code 0).

    ``data``: its outputs, texts as bytes. ``sent``: the node's own time when it replied, in seconds since 1970; 0 if
    the reply doesn't hold it.
    """

    identity: str
    data: Mapping[str, Value] = field(repr=False)
    sent: int = field(default=0, compare=False)


@dataclass(frozen=True)
class ErrorReply:
    """The agent reported an error (status codes 1 to 5, or ``UNREADABLE``). ``text``: the node's, fit for a line."""

    identity: str
    code: int
    text: str


@dataclass(frozen=True)
class Missing:
    """No valid reply came in time. ``hint``: what is known, and what may be the cause."""

    identity: str
    hint: str


Outcome: TypeAlias = Reply | ErrorReply | Missing


@dataclass
class ReplyCounts:
    """Messages that were no outcomes, counted since the beginning.

    ``duplicates``: further replies of a node that had answered; ``strangers``: of nodes that weren't asked; ``late``:
    to an earlier request, or after the node was given up; ``unreadable``; ``forged``: with a wrong hash. ``lost``:
    connections that broke.
    """

    duplicates: int = 0
    strangers: int = 0
    late: int = 0
    unreadable: int = 0
    forged: int = 0
    lost: int = 0


class Rpc(Protocol):
    """Asks nodes' agents. Users of the bus depend on this alone, so that a test can put another in its place."""

    @property
    def counts(self) -> ReplyCounts:
        """Messages that were no outcomes."""

    def call_each(
        self,
        agent: str,
        action: str,
        requests: Mapping[str, Mapping[str, Value]],
        *,
        timeout: float,
        repeatable: bool = True,
    ) -> Iterator[Outcome]:
        """Ask nodes at once and yield exactly one outcome for each identity, as they come.

        ``requests``: by identity the action's inputs, all that aren't optional. ``timeout``: seconds that each node
        has from when it is asked. ``repeatable``: whether a node may be asked again after a lost connection, though it
        may have heard. Raises ``BusError`` when the bus itself can't be used, ``MarshalError`` for data that can't be
        sent.
        """

    def call(
        self,
        agent: str,
        action: str,
        data: Mapping[str, Value],
        identities: Sequence[str],
        *,
        timeout: float,
        repeatable: bool = True,
    ) -> Iterator[Outcome]:
        """Ask nodes the same; else as ``call_each``. An identity that is given twice is asked once."""
        requests = dict.fromkeys(identities, data)
        return self.call_each(agent, action, requests, timeout=timeout, repeatable=repeatable)

    def discover(self, *, timeout: float, expected: Collection[str] = ()) -> list[str]:
        """Return the identities of the nodes that answer, in order.

        Waits ``timeout`` seconds, or until all that are ``expected`` have answered. Raises ``BusError``.
        """
