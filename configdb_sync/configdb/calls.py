"""One call of the ConfigDB API: token, attempts, redirects, and the error that a failed one becomes (U13, S05-S07)."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from configdb_sync import errors
from configdb_sync.configdb import answers, faults, retry, urls
from configdb_sync.configdb.exchange import Answer, Exchange, Request
from configdb_sync.configdb.model import Writer
from configdb_sync.configdb.tokens import TokenSource

_LOG = logging.getLogger(__name__)
_REDIRECTS = 3
_REQUEST_ID = ("x-openstack-request-id", "x-request-id")


@dataclass(frozen=True)
class Surroundings:
    """What a call needs of the world beside the network; a test gives its own."""

    sleep: Callable[[float], object] = time.sleep
    draw: Callable[[], float] = random.random
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    monotonic: Callable[[], float] = time.monotonic


@dataclass(frozen=True)
class Call:
    """One request of the API as it is meant.

    ``repeatable``: carried out twice it does no harm. ``conflict``: see ``retry.pause``. ``accept``: statuses beside
    2xx that are answers to the caller. ``settled``: asked after an attempt whose outcome isn't known, tells whether the
    change is there. ``confidential``: the body's leaves must not show in an error, even if the server says them.
    """

    method: str
    path: str
    body: bytes | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = False
    conflict: bool = False
    accept: frozenset[int] = frozenset()
    settled: Callable[[], bool] | None = None
    confidential: bool = False


class Caller:
    """Makes calls over one exchange. Safe for several threads."""

    def __init__(
        self,
        exchange: Exchange,
        token: TokenSource | None = None,
        writer: Writer | None = None,
        policy: retry.RetryPolicy | None = None,
        surroundings: Surroundings | None = None,
    ) -> None:
        self._exchange = exchange
        self._token = token
        self._policy = policy or retry.RetryPolicy()
        self._world = surroundings or Surroundings()
        who = writer or Writer()
        self._changing = urls.writer_headers(who.run, who.author, who.comment)

    @property
    def base(self) -> str:
        """The server's address, fit to be shown."""
        return self._exchange.base

    def close(self) -> None:
        """Give back connections."""
        self._exchange.close()

    def call(self, call: Call) -> Answer:
        """Carry out a call and return its answer: 2xx or a status of ``call.accept``.

        A change that ``settled`` found to be there after all answers 204. Raises ``AccessError``, ``MissingError``,
        ``ConflictError``, ``PreconditionError``, ``RefusedError``, ``ThrottledError``, ``UnavailableError`` or its
        ``LostError``, ``UnexpectedAnswerError``.
        """
        tried, began = 0, self._world.monotonic()
        while True:
            tried += 1
            failure, error = self._attempt(call)
            if isinstance(error, Answer):
                return error
            if retry.ambiguous(failure.status) and call.settled is not None and call.settled():
                return Answer(204)
            wait = retry.pause(
                self._policy,
                failure,
                tried=tried,
                elapsed=self._world.monotonic() - began,
                repeatable=call.repeatable,
                conflict=call.conflict,
                draw=self._world.draw(),
            )
            if wait is None:
                raise error
            _LOG.info("%s; attempt %d follows in %.1f s", error, tried + 1, wait)
            self._world.sleep(wait)

    def unexpected(self, call: Call, answer: Answer, reason: object) -> errors.UnexpectedAnswerError:
        """Return the error of an answer that isn't what ``call`` asked for."""
        return errors.UnexpectedAnswerError(
            f"{self.named(call)} answered {answer.status}, but {reason}",
            way_out=f"is {self.base} a ConfigDB?",
            request_id=_request_id(answer),
        )

    def named(self, call: Call) -> str:
        """Return the method and the address of a call, fit to be shown."""
        return f"{call.method} {self.base}{urls.shown(call.path)}"

    def _attempt(self, call: Call) -> tuple[retry.Failure, Answer | errors.ConfigDBError]:
        try:
            answer, token = self._authorised(call)
        except faults.LostError as error:
            error.what = f"{self.named(call)}: {error.what.removeprefix(self.base).lstrip(': ')}"
            error.way_out = "is it running, and the address right?"
            return retry.Failure(None), error
        if 200 <= answer.status < 300 or answer.status in call.accept:
            return retry.Failure(answer.status), answer
        wait = retry.retry_after(answer.headers.get("retry-after"), self._world.now())
        return retry.Failure(answer.status, wait), self._error(call, answer, wait, token)

    def _authorised(self, call: Call) -> tuple[Answer, str | None]:
        """Return the answer and the token it was given for; a refused token is renewed once (S06)."""
        if self._token is None:
            return self._followed(call, None), None
        token = self._token.token()
        answer = self._followed(call, token)
        if answer.status != 401:
            return answer, token
        other = self._token.renewed(token)
        return (answer, token) if other is None else (self._followed(call, other), other)

    def _followed(self, call: Call, token: str | None) -> Answer:
        headers = {"Accept": "application/json", **call.headers}
        if token is not None:
            headers["X-Auth-Token"] = token
        if call.method not in {"GET", "HEAD"}:
            headers |= {"Content-Type": "application/json", **self._changing}
        path = call.path
        for _ in range(_REDIRECTS + 1):
            answer = self._exchange.send(Request(call.method, path, headers, call.body))
            if answer.status != 308:
                return answer
            target = urls.redirected(path, answer.headers.get("location", ""))
            if target is None:
                return answer
            path = target
        raise self.unexpected(call, answer, f"led on more than {_REDIRECTS} times")

    def _error(self, call: Call, answer: Answer, wait: float | None, token: str | None) -> errors.ConfigDBError:
        status = answer.status
        if status == 404 and not answers.is_json(answer):
            return self.unexpected(call, answer, "not as ConfigDB says that something is missing")
        said = answers.message(answer, secrets=call.body if call.confidential else None, token=token)
        what = f"{self.named(call)} answered {status}{f': {said}' if said else ''}"
        patient = wait is None or wait <= self._policy.patience
        kind, way_out = _meaning(status, patient=patient, had_token=token is not None)
        return kind(what, way_out=way_out, request_id=_request_id(answer))


def _meaning(status: int, *, patient: bool, had_token: bool) -> tuple[type[errors.ConfigDBError], str | None]:
    """Return the error class of a status that isn't an answer, and the way out."""
    kinds: dict[int, tuple[type[errors.ConfigDBError], str | None]] = {
        401: (errors.AccessError, _access(had_token=had_token)),
        403: (errors.AccessError, "the user may not do this there"),
        404: (errors.MissingError, None),
        409: (faults.ConflictError, None),
        412: (faults.PreconditionError, None),
        429: (faults.ThrottledError, "run again later"),
    }
    if status in kinds:
        return kinds[status]
    if status >= 500:
        return (
            errors.UnavailableError if patient else faults.ThrottledError,
            "see the server's log; run again",
        )
    if status >= 400:
        return faults.RefusedError, None
    return errors.UnexpectedAnswerError, "redirects aren't followed: is the address right?"


def _access(*, had_token: bool) -> str:
    if had_token:
        return "the token was refused, and there is no other"
    return "give a token: --configdb-token-file FILE"


def _request_id(answer: Answer) -> str | None:
    for name in _REQUEST_ID:
        found = "".join(character for character in answer.headers.get(name, "") if character.isprintable())
        if found:
            return found[:80]
    return None
