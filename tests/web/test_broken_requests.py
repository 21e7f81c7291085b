"""What isn't HTTP is refused in the API's own form, and leaves nothing of the client's in the log (R5)."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.web.servers import Server, answers

SECRET = "hunter2secret"
_BODY = f'{{"password": "{SECRET}"}}'
_CHUNKED = "PUT PATH HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"

BROKEN = {
    "chunk size": f"{_CHUNKED}zz\r\n{_BODY}\r\n0\r\n\r\n",
    "chunk of the body's bytes": f"{_CHUNKED}{_BODY}\r\n0\r\n\r\n",
    "chunk end": f"{_CHUNKED}5\r\n{_BODY}\r\n0\r\n\r\n",
    "trailer": f"{_CHUNKED}1\r\n1\r\n0\r\n{SECRET}\r\n\r\n",
    "chunk extension": f"{_CHUNKED}1;\x7f{SECRET}\r\n1\r\n0\r\n\r\n",
    "header without colon": f"GET PATH HTTP/1.1\r\nX-Auth-Token {SECRET}\r\n\r\n",
    "header name": f"GET PATH HTTP/1.1\r\nX {SECRET}: 1\r\n\r\n",
    "header value": f"GET PATH HTTP/1.1\r\nX: \x00{SECRET}\r\n\r\n",
    "folded header": f"GET PATH HTTP/1.1\r\nX: 1\r\n {SECRET}\r\n\r\n",
    "bare line end": f"GET PATH HTTP/1.1\nX-Auth-Token: {SECRET}\n\n",
    "two hosts": f"GET PATH HTTP/1.1\r\nHost: {SECRET}\r\nHost: y\r\n\r\n",
    "no version": f"GET /{SECRET}\r\n\r\n",
    "version": f"GET PATH HTTP/{SECRET}\r\n\r\n",
    "version 2": "GET PATH HTTP/2.0\r\n\r\n",
    "method": f"{SECRET} PATH HTTP/1.1\r\n\r\n",
    "target": f"GET {SECRET} HTTP/1.1\r\n\r\n",
    "space in target": f"GET /a {SECRET} HTTP/1.1\r\n\r\n",
    "long line": f"GET /{SECRET * 1000} HTTP/1.1\r\n\r\n",
    "long line without end": f"GET /{SECRET * 1000}",
    "long header": f"GET PATH HTTP/1.1\r\nX: {SECRET * 1000}\r\n\r\n",
    "long head": f"GET PATH HTTP/1.1\r\nX: {SECRET * 20000}",
    "many headers": f"GET PATH HTTP/1.1\r\n{''.join(f'X-{n}: {SECRET}{chr(13)}{chr(10)}' for n in range(70))}\r\n",
    "length": f"PUT PATH HTTP/1.1\r\nContent-Length: {SECRET}\r\n\r\n",
    "negative length": "PUT PATH HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    "digits of no number": "PUT PATH HTTP/1.1\r\nContent-Length: \u00b2\r\n\r\n",
    "two lengths": "PUT PATH HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n1",
    "length and chunks": "PUT PATH HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "coding": f"PUT PATH HTTP/1.1\r\nTransfer-Encoding: {SECRET}\r\n\r\n",
    "chunks in 1.0": "PUT PATH HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "expectation": f"PUT PATH HTTP/1.1\r\nExpect: {SECRET}\r\nContent-Length: 1\r\n\r\n1",
    "TLS": f"\x16\x03\x01\x02\x00\x01{SECRET}",
    "SSH": f"SSH-2.0-{SECRET}\r\n\r\n",
}
OTHER = {"long line": 414, "long line without end": 414, "long header": 431, "long head": 431, "many headers": 431}
OTHER |= {"coding": 501, "expectation": 417}


@pytest.mark.parametrize("token", ["", "X-Auth-Token: "], ids=["without token", "with token"])
@pytest.mark.parametrize("name", BROKEN)
def test_it_is_refused_without_a_trace(server: Server, name: str, token: str) -> None:
    request = BROKEN[name].replace("PATH", server.path)
    if token:
        request = request.replace(" HTTP/1.1\r\n", f" HTTP/1.1\r\n{token}{server.token}\r\n", 1)
    found = answers(server.exchange(request.encode("latin-1")))
    assert [answer.status for answer in found] == [OTHER.get(name, 400)]
    server.check_refused(found[0])
    assert SECRET not in found[0].body.decode()
    log = server.log.read_text()
    assert SECRET not in log
    assert "Traceback" not in log
    assert server.get().status == 200


def test_they_do_not_fill_the_log(server: Server) -> None:
    """However many come, there is a line a minute."""
    for _ in range(100):
        server.exchange(b"nonsense\r\n\r\n")
    lines = [line for line in server.log.read_text().splitlines() if "requests refused" in line]
    assert 1 <= len(lines) <= 3
    assert "127.0.0.1" in lines[0]


@pytest.mark.parametrize(
    "headers",
    [
        ("X-Forwarded-Proto: https", "X-Forwarded-Protocol: http", "X-Forwarded-Ssl: off"),
        ("X-Forwarded-Proto: http", "X-Forwarded-Ssl: on"),
        ("SCRIPT_NAME: /elsewhere", "PATH_INFO: /elsewhere"),
    ],
)
def test_headers_that_are_not_used_do_not_matter(server: Server, headers: tuple[str, ...]) -> None:
    assert server.get(*headers).status == 200


PARTS = st.sampled_from(
    [
        b"GET ",
        b"PUT ",
        b"/components",
        b"/v1.0/a",
        b" HTTP/1.1",
        b"\r\n",
        b"\n",
        b"\r",
        b"Content-Length: ",
        b"Transfer-Encoding: chunked",
        b"Expect: 100-continue",
        b"Connection: close",
        b"5",
        b"0",
        b"zz",
        b": ",
        b";",
        b" ",
        b"\x00",
        b"\xff",
        b"\r\n\r\n",
    ]
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=st.lists(PARTS | st.binary(max_size=6), max_size=30))
@example(parts=[b"\r\n\r\n"])
@example(parts=[b"GET / HTTP/1.1\r\n\r\n", b"\r\n\r\nzz"])
def test_any_bytes_are_refused_or_answered(server: Server, parts: list[bytes]) -> None:
    """No bytes end in 500 or a traceback, nor stand in the log; the service goes on."""
    marked = SECRET.encode()
    request = b"".join(parts) + marked + b"\r\n\r\n" + b"".join(parts)
    with server.connect() as connection:
        connection.sendall(request)
        if not server.tls:
            connection.shutdown(1)
        found = b""
        try:
            while part := connection.recv(65536):
                found += part
        except OSError:
            pass
    statuses = [answer.status for answer in answers(found) if answer.status != 100]
    assert all(status in {200, 204, 501} or 400 <= status < 500 for status in statuses), (request, found)
    log = server.log.read_text()
    assert SECRET not in log
    assert "Traceback" not in log
    assert server.get().status == 200
