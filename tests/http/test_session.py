"""Attempts, tokens and headers of a call (U13, U17, S06, S07), without a network."""

from __future__ import annotations

import logging

import pytest

from configdb_sync.configdb import api_paths
from configdb_sync.configdb.connect import CONFIGDB
from configdb_sync.configdb.model import ChangeAuthor
from configdb_sync.errors import (
    AccessError,
    ConflictError,
    ConnectionLostError,
    MissingError,
    PreconditionError,
    RefusedError,
    ThrottledError,
    UnavailableError,
)
from configdb_sync.http.session import ApiCall, ApiSession, RetryPolicy
from configdb_sync.http.tokens import RenewedToken
from configdb_sync.http.transport import HttpAnswer, HttpRequest
from tests.configdb.support import FakeExchange, Scripted, html, json, timing

OK = json(200, "{}")
GET = ApiCall("GET", "/components", repeatable=True)
PUT = ApiCall("PUT", "/x", b"{}", repeatable=True, conflict=True)


def caller(*script: Scripted, waits: list[float] | None = None, attempts: int = 4) -> tuple[FakeExchange, ApiSession]:
    exchange = FakeExchange(list(script))
    policy = RetryPolicy(attempts=attempts)
    changing = api_paths.author_headers(ChangeAuthor("req-1", "Zoë", "a\nb"))
    return exchange, ApiSession(exchange, CONFIGDB, changing=changing, policy=policy, timing=timing(waits))


def test_a_get_is_tried_again_with_growing_waits() -> None:
    waits: list[float] = []
    exchange, made = caller(ConnectionLostError("x"), json(500, "{}"), html(503), OK, waits=waits)
    assert made.call(GET) == OK
    assert len(exchange.requests) == 4
    assert waits == [0.2 * 0.75, 0.4 * 0.75, 0.8 * 0.75]


def test_it_gives_up_with_the_last_fault() -> None:
    exchange, made = caller(json(500, '{"message": "broken"}', x_openstack_request_id="req-9"))
    with pytest.raises(
        UnavailableError, match=r"GET http://configdb\.example/components answered 500: broken"
    ) as caught:
        made.call(GET)
    assert len(exchange.requests) == 4
    assert caught.value.request_id == "req-9"


@pytest.mark.parametrize("failure", [ConnectionLostError("x"), *(json(s, "{}") for s in (429, 500, 502, 503, 504))])
def test_a_post_is_sent_once(failure: Scripted) -> None:
    exchange, made = caller(failure)
    with pytest.raises(UnavailableError):
        made.call(ApiCall("POST", "/components", b"{}"))
    assert len(exchange.requests) == 1


def test_a_conflict_is_tried_again_for_documents_alone() -> None:
    exchange, made = caller(json(409, "{}"), json(204, ""))
    assert made.call(PUT).status == 204
    exchange, made = caller(json(409, '{"msg": "there already"}'))
    with pytest.raises(ConflictError, match="there already"):
        made.call(ApiCall("PATCH", "/x", b"{}"))
    assert len(exchange.requests) == 1


def test_retry_after_is_kept_to_and_too_long_a_wait_is_refused() -> None:
    waits: list[float] = []
    _, made = caller(json(429, "{}", retry_after="9"), OK, waits=waits)
    made.call(GET)
    assert waits == [9.0]
    exchange, made = caller(json(503, "{}", retry_after="3600"))
    with pytest.raises(ThrottledError):
        made.call(GET)
    assert len(exchange.requests) == 1


def test_a_lost_put_that_was_done_is_done() -> None:
    """S07."""
    exchange, made = caller(ConnectionLostError("x"), OK)
    call = ApiCall("PUT", "/x", b"{}", repeatable=True, settled=lambda: True)
    assert made.call(call).status == 204
    assert len(exchange.requests) == 1


def test_a_failed_put_that_was_surely_not_done_asks_nothing() -> None:
    def ask() -> bool:
        raise AssertionError("asked")

    _, made = caller(json(409, "{}"), json(503, "{}"), OK)
    assert made.call(ApiCall("PUT", "/x", b"{}", repeatable=True, conflict=True, settled=ask)) == OK


def test_who_writes_is_named_on_changes_alone() -> None:
    """U17."""
    exchange, made = caller(OK)
    made.call(GET)
    made.call(PUT)
    reading, writing = (dict(request.headers) for request in exchange.requests)
    assert not any(name.startswith("X-Configdb") for name in reading)
    assert writing["X-Configdb-Run"] == "req-1"
    assert writing["X-Configdb-Author"] == "Zo%C3%AB"
    assert writing["X-Configdb-Comment"] == "a%0Ab"
    assert writing["Content-Type"] == "application/json"


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (json(403, "{}"), AccessError),
        (json(404, "{}"), MissingError),
        (json(400, "{}"), RefusedError),
        (json(422, "{}"), RefusedError),
        (json(412, "{}"), PreconditionError),
        (html(405), RefusedError),
    ],
)
def test_statuses_and_their_meanings(answer: HttpAnswer, kind: type[Exception]) -> None:
    _, made = caller(answer)
    with pytest.raises(kind):
        made.call(GET)


def authorised(*script: Scripted, given: list[str]) -> tuple[FakeExchange, ApiSession]:
    exchange = FakeExchange(list(script))
    return exchange, ApiSession(exchange, CONFIGDB, RenewedToken(lambda: given.pop(0)), timing=timing())


def test_a_refused_token_is_renewed_once_and_the_call_repeated_once() -> None:
    """S06."""
    exchange, made = authorised(json(401, "{}"), OK, given=["CANARY-1", "CANARY-2"])
    assert made.call(PUT) == OK
    assert [request.headers["X-Auth-Token"] for request in exchange.requests] == ["CANARY-1", "CANARY-2"]
    assert exchange.requests[0].body == exchange.requests[1].body


def test_a_second_401_ends_it(caplog: pytest.LogCaptureFixture) -> None:
    """S06: no loop; and no token anywhere."""
    caplog.set_level(logging.DEBUG)
    exchange, made = authorised(json(401, '{"message": "CANARY-2 is bad"}'), given=["CANARY-1", "CANARY-2", "CANARY-3"])
    with pytest.raises(AccessError) as caught:
        made.call(GET)
    assert len(exchange.requests) == 2
    assert "CANARY" not in f"{caught.value!r}{caught.value}{caplog.text}{exchange.requests!r}"


def test_debug_lines_have_no_token_and_no_body(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "configdb_sync")
    _, made = authorised(ConnectionLostError("x"), json(200, '"CANARY-answer"'), given=["CANARY-1"])
    made.call(ApiCall("PUT", "/x?a=b", b'"CANARY-body"', repeatable=True))
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.DEBUG]
    assert [line.rpartition(",")[0] for line in lines] == [
        "PUT http://configdb.example/x?a: no answer",
        "PUT http://configdb.example/x?a: 200, 15 bytes",
    ]
    assert "CANARY" not in caplog.text


def test_each_call_may_renew_its_token() -> None:
    """S06: a token that lives 2 s, many calls."""

    def expiring(request: HttpRequest) -> HttpAnswer:
        seen.append(request.headers["X-Auth-Token"])
        return json(401, "{}") if seen.count(seen[-1]) > 2 else OK

    seen: list[str] = []
    exchange, made = authorised(expiring, given=[f"t{number}" for number in range(50)])
    for _ in range(40):
        assert made.call(GET) == OK
    assert len(exchange.requests) < 80
