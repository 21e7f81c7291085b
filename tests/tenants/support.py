"""The running service, and requests to it as raw lines: what a client library would tidy up arrives as written."""

from __future__ import annotations

import contextlib
import io
import json
import re
import socket
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from configdb_sync.cli.main import main
from configdb_sync.tenants.rows import ChangeInfo
from tests.support import outputs
from tests.support.processes import command, environ
from tests.support.product import Result
from tests.tenants import described

LISTENS = re.compile(r"listens on http://127\.0\.0\.1:(\d+)")
ME = ChangeInfo("test", "here", "req-test", 1)


@dataclass(frozen=True)
class Reply:
    """An answer: header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def etag(self) -> str:
        return self.headers["etag"]


@dataclass
class Api:
    """One endpoint; ``token`` goes with each request unless a header ``X-Auth-Token`` is given."""

    port: int
    token: str
    host: str = "127.0.0.1"
    tls: bool = False
    proxy: str | None = None
    """What stands in front, None if nothing does."""

    @contextlib.contextmanager
    def connected(self) -> Iterator[socket.socket]:
        """Yield a connection of one's own."""
        with socket.create_connection((self.host, self.port), 30) as plain:
            if not self.tls:
                yield plain
                return
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            with context.wrap_socket(plain) as connection:
                yield connection

    def raw(self, request: bytes, *, shut: bool = False) -> Reply:
        """Send bytes on a connection of their own and return the answer."""
        answer = b""
        with self.connected() as connection:
            # Who refuses a request early may not read all of it.
            with contextlib.suppress(OSError):
                connection.sendall(request)
            if shut:
                connection.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionResetError, ssl.SSLEOFError):
                while part := connection.recv(65536):
                    answer += part
        head, _, body = answer.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        return Reply(int(first.split(" ")[1]), headers, body)

    def __call__(self, method: str, target: str, *headers: str, body: bytes | None = None, json: Any = ...) -> Reply:
        lines = [f"{method} {target} HTTP/1.1", "Host: test", "Connection: close", *headers]
        if not any(line.lower().startswith("x-auth-token:") for line in headers):
            lines.append(f"X-Auth-Token: {self.token}")
        if json is not ...:
            body = jsonlib(json)
            lines.append("Content-Type: application/json")
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        reply = self.raw("\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b""))
        if self.proxy is None:
            described.check(method, target, reply.status, reply.headers.get("content-type", ""), reply.body)
        return reply

    def get(self, target: str, *headers: str) -> Reply:
        return self("GET", target, *headers)

    def put(self, target: str, *headers: str, **options: Any) -> Reply:
        return self("PUT", target, *headers, **options)

    def post(self, target: str, *headers: str, **options: Any) -> Reply:
        return self("POST", target, *headers, **options)

    def delete(self, target: str, *headers: str) -> Reply:
        return self("DELETE", target, *headers)


def jsonlib(value: Any) -> bytes:
    return json.dumps(value).encode()


@contextlib.contextmanager
def serving(state: Path, *arguments: str, **more: str) -> Iterator[tuple[Api, subprocess.Popen[str]]]:
    """Yield the admin endpoint and the process of a running ``tenants serve``."""
    words = command("tenants", "serve", "--admin", "127.0.0.1:0", *arguments)
    process = subprocess.Popen(
        words,
        env=environ(state, **more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        found = LISTENS.search(process.stdout.readline())
        if found is None:
            process.terminate()
            raise AssertionError(process.communicate(timeout=20))
        token = state / "tenants.token"
        yield Api(int(found[1]), token.read_text().strip() if token.exists() else ""), process
    finally:
        process.terminate()
        process.communicate(timeout=30)


def called(*arguments: object) -> Result:
    """Run a command that needs no state folder."""
    out, err = io.StringIO(), io.StringIO()
    code: Any = None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([*map(str, arguments)])
        except SystemExit as end:
            code = end.code
    outputs.check([*map(str, arguments)], out.getvalue())
    return Result(int(code or 0), out.getvalue(), err.getvalue())


def public_port(process: subprocess.Popen[str]) -> int:
    """Return the port of the public endpoint, as the service says it after the admin one's token."""
    assert process.stdout is not None
    for line in process.stdout:
        found = re.search(r"public endpoint listens on http://127\.0\.0\.1:(\d+)", line)
        if found:
            return int(found[1])
    raise AssertionError("it said nothing of a public endpoint")
