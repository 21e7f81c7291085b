"""Both services as processes, and connections to them as raw bytes."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.processes import environ

KINDS = ("configdb", "tenants")
GRACE = 3.0
WAIT = 30.0
_RUN = f"""
from configdb_sync.web import connections
connections.PATIENCE = connections.Patience(grace={GRACE}, linger=1.0)
from configdb_sync.cli.main import main
main()
"""
_ARGUMENTS = {
    "configdb": ("configdb", "serve", "--listen", "127.0.0.1:0", "--workers", "1"),
    "tenants": ("tenants", "serve", "--admin", "127.0.0.1:0", "--workers", "1", "--drivers", "none"),
}
_LISTENS = re.compile(r"listens on https?://127\.0\.0\.1:(\d+)")


@dataclass(frozen=True)
class Answer:
    """An answer; header names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Server:
    """One running service."""

    kind: str
    port: int
    tls: bool
    log: Path
    token: str

    @property
    def path(self) -> str:
        """A resource that needs a token."""
        return "/components" if self.kind == "configdb" else "/v1.0"

    def plain(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), WAIT)

    def connect(self) -> socket.socket:
        plain = self.plain()
        if not self.tls:
            return plain
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context.wrap_socket(plain)

    def exchange(self, request: bytes) -> bytes:
        """Return all that comes for these bytes, up to the server's end."""
        found = b""
        with self.connect() as connection:
            with contextlib.suppress(OSError):
                connection.sendall(request)
            with contextlib.suppress(ConnectionResetError, ssl.SSLError):
                while part := connection.recv(65536):
                    found += part
        return found

    def get(self, *headers: str, method: str = "GET", body: bytes = b"") -> Answer:
        lines = [f"{method} {self.path} HTTP/1.1", "Host: x", "Connection: close", f"X-Auth-Token: {self.token}"]
        found = answers(self.exchange("\r\n".join([*lines, *headers, "", ""]).encode("latin-1") + body))
        assert len(found) == 1
        return found[0]

    def check_refused(self, answer: Answer) -> None:
        """Check that an error has the API's own form."""
        assert answer.headers["content-type"] == "application/json"
        if self.kind == "configdb":
            assert answer.headers["server-product"].startswith("configdb-sync/")
            assert answer.json["status"] == answer.status
        else:
            error = answer.json["error"]
            assert error["code"] == answer.status
            assert error["request_id"] == answer.headers["x-openstack-request-id"]


def answers(content: bytes) -> list[Answer]:
    """Return the answers that stand one after the other."""
    found = []
    while content:
        head, _, content = content.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        size = int(headers.get("content-length", "0"))
        found.append(Answer(int(first.split(" ")[1]), headers, content[:size]))
        content = content[size:]
    return found


@contextlib.contextmanager
def serving(kind: str, folder: Path, certificate: tuple[Path, Path] | None, *arguments: str) -> Iterator[Server]:
    """Yield a running service, that waits for slow clients ``GRACE`` seconds."""
    state, log = folder / "state", folder / "log"
    words = [sys.executable, "-c", _RUN, *_ARGUMENTS[kind], *arguments]
    if certificate is not None:
        words += ["--tls-cert", str(certificate[0]), "--tls-key", str(certificate[1])]
    with log.open("w") as file:
        process = subprocess.Popen(words, env=environ(state), stdout=subprocess.PIPE, stderr=file, text=True)
        try:
            assert process.stdout is not None
            found = _LISTENS.search(process.stdout.readline())
            assert found is not None, log.read_text()
            token = (state / f"{kind}.token").read_text().strip()
            yield Server(kind, int(found[1]), certificate is not None, log, token)
        finally:
            process.terminate()
            process.communicate(timeout=WAIT)
