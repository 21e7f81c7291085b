"""A server that lies or breaks off, over a real socket: no wrong conclusion, no hang, no token given away (U13)."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.connect import connect
from configdb_sync.errors import (
    AccessError,
    ConfigDBError,
    ConflictError,
    ConnectionLostError,
    MissingError,
    RefusedError,
    UnavailableError,
    UnexpectedAnswerError,
)
from configdb_sync.http.session import RetryPolicy
from configdb_sync.http.transport import TransferLimits
from tests.configdb.support import NODE, timing
from tests.peers import liar
from tests.peers.liar import Liar, Script, answer

TOKEN = "CANARY-token-7f3"
LIMITS = TransferLimits(connect=30, read=30, total=60, answer=100_000)
HASTY = replace(LIMITS, read=0.5, total=0.9)
PATH = "/environments/5/nodes/46/resources/1/values"


def _wait(stop: threading.Event) -> None:
    stop.wait(20)


@contextlib.contextmanager
def lying(*scripts: Script, limits: TransferLimits = LIMITS) -> Iterator[tuple[Liar, ConfigDBClient]]:
    with (
        liar.running(*scripts) as server,
        connect(server.url, token=TOKEN, limits=limits, policy=RetryPolicy(attempts=3), timing=timing()) as client,
    ):
        yield server, client


@pytest.mark.parametrize("status", [200, 404, 500])
def test_html_for_json_is_never_data_nor_missing(status: int) -> None:
    with lying(answer(status, "<html>login</html>", "text/html")) as (_, client):
        with pytest.raises(UnavailableError if status == 500 else UnexpectedAnswerError, match=f"answered {status}"):
            client.environment(5)
        with pytest.raises(ConfigDBError):
            client.values(5, NODE, 1)


@pytest.mark.parametrize(
    "body",
    [
        '{"message": "Internal Server Error", "status": 500}',
        '{"error": {"code": 401, "title": "Unauthorized", "message": "no"}}',
        "null",
        "[]",
        '"x"',
        "{",
        '{"a": NaN}',
        "",
        "[" * 100_000,
        '{"a": 1}trailing',
        b"\xff\xfe",
    ],
)
def test_a_success_that_is_none(body: str | bytes) -> None:
    """200 with an error body, with something else than a document, or with what isn't JSON."""
    with lying(answer(200, body)) as (_, client), pytest.raises(UnexpectedAnswerError, match="answered 200, but"):
        client.values(5, NODE, 1)


@pytest.mark.parametrize(
    "body",
    [
        '{"id": 6, "components": [], "hierarchy_levels": []}',
        '{"id": 5, "components": ["1"], "hierarchy_levels": []}',
        '{"id": true, "components": [], "hierarchy_levels": []}',
        '{"id": 5, "components": [], "hierarchy_levels": [null]}',
        "{}",
        "[]",
    ],
)
def test_an_environment_that_is_none(body: str) -> None:
    with lying(answer(200, body)) as (_, client), pytest.raises(UnexpectedAnswerError):
        client.environment(5)


@pytest.mark.parametrize("body", ["{}", "[1]", '[{"id": 1}]', '[{"id": 1, "name": "x", "resource_definitions": [{}]}]'])
def test_components_that_are_none(body: str) -> None:
    with lying(answer(200, body)) as (_, client), pytest.raises(UnexpectedAnswerError):
        client.components()


def test_a_cut_body_is_asked_for_again() -> None:
    cut = answer(200, '{"a": 1, "b": 2}')[:-5]

    def send(connection: socket.socket) -> None:
        connection.sendall(cut)
        connection.close()

    with lying(send, answer(200, '{"a": 1}')) as (server, client):
        assert client.values(5, NODE, 1) == {"a": 1}
        assert server.lines == [f"GET {PATH}"] * 2


def test_a_body_without_a_length_that_is_cut_is_no_document() -> None:
    def send(connection: socket.socket) -> None:
        connection.sendall(b'HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{"a": 1, "b"')
        connection.close()

    with lying(send) as (_, client), pytest.raises(UnexpectedAnswerError, match="isn't whole JSON"):
        client.values(5, NODE, 1)


@pytest.mark.parametrize("part", ["head", "body"])
def test_a_slow_drip_ends_with_the_total(part: str) -> None:
    """Each byte comes within the read limit; only the total ends it."""
    whole = answer(200, '{"a": "' + "x" * 400 + '"}')
    stop = threading.Event()
    start = 0 if part == "head" else whole.index(b"\r\n\r\n") + 4

    def send(connection: socket.socket) -> None:
        connection.sendall(whole[:start])
        for byte in whole[start:]:
            connection.sendall(bytes([byte]))
            if stop.wait(0.05):
                return

    with lying(send, limits=HASTY) as (server, client):
        try:
            with pytest.raises(ConnectionLostError, match="no answer in time"):
                client.values(5, NODE, 1)
        finally:
            stop.set()
        assert len(server.requests) == 3


def test_a_silent_server_ends_with_the_read_limit() -> None:
    stop = threading.Event()
    with lying(lambda _: (stop.wait(20) and None) or None, limits=replace(LIMITS, read=0.2)) as (_, client):
        try:
            with pytest.raises(ConnectionLostError, match="no answer in time"):
                client.components()
        finally:
            stop.set()


def _reading_late(wait: threading.Event, seconds: float) -> Iterator[tuple[int, list[int]]]:
    """A server that reads a request only after some seconds, and then says 204."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(60)
        sizes: list[int] = []

        def serve() -> None:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):
                wait.wait(seconds)
                connection.settimeout(60)
                size = 0
                while not wait.is_set() and size < 20_000_000:
                    size += len(connection.recv(1 << 20))
                sizes.append(size)
                connection.sendall(b"HTTP/1.1 204 X\r\nContent-Length: 0\r\n\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1], sizes
        finally:
            wait.set()
            thread.join(60)


def test_a_large_body_may_take_longer_than_a_connection() -> None:
    limits = TransferLimits(connect=0.2, read=60, total=120)
    document = b'{"a": "' + b"x" * 20_000_000 + b'"}'
    with contextlib.contextmanager(_reading_late)(threading.Event(), 0.5) as (port, sizes):
        policy = RetryPolicy(attempts=1)
        with connect(f"http://127.0.0.1:{port}", limits=limits, policy=policy, timing=timing()) as client:
            client.put_values(5, NODE, 1, document)
        assert sizes[0] >= 20_000_000


def test_a_server_that_never_reads_ends_with_the_total() -> None:
    limits = TransferLimits(connect=0.2, read=0.3, total=0.6)
    document = b'{"a": "' + b"x" * 20_000_000 + b'"}'
    with contextlib.contextmanager(_reading_late)(threading.Event(), 20) as (port, _):
        policy = RetryPolicy(attempts=1)
        with (
            connect(f"http://127.0.0.1:{port}", limits=limits, policy=policy, timing=timing()) as client,
            pytest.raises(ConnectionLostError),
        ):
            client.put_values(5, NODE, 1, document)


def test_more_than_the_limit_is_not_read() -> None:
    with (
        lying(answer(200, '{"a": "' + "x" * 200_000 + '"}')) as (_, client),
        pytest.raises(UnexpectedAnswerError, match="more than the 100000 bytes"),
    ):
        client.values(5, NODE, 1)


def test_an_encoding_that_was_not_asked_for_is_refused() -> None:
    """A small body can't unpack into a large one."""
    with (
        lying(answer(200, b"\x1f\x8b", Content_Encoding="gzip")) as (_, client),
        pytest.raises(UnexpectedAnswerError, match="encoding"),
    ):
        client.values(5, NODE, 1)


def test_a_reset_after_the_write_was_done_is_a_success() -> None:
    """S07: the lost answer is settled by reading back."""
    with lying(liar.reset, answer(200, '{"a": 1}')) as (server, client):
        client.put_values(5, NODE, 1, {"a": 1})
        assert server.lines == [f"PUT {PATH}", f"GET {PATH}"]


def test_a_reset_before_the_write_was_done_is_sent_again() -> None:
    """S07."""
    with lying(liar.reset, answer(200, '{"a": 0}'), answer(204)) as (server, client):
        client.put_values(5, NODE, 1, {"a": 1})
        assert server.lines == [f"PUT {PATH}", f"GET {PATH}", f"PUT {PATH}"]


def test_a_gateway_that_gave_up_says_nothing_of_the_write() -> None:
    """S07: 504 after the write was done."""
    with lying(answer(504, "<html>", "text/html"), answer(200, '{"a": 1}')) as (server, client):
        client.put_values(5, NODE, 1, b'{"a":1}')
        assert server.lines == [f"PUT {PATH}", f"GET {PATH}"]


def test_a_reset_after_a_component_was_made_makes_no_second() -> None:
    listed = '[{"id": 3, "name": "c", "resource_definitions": []}]'
    with lying(liar.reset, answer(200, listed)) as (server, client):
        assert client.create_component("c", []).id == 3
        assert server.lines == ["POST /components", "GET /components"]


def test_a_reset_before_a_component_was_made_is_an_error() -> None:
    """POST isn't repeated by itself: running again is safe, two definitions of one name aren't."""
    with lying(liar.reset, answer(200, "[]")) as (server, client):
        with pytest.raises(ConnectionLostError, match=r"POST .*/components"):
            client.create_component("c", [])
        assert server.lines == ["POST /components", "GET /components"]


def test_what_the_server_failed_to_make_is_asked_for_and_made_again() -> None:
    """U13, S04: 0.1.0 on SQLite answers 500 to what comes together. Whether that was true or not, it is made once."""
    made = '{"id": 3, "name": "c", "resource_definitions": []}'
    with lying(answer(500, "{}"), answer(200, "[]"), answer(201, made)) as (server, client):
        assert client.create_component("c", []).id == 3
        assert server.lines == ["POST /components", "GET /components", "POST /components"]
    with lying(answer(500, "{}"), answer(200, f"[{made}]")) as (server, client):
        assert client.create_component("c", []).id == 3
        assert server.lines == ["POST /components", "GET /components"]
    with lying(answer(500, "{}"), answer(403, "{}")) as (server, client):
        with pytest.raises(UnavailableError, match=r"POST .*/components answered 500"):
            client.create_component("c", [])
        assert server.lines == ["POST /components", "GET /components"]


def test_a_503_in_the_middle_is_waited_for() -> None:
    with lying(answer(503, "", Retry_After="1"), answer(200, '{"a": 1}')) as (_, client):
        assert client.values(5, NODE, 1) == {"a": 1}


def test_a_409_that_is_a_validation_error_is_not_success() -> None:
    """S04: the server's text is shown."""
    text = '{"msg": "(sqlite3.IntegrityError) CHECK constraint failed: level"}'
    with lying(answer(409, text), answer(404, '{"message": "no"}')) as (server, client):
        with pytest.raises(ConflictError, match="CHECK constraint failed"):
            client.create_environment(5, [1], ["nodes"])
        assert server.lines == ["POST /environments", "GET /environments/5"]


def test_a_401_for_ever_ends_at_once() -> None:
    """S06: nothing renews a fixed token; one request, no loop, the token isn't shown."""
    text = f'{{"error": {{"code": 401, "message": "token {TOKEN} is bad"}}}}'
    with lying(answer(401, text)) as (server, client):
        with pytest.raises(AccessError) as caught:
            client.values(5, NODE, 1)
        assert len(server.requests) == 1
        assert TOKEN not in f"{caught.value}{caught.value!r}"


def test_redirects_to_elsewhere_are_not_followed() -> None:
    """S05: 301, 302, 303 and 307 are errors; no second host is asked."""
    with liar.running(answer(200, '{"a": 1}')) as other:
        for status in (301, 302, 303, 307, 308):
            location = f"{other.url}/configdb{PATH}X"
            with lying(answer(status, "", Location=location)) as (server, client):
                with pytest.raises(UnexpectedAnswerError, match=f"answered {status}"):
                    client.values(5, NODE, 1)
                with pytest.raises(UnexpectedAnswerError, match=f"answered {status}"):
                    client.put_values(5, NODE, 1, {"a": 1})
                assert len(server.requests) == 2
        assert other.requests == []


def test_the_308_of_a_proxied_server_stays_with_the_known_host() -> None:
    """0.1.0 guesses scheme, host and prefix; method, body and token are kept, and stay with the known host."""
    with liar.running(answer(200, "{}")) as other:
        redirect = answer(308, "<html>", "text/html", Location=f"{other.url}/api/v1/config{PATH}")
        with lying(redirect, answer(204)) as (server, client):
            client.put_values(5, NODE, 1, {"a": 1})
            first, second = server.requests
            assert second == first
            assert TOKEN.encode() in second
            assert second.endswith(b'{"a":1}')
        assert other.requests == []


def test_a_loop_of_308_ends() -> None:
    with lying(answer(308, "", Location=PATH)) as (server, client):
        with pytest.raises(UnexpectedAnswerError, match="more than 3 times"):
            client.values(5, NODE, 1)
        assert len(server.requests) == 4


def test_what_a_server_repeats_of_a_document_is_not_shown() -> None:
    """Y20: a secret that was sent doesn't come back in an error's text."""
    text = '{"message": "can\'t store \\"CANARY-pw 8a1\\" at admin.password [parameters: (CANARY-pw)]"}'
    with lying(answer(422, text)) as (_, client):
        with pytest.raises(RefusedError, match=r"can't store .*admin\.password") as caught:
            client.put_overrides(5, NODE, 1, {"admin": {"password": "CANARY-pw 8a1"}})
        assert "CANARY" not in f"{caught.value}{caught.value!r}"
        assert "8a1" not in str(caught.value)


def test_control_characters_of_a_server_do_not_reach_the_terminal() -> None:
    with lying(answer(400, '{"message": "\\u001b[2Jgone\\r\\nnext"}', X_Openstack_Request_Id="req-\x7f1")) as (
        _,
        client,
    ):
        with pytest.raises(RefusedError) as caught:
            client.components()
        assert all(character.isprintable() for character in str(caught.value))
        assert "request req-1" in str(caught.value)


def test_headers_without_end_and_other_noise() -> None:
    noise: list[bytes] = [
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 500 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\nContent-Type: application/json\r\n\r\n{}",
        b"HTTP/1.1 99 X\r\n\r\n",
        b"\0" * 5000,
    ]
    for script in noise:

        def send(connection: socket.socket, script: bytes = script) -> None:
            connection.sendall(script)
            connection.close()

        with lying(send) as (_, client), pytest.raises(ConfigDBError):
            client.components()


def test_a_404_within_json_of_a_document_asks_what_is_missing() -> None:
    with (
        lying(answer(404, '{"message": "no"}'), answer(503)) as (_, client),
        pytest.raises(MissingError, match="answered 404"),
    ):
        client.values(5, NODE, 1)
