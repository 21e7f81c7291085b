"""What HTTP gives clients stays: connections that are kept, pipelining, 100-continue, a body's end (R4)."""

from __future__ import annotations

import socket

from tests.web.servers import Server, answers


def request(server: Server, method: str, path: str, *headers: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: x", f"X-Auth-Token: {server.token}", *headers, "", ""]
    return "\r\n".join(lines).encode()


def test_requests_in_one_packet_are_answered_in_order(server: Server) -> None:
    chunks = ("Transfer-Encoding: chunked", "Content-Type: application/json")
    sent = b"".join(
        [
            request(server, "GET", server.path),
            request(server, "PUT", "/nowhere", "Content-Length: 2") + b"{}",
            request(server, "PUT", "/nowhere", *chunks) + b"2;a=b\r\n{}\r\n0\r\nX: y\r\n\r\n",
            request(server, "GET", server.path),
            request(server, "GET", "/nowhere", "Connection: close"),
        ]
    )
    assert [answer.status for answer in answers(server.exchange(sent))] == [200, 404, 404, 200, 404]


def test_requests_byte_by_byte_on_one_connection(server: Server) -> None:
    with server.connect() as connection:
        file = connection.makefile("rb")
        for _ in range(3):
            for byte in request(server, "HEAD", server.path):
                connection.sendall(bytes([byte]))
            assert file.readline().split()[1] in {b"200", b"204"}
            while file.readline() != b"\r\n":
                pass


def test_a_client_that_waits_to_be_told_to_go_on(server: Server) -> None:
    """RFC 9110 10.1.1: but it isn't told to send what nobody takes."""
    headers = ("Expect: 100-continue", "Connection: close", "Content-Type: application/json")
    with server.connect() as connection:
        connection.sendall(request(server, "PUT", "/nowhere", *headers, "Content-Length: 2"))
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"{}")
        assert connection.recv(100).startswith(b"HTTP/1.1 404 ")
    with server.connect() as connection:
        connection.sendall(request(server, "PUT", "/nowhere", *headers, "Content-Length: 999999999"))
        assert connection.recv(100).startswith(b"HTTP/1.1 4")


def test_a_client_that_has_said_all_gets_every_answer(server: Server) -> None:
    if server.tls:
        return
    with server.connect() as connection:
        connection.sendall(request(server, "GET", server.path) * 3)
        connection.shutdown(socket.SHUT_WR)
        found = b""
        while part := connection.recv(65536):
            found += part
    assert [answer.status for answer in answers(found)] == [200] * 3
