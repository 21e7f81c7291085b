"""Calls to a JSON API: token, attempts, redirects, and the error that a failed call becomes (U13, S05-S07)."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

from configdb_sync import errors, jsonvalues
from configdb_sync.http import json_bodies, urls
from configdb_sync.http.tokens import TokenSource
from configdb_sync.http.transport import HttpAnswer, HttpRequest, Transport
from configdb_sync.jsonvalues import Json, Loads

T = TypeVar("T")

_LOG = logging.getLogger(__name__)
_REDIRECTS = 3
_REQUEST_ID = ("x-openstack-request-id", "x-request-id")


@dataclass(frozen=True)
class Timing:
    """Clocks, sleep and random numbers of a session; a test gives its own."""

    sleep: Callable[[float], object] = time.sleep
    draw: Callable[[], float] = random.random
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    monotonic: Callable[[], float] = time.monotonic


@dataclass(frozen=True)
class ApiCall:
    """One request of an API.

    ``repeatable``: the request may be carried out twice. ``creates``: it makes something, and is sent again only where
    the server answered that it failed, and ``settled`` says that the thing isn't there. ``conflict``: a 409 says that
    another writer was there at the same time (documents), not that the thing exists. ``accept``: statuses beside 2xx
    that the caller handles. ``settled``: called after an attempt with an unknown outcome, tells whether the change is
    there; if it raises ``ConfigDBError``, the attempt's error stands. ``confidential``: no error may show leaves of the
    body, even if the server repeats them.
    """

    method: str
    path: str
    body: bytes | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = False
    creates: bool = False
    conflict: bool = False
    accept: frozenset[int] = frozenset()
    settled: Callable[[], bool] | None = None
    confidential: bool = False


@dataclass(frozen=True)
class RetryPolicy:
    """``attempts`` counts the first one. The wait doubles from ``base`` to ``cap`` seconds, half of it left to chance.

    A server that asks for more than ``patience`` seconds isn't waited for, and no attempt begins later than ``whole``
    seconds after the first.
    """

    attempts: int = 6
    base: float = 0.2
    cap: float = 5.0
    patience: float = 60.0
    whole: float = 150.0

    def pause(
        self,
        status: int | None,
        asked: float | None = None,
        *,
        tried: int,
        elapsed: float,
        draw: float,
        conflict: bool = False,
    ) -> float | None:
        """Return the seconds to wait before a repeatable call is sent again, None if it isn't.

        ``status``: how the last attempt ended (None: the connection was lost); ``asked``: the seconds that the server
        asked for. ``tried`` counts attempts made, from 1; ``elapsed`` are the seconds since the first began. ``draw``
        is a random number of [0, 1). ``conflict``: see ``ApiCall``.
        """
        if tried >= self.attempts or not _passing(status, conflict=conflict):
            return None
        asked = asked or 0.0
        grown = min(self.cap, self.base * 2.0 ** (tried - 1))
        wait = max(grown * (0.5 + draw / 2), asked)
        return wait if asked <= self.patience and elapsed + wait <= self.whole else None


def _passing(status: int | None, *, conflict: bool) -> bool:
    if status is None or status == 429:
        return True
    return conflict if status == 409 else 500 <= status <= 599 and status not in {501, 505}


def is_ambiguous(status: int | None) -> bool:
    """Tell whether a change may have been made although the attempt failed (S07): the connection was lost, or a gateway
    answered."""
    return status in {None, 502, 504}


def retry_after(header: str | None, now: datetime) -> float | None:
    """Return the seconds that a ``Retry-After`` header asks for, from a number or an HTTP date; None without one."""
    text = (header or "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now).total_seconds())


class ApiSession:
    """Makes calls over one transport. Safe for several threads.

    ``changing``: headers of all calls that aren't GET. ``redirected`` returns the path that a 308's ``Location`` leads
    to from a path, None if it isn't followed.
    """

    def __init__(
        self,
        transport: Transport,
        peer: urls.Peer,
        token: TokenSource | None = None,
        *,
        changing: Mapping[str, str] | None = None,
        redirected: Callable[[str, str], str | None] = lambda _path, _location: None,
        policy: RetryPolicy | None = None,
        timing: Timing | None = None,
    ) -> None:
        self._transport = transport
        self._peer = peer
        self._token = token
        self._changing = {"Content-Type": "application/json", **(changing or {})}
        self._redirected = redirected
        self._policy = policy or RetryPolicy()
        self._timing = timing or Timing()

    @property
    def base(self) -> str:
        """The server's address, fit to be shown."""
        return self._transport.base

    def close(self) -> None:
        """Close the kept connections."""
        self._transport.close()

    def call(self, call: ApiCall) -> HttpAnswer:
        """Carry out a call and return its answer: 2xx or a status of ``call.accept``.

        A change that ``settled`` found to be there after all answers 204. Raises ``AccessError``, ``MissingError``,
        ``ConflictError``, ``PreconditionError``, ``RefusedError``, ``ThrottledError``, ``UnavailableError`` or its
        ``ConnectionLostError``, ``UnexpectedAnswerError``.
        """
        tried, began = 0, self._timing.monotonic()
        while True:
            tried += 1
            status = asked = None
            try:
                answer, token = self._authorised(call)
                status = answer.status
                if 200 <= status < 300 or status in call.accept:
                    return answer
                asked = retry_after(answer.headers.get("retry-after"), self._timing.now())
                error = self._error(call, answer, asked, token)
            except errors.ConnectionLostError as lost:
                lost.what = f"{self.named(call)}: {lost.what.removeprefix(self.base).lstrip(': ')}"
                lost.way_out = "is it running, and the address right?"
                error = lost
            unknown = is_ambiguous(status)
            if (unknown or (call.creates and isinstance(error, _MAY_BE_THERE))) and _is_settled(call, error):
                return HttpAnswer(204)
            elapsed, draw = self._timing.monotonic() - began, self._timing.draw()
            wait = self._policy.pause(status, asked, tried=tried, elapsed=elapsed, draw=draw, conflict=call.conflict)
            if wait is None or not (call.repeatable or (call.creates and not unknown)):
                raise error
            _LOG.info("%s; attempt %d follows in %.1f s", error, tried + 1, wait)
            self._timing.sleep(wait)

    def parsed(
        self,
        call: ApiCall,
        answer: HttpAnswer,
        parse: Callable[[Json], T],
        loads: Loads = jsonvalues.loads,
    ) -> T:
        """Return what ``parse`` makes of an answer's JSON; its ``ValueError`` becomes ``UnexpectedAnswerError``."""
        try:
            return parse(json_bodies.decode(answer, loads))
        except ValueError as error:
            raise self._unexpected(call, answer, error) from None

    def named(self, call: ApiCall) -> str:
        """Return the method and the address of a call, fit to be shown."""
        return f"{call.method} {self.base}{urls.shown(call.path)}"

    def _authorised(self, call: ApiCall) -> tuple[HttpAnswer, str | None]:
        """Return the answer and the token it was given for; a refused token is renewed once (S06)."""
        if self._token is None:
            return self._followed(call, None), None
        token = self._token.token()
        answer = self._followed(call, token)
        if answer.status != 401:
            return answer, token
        other = self._token.renewed(token)
        return (answer, token) if other is None else (self._followed(call, other), other)

    def _followed(self, call: ApiCall, token: str | None) -> HttpAnswer:
        headers = {"Accept": "application/json", **call.headers}
        if token is not None:
            headers["X-Auth-Token"] = token
        if call.method not in {"GET", "HEAD"}:
            headers |= self._changing
        path = call.path
        for _ in range(_REDIRECTS + 1):
            answer = self._send(HttpRequest(call.method, path, headers, call.body))
            if answer.status != 308:
                return answer
            target = self._redirected(path, answer.headers.get("location", ""))
            if target is None:
                return answer
            path = target
        raise self._unexpected(call, answer, f"led on more than {_REDIRECTS} times")

    def _send(self, request: HttpRequest) -> HttpAnswer:
        """Carry out one request; with ``--debug`` log it: never its headers or its body, which hold secrets."""
        if not _LOG.isEnabledFor(logging.DEBUG):
            return self._transport.send(request)
        began, ended = self._timing.monotonic(), "no answer"
        try:
            answer = self._transport.send(request)
            ended = f"{answer.status}, {len(answer.body)} bytes"
            return answer
        finally:
            took = self._timing.monotonic() - began
            _LOG.debug("%s %s%s: %s, %.3f s", request.method, self.base, urls.shown(request.path), ended, took)

    def _unexpected(self, call: ApiCall, answer: HttpAnswer, reason: object) -> errors.UnexpectedAnswerError:
        return errors.UnexpectedAnswerError(
            f"{self.named(call)} answered {answer.status}, but {reason}",
            way_out=f"is {self.base} a {self._peer.name}?",
            request_id=_request_id(answer),
        )

    def _error(self, call: ApiCall, answer: HttpAnswer, asked: float | None, token: str | None) -> errors.ConfigDBError:
        status = answer.status
        if status == 404 and not json_bodies.is_json(answer):
            return self._unexpected(call, answer, f"not as {self._peer.name} says that something is missing")
        said = json_bodies.message(answer, secrets=call.body if call.confidential else None, token=token)
        what = f"{self.named(call)} answered {status}{f': {said}' if said else ''}"
        kind: type[errors.ConfigDBError] = errors.UnexpectedAnswerError
        way_out: str | None = "redirects aren't followed: is the address right?"
        if status == 401:
            kind, way_out = errors.AccessError, self._peer.login
            if token is not None:
                way_out = "the token was refused, and there is no other"
        elif status in _MEANINGS:
            kind, way_out = _MEANINGS[status]
        elif status >= 500:
            patient = asked is None or asked <= self._policy.patience
            kind = errors.UnavailableError if patient else errors.ThrottledError
            way_out = "see the server's log; run again"
        elif status >= 400:
            kind, way_out = errors.RefusedError, None
        return kind(what, way_out=way_out, request_id=_request_id(answer))


_MEANINGS: dict[int, tuple[type[errors.ConfigDBError], str | None]] = {
    403: (errors.AccessError, "the user may not do this there: name a user or token that may"),
    404: (errors.MissingError, None),
    409: (errors.ConflictError, None),
    412: (errors.PreconditionError, None),
    429: (errors.ThrottledError, "run again later"),
}


_MAY_BE_THERE = (errors.ConflictError, errors.UnavailableError)


def _is_settled(call: ApiCall, error: errors.ConfigDBError) -> bool:
    if call.settled is None:
        return False
    try:
        return call.settled()
    except errors.ConfigDBError:
        raise error from None


def _request_id(answer: HttpAnswer) -> str | None:
    for name in _REQUEST_ID:
        found = "".join(character for character in answer.headers.get(name, "") if character.isprintable())
        if found:
            return found[:80]
    return None
