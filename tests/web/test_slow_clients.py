"""Slow and half-sent requests stop neither service (R4)."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import socket
import ssl

import pytest

from tests.web.servers import Server, answers

HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"


def parts(server: Server) -> list[tuple[bytes, list[int]]]:
    """Return half-sent requests, and the answers that they end with."""
    start = f"POST {server.path} HTTP/1.1\r\nHost: x\r\n"
    return [
        (start.encode(), [408]),
        (f"{start}Content-Length: 100\r\n\r\n{{".encode(), [408]),
        (f"{start}Transfer-Encoding: chunked\r\n\r\n64\r\n{{".encode(), [408]),
        (b"", []),
    ]


@pytest.mark.parametrize("number", [12, 200])
def test_others_are_answered_and_the_slow_are_closed(server: Server, number: int) -> None:
    """Heads, bodies, connections without a word and TLS handshakes that stop."""
    with contextlib.ExitStack() as stack:
        slow = []
        for part, ends in itertools.islice(itertools.cycle(parts(server)), number):
            slow.append((stack.enter_context(server.connect()), ends))
            slow[-1][0].sendall(part)
        if server.tls:
            for part in (b"", HELLO) * (number // 2):
                slow.append((stack.enter_context(server.plain()), []))
                slow[-1][0].sendall(part)
        for _ in range(5):
            assert server.get().status == 200
        for connection, ends in slow:
            found = answers(end_of(connection))
            assert [answer.status for answer in found] == ends
            for answer in found:
                server.check_refused(answer)
    assert server.get().status == 200


def test_clients_that_do_not_read_their_answer(server: Server) -> None:
    """They keep no thread."""
    if server.kind != "configdb":
        return  # it has no answer that a socket doesn't take whole
    put = functools.partial(write, server)
    component = {"name": "fuel", "resource_definitions": [{"name": "globals"}]}
    assert put("POST", "/components", component) in {201, 409}
    assert put("POST", "/environments", {"id": 5, "components": ["fuel"], "hierarchy_levels": []}) in {201, 409}
    place = "/environments/5/resources/globals/values"
    assert put("PUT", place, {"a": "x" * 20_000_000}) == 204
    request = f"GET {place} HTTP/1.1\r\nHost: x\r\nX-Auth-Token: {server.token}\r\n\r\n".encode()
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(server.connect()) for _ in range(6)]
        for connection in slow:
            connection.sendall(request)
        for connection in slow:
            assert connection.recv(10) == b"HTTP/1.1 2"
        assert server.get().status == 200


def write(server: Server, method: str, path: str, value: object) -> int:
    body = json.dumps(value).encode()
    lines = [f"{method} {path} HTTP/1.1", "Host: x", "Connection: close", f"X-Auth-Token: {server.token}"]
    lines += ["Content-Type: application/json", f"Content-Length: {len(body)}", "", ""]
    return answers(server.exchange("\r\n".join(lines).encode() + body))[0].status


def test_a_body_that_trickles_is_closed(server: Server) -> None:
    """A byte now and then doesn't keep a connection: what counts is the pace."""
    with server.connect() as connection:
        connection.sendall(parts(server)[1][0])
        connection.settimeout(0.2)
        found = b""
        for _ in range(90):
            try:
                found = connection.recv(100)
                break
            except TimeoutError:
                connection.sendall(b" ")
        assert found.startswith(b"HTTP/1.1 408 ")


def test_a_last_answer_is_read_after_a_body_that_nobody_wanted(server: Server) -> None:
    """A client that sends all of its body first gets its answer too."""
    size = 80_000_000 if server.kind == "configdb" else 8_000_000
    with server.connect() as connection:
        connection.sendall(f"POST {server.path} HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n".encode())
        for _ in range(4):
            connection.sendall(bytes(1_000_000))
        assert answers(end_of(connection))[0].status == 401


def end_of(connection: socket.socket) -> bytes:
    found = b""
    with contextlib.suppress(ConnectionResetError, ssl.SSLError):
        while part := connection.recv(65536):
            found += part
    return found
