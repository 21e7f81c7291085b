"""Calls to nodes' agents over the bus: ask, match replies to nodes, ask again after a lost connection (U8, U14)."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from configdb_sync.clock import Clock, SystemClock, new_request_id
from configdb_sync.errors import BusError
from configdb_sync.mcollective import envelope
from configdb_sync.mcollective.broker import BrokerConnection, Pool
from configdb_sync.mcollective.bus_settings import BusSettings
from configdb_sync.mcollective.envelope import Envelope, ForgedError, UnreadableMessageError
from configdb_sync.mcollective.marshal import MarshalError, Value
from configdb_sync.mcollective.outcomes import UNREADABLE, ErrorReply, Missing, Outcome, Reply, ReplyCounts, Rpc
from configdb_sync.mcollective.transport import BrokerLostError, Message
from configdb_sync.names import natural_key

_log = logging.getLogger(__name__)
_DISCOVERY = "discovery"
_SHOWN = 5
_LOOK = 1.0
_GRACE = 0.1
_USELESS = 1000
_NAMED = 200
_PATIENCE_SHARE = 20
_LEAST_PATIENCE = 1.0


class BusRpc(Rpc):
    """The real bus. Calls may run at the same time, nested or in threads: each has a connection of its own."""

    def __init__(self, settings: BusSettings, clock: Clock | None = None) -> None:
        self._settings = settings
        self._clock = clock or SystemClock()
        self._pool = Pool(settings, self._clock)
        self._counts = ReplyCounts()
        self._lock = threading.Lock()
        for warning in settings.warnings:
            _log.warning("%s", warning)

    @property
    def counts(self) -> ReplyCounts:
        """See ``outcomes.Rpc``."""
        return self._counts

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections that no call uses."""
        self._pool.close()

    def call_each(
        self,
        agent: str,
        action: str,
        requests: Mapping[str, Mapping[str, Value]],
        *,
        timeout: float,
        repeatable: bool = True,
    ) -> Iterator[Outcome]:
        """See ``outcomes.Rpc``."""
        caller = self._settings.signer.caller
        # Most calls ask all nodes the same: one body for all of them.
        made: dict[int, bytes] = {}
        for data in requests.values():
            if id(data) not in made:
                made[id(data)] = envelope.rpc_request(agent, action, caller, data)
        bodies = {identity: made[id(data)] for identity, data in requests.items()}
        return self._call(agent, bodies, timeout, repeatable)

    def discover(self, *, timeout: float, expected: Collection[str] = ()) -> list[str]:
        """See ``outcomes.Rpc``."""
        replies = _ReplySorter(self._settings, (), self._count)
        losses = 0
        while True:
            link = self._pool.lend()
            try:
                self._collect_pongs(link, replies, set(expected), timeout)
            except BrokerLostError as error:
                link.close()
                self._count("lost")
                if error.lasting or losses == self._settings.bounds.losses:
                    raise
                losses += 1
            except BaseException:
                link.close()
                raise
            else:
                self._pool.give_back(link)
                _log.debug("%d nodes answered a ping of all", len(replies.answered))
                return sorted(replies.answered, key=natural_key)

    def _collect_pongs(self, link: BrokerConnection, replies: _ReplySorter, due: set[str], timeout: float) -> None:
        replies.request_id = new_request_id()
        deadline = self._clock.monotonic() + timeout
        self._ping(link, replies.request_id)
        while not due or not due <= replies.answered:
            message = link.receive(max(0.0, deadline - self._clock.monotonic()))
            if message is None or self._clock.monotonic() > deadline + _GRACE:
                return
            found = replies.take(message)
            if found is not None and not envelope.is_pong(found.body):
                replies.answered.discard(found.sender)
                self._count("unreadable")

    def _call(self, agent: str, bodies: Mapping[str, bytes], timeout: float, repeatable: bool) -> Iterator[Outcome]:
        connector, limit = self._settings.connector, self._settings.bounds.request
        for identity, body in bodies.items():
            connector.directed(identity, connector.replies(""))
            size = len(body) * 4 // 3 if self._settings.base64 else len(body)
            if size > limit:
                raise MarshalError(f"a request of {size} bytes, more than {limit}", node=identity)
        nodes = NodeQueue(bodies, self._settings.bounds.window, timeout)
        return self._outcomes(
            _Call(agent, bodies, timeout, nodes, _ReplySorter(self._settings, bodies, self._count)), repeatable
        )

    def _outcomes(self, call: _Call, repeatable: bool) -> Iterator[Outcome]:
        nodes = call.nodes
        link: BrokerConnection | None = None
        losses = 0
        try:
            while nodes.open:
                if link is None:
                    link = self._pool.lend(call.timeout if losses else 0.0)
                    call.replies.request_id, call.replies.ping_id = new_request_id(), new_request_id()
                try:
                    outcomes = self._step(link, call)
                except BrokerLostError as error:
                    _log.debug("%s", error)
                    link.close()
                    link = None
                    losses += 1
                    if error.lasting:
                        raise _given_up(error, nodes.due, losses) from error
                    self._count("lost")
                    if not repeatable:
                        hint = "the connection was lost after the node had been asked: it may have done it"
                        yield from [Missing(identity, hint) for identity in nodes.give_up()]
                    nodes.lose_sight(self._clock.monotonic())
                    call.look_at = 0.0
                    if losses > self._settings.bounds.losses and nodes.open:
                        raise _given_up(error, nodes.due, losses) from error
                    continue
                if outcomes:
                    # A broker also drops a client that fetches nothing for half a minute: a slow caller must get to
                    # its end.
                    losses = 0
                yield from outcomes
        except BaseException:
            if link is not None:
                link.close()
            raise
        if link is not None:
            self._pool.give_back(link)

    def _step(self, link: BrokerConnection, call: _Call) -> list[Outcome]:
        """Ask the nodes whose turn it is and wait for one message; return the outcomes that this brings."""
        now, nodes = self._clock.monotonic, call.nodes
        while (identity := nodes.next(now())) is not None:
            target = self._settings.connector.directed(identity, link.replies)
            link.send(target, self._request(call.bodies[identity], call))
            _log.debug("asked agent %s of node %s", call.agent, identity)
        absent = nodes.absent
        if absent and now() >= call.look_at:
            self._ping(link, call.replies.ping_id, absent if len(absent) <= _NAMED else ())
            call.look_at = now() + _LOOK
        wait = nodes.wait(now())
        # What came while the caller was busy still counts, though its time is over.
        message = link.receive(max(_GRACE, min(wait, _LOOK) if absent else wait))
        outcome = None if message is None else self._outcome(message, call)
        if outcome is not None:
            call.useless = 0
            return [outcome]
        call.useless += wait <= 0
        if message is None or call.useless > _USELESS:
            return [self._missing(identity, call) for identity in nodes.expired(now())]
        return []

    def _outcome(self, message: Message, call: _Call) -> Outcome | None:
        found = call.replies.take(message)
        if found is None:
            return None
        if found.request_id == call.replies.ping_id:
            call.nodes.seen(found.sender)
            return None
        if not call.nodes.answered(found.sender):
            self._count("late")
            return None
        _log.debug("agent %s of node %s answered, %d bytes", call.agent, found.sender, len(found.body))
        try:
            answer = envelope.read_rpc_reply(found.body)
        except UnreadableMessageError as error:
            return ErrorReply(found.sender, UNREADABLE, error.what)
        if answer.code == 0:
            return Reply(found.sender, answer.data, found.sent)
        return ErrorReply(found.sender, answer.code, answer.text)

    def _missing(self, identity: str, call: _Call) -> Missing:
        note = call.replies.notes.get(identity)
        if note is not None:
            return Missing(identity, f"no valid reply within {call.timeout:g} s; in its name came {note}")
        ttl = self._settings.signer.ttl
        return Missing(
            identity,
            f"no reply within {call.timeout:g} s: the node or its mcollective is down or slow, the psk differs, "
            f"or it is about clock or ttl (a node says nothing if its clock is more than {ttl} s ahead)",
        )

    def _request(self, body: bytes, call: _Call) -> bytes:
        """Return the request with a body; the last one is kept, as most nodes are asked the same."""
        request_id = call.replies.request_id
        if call.sealed is None or call.sealed[0] is not body or call.sealed[1] != request_id:
            call.sealed = (body, request_id, self._message(body, call.agent, request_id))
        return call.sealed[2]

    def _ping(self, link: BrokerConnection, request_id: str, only: Sequence[str] = ()) -> None:
        target = self._settings.connector.broadcast(_DISCOVERY, link.replies)
        link.send(target, self._message(envelope.ping(), _DISCOVERY, request_id, only))

    def _message(self, body: bytes, agent: str, request_id: str, only: Sequence[str] = ()) -> bytes:
        now = int(self._clock.now().timestamp())
        signer = self._settings.signer
        raw = envelope.request(signer, body=body, agent=agent, request_id=request_id, now=now, only=only)
        return envelope.encode(raw, wrapped=self._settings.base64)

    def _count(self, name: str) -> None:
        with self._lock:
            setattr(self._counts, name, getattr(self._counts, name) + 1)


@dataclass
class _Call:
    agent: str
    bodies: Mapping[str, bytes] = field(repr=False)
    timeout: float
    nodes: NodeQueue
    replies: _ReplySorter
    look_at: float = 0.0
    useless: int = 0
    sealed: tuple[bytes, str, bytes] | None = field(default=None, repr=False)


class NodeQueue:
    """The nodes of a call: which are to be asked, which were asked, which are absent, and until when.

    Times are monotonic seconds and never go back. At most ``window`` nodes are at work at once. A node that has been
    silent for a twentieth of its time no longer counts as at work, so that silent nodes cost their own time alone.
    """

    def __init__(self, identities: Iterable[str], window: int, timeout: float) -> None:
        self._waiting = deque(identities)
        self._absent: dict[str, float] = {}
        # All in the order of time, so that the oldest is the first.
        self._asked: dict[str, float] = {}
        self._busy: dict[str, float] = {}
        self._window = window
        self._timeout = timeout
        self._patience = max(_LEAST_PATIENCE, timeout / _PATIENCE_SHARE)

    @property
    def open(self) -> bool:
        """Whether any node is still due."""
        return bool(self._waiting or self._asked or self._absent)

    @property
    def due(self) -> list[str]:
        """The nodes that are still due."""
        return [*self._asked, *self._waiting, *self._absent]

    @property
    def absent(self) -> list[str]:
        """The nodes that must be seen before they are asked."""
        return list(self._absent)

    def next(self, now: float) -> str | None:
        """Return the node to ask now (it then counts as asked), None if there is none."""
        while self._busy and now - _oldest(self._busy) >= self._patience:
            del self._busy[next(iter(self._busy))]
        if not self._waiting or len(self._busy) >= self._window:
            return None
        identity = self._waiting.popleft()
        self._asked[identity] = self._busy[identity] = now
        return identity

    def answered(self, identity: str) -> bool:
        """Note an answer; tell whether it was due."""
        self._busy.pop(identity, None)
        return self._asked.pop(identity, None) is not None

    def lose_sight(self, now: float) -> None:
        """Make all nodes that are due absent: one that is seen is asked, again if need be, and has all its time.

        A message to a node that isn't there (yet) is dropped without a word.
        """
        self._absent = dict.fromkeys(self.due, now)
        self._waiting.clear()
        self._asked.clear()
        self._busy.clear()

    def seen(self, identity: str) -> None:
        """Note that a node is there."""
        if self._absent.pop(identity, None) is not None:
            self._waiting.append(identity)

    def give_up(self) -> list[str]:
        """Return the nodes that were asked and have not answered; they are due no more."""
        found = list(self._asked)
        self._asked.clear()
        self._busy.clear()
        return found

    def expired(self, now: float) -> list[str]:
        """Return the nodes whose time is over; they are due no more."""
        found = []
        for times in (self._asked, self._absent):
            while times and now - _oldest(times) >= self._timeout:
                identity = next(iter(times))
                del times[identity]
                self._busy.pop(identity, None)
                found.append(identity)
        return found

    def wait(self, now: float) -> float:
        """Return for how many seconds there is nothing to do but wait for replies."""
        ends = [_oldest(times) + self._timeout for times in (self._asked, self._absent) if times]
        if self._waiting and self._busy:
            ends.append(_oldest(self._busy) + self._patience)
        return max(0.0, min(ends) - now) if ends else 0.0


def _oldest(times: dict[str, float]) -> float:
    return next(iter(times.values()))


@dataclass
class _ReplySorter:
    """Sorts the messages of one call.

    ``count`` takes the name of a field of ``ReplyCounts``. ``ping_id``: of requests that only ask who is there; all
    answers to them are returned. ``notes``: by identity, what came in its name and doesn't count.
    """

    settings: BusSettings
    asked: Collection[str]
    count: Callable[[str], None]
    request_id: str = ""
    ping_id: str = ""
    answered: set[str] = field(default_factory=set)
    notes: dict[str, str] = field(default_factory=dict)

    def take(self, message: Message) -> Envelope | None:
        """Return the reply in a message if it is the first of a node that was asked; else count it, and return None."""
        try:
            if message.body is None:
                raise UnreadableMessageError(f"a message of {message.size} bytes, which is beyond the limit")
            raw = envelope.decode(message.body, wrapped=self.settings.base64)
            found = envelope.read_reply(raw, self.settings.signer)
        except UnreadableMessageError as error:
            self.count("forged" if isinstance(error, ForgedError) else "unreadable")
            # The sender is only a claim: it may explain why a node is missing, no more.
            if message.sender in self.asked:
                self.notes[message.sender] = error.what
            return None
        if found.request_id == self.ping_id:
            return found
        if found.request_id != self.request_id:
            self.count("late")
        elif self.asked and found.sender not in self.asked:
            self.count("strangers")
        elif found.sender in self.answered:
            self.count("duplicates")
        else:
            self.answered.add(found.sender)
            return found
        return None


def _given_up(error: BrokerLostError, due: list[str], losses: int) -> BusError:
    names = ", ".join(due[:_SHOWN]) + (f" and {len(due) - _SHOWN} more" if len(due) > _SHOWN else "")
    lost = f"{losses} connections" if losses > 1 else "the connection"
    what = f"{error.what}; given up after losing {lost}, no answer from {len(due)} nodes: {names}"
    return BrokerLostError(what, way_out=error.way_out, phase="call", text=error.text, lasting=error.lasting)
