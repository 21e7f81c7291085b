"""The way over HTTP: TLS (S15, U12), kept connections, proxies."""

from __future__ import annotations

import contextlib
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from configdb_sync.configdb.connect import connect
from configdb_sync.errors import ConnectionLostError, SettingsError, TLSError
from configdb_sync.http.session import RetryPolicy
from configdb_sync.http.transport import TransferLimits
from tests.configdb.support import timing


class Handler(BaseHTTPRequestHandler):
    """Answers every GET with an empty list."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.server.seen.append((self.client_address[1], self.headers.get("X-Auth-Token")))  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "2")
        self.send_header("Set-Cookie", "a=b")
        self.end_headers()
        self.wfile.write(b"[]")

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def serving(context: ssl.SSLContext | None = None) -> Iterator[tuple[int, list[tuple[int, str]]]]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.seen = []  # type: ignore[attr-defined]
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server.server_port, server.seen  # type: ignore[attr-defined]
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A self-signed certificate for 127.0.0.1 and its key."""
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("openssl is not installed here")
    folder = tmp_path_factory.mktemp("tls")
    command = [program, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=configdb"]
    command += ["-keyout", str(folder / "key"), "-out", str(folder / "cert"), "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return folder / "cert", folder / "key"


@pytest.fixture
def secure(certificate: tuple[Path, Path]) -> Iterator[tuple[str, list[tuple[int, str]]]]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    with serving(context) as (port, seen):
        yield f"https://127.0.0.1:{port}", seen


def test_an_unknown_authority_stops_it_before_the_token_is_sent(secure: tuple[str, list[tuple[int, str]]]) -> None:
    """S15."""
    url, seen = secure
    with connect(url, token="CANARY", timing=timing()) as client:
        with pytest.raises(TLSError, match="certificate can't be verified"):
            client.components()
        assert seen == []


def test_the_named_authority_is_used(secure: tuple[str, list[tuple[int, str]]], certificate: tuple[Path, Path]) -> None:
    url, seen = secure
    with connect(url, token="CANARY", ca_file=certificate[0]) as client:
        assert client.components() == []
    assert [token for _, token in seen] == ["CANARY"]


def test_a_name_that_is_not_the_certificates_is_refused(
    secure: tuple[str, list[tuple[int, str]]], certificate: tuple[Path, Path]
) -> None:
    url = secure[0].replace("127.0.0.1", "localhost")
    with connect(url, ca_file=certificate[0]) as client, pytest.raises(TLSError):
        client.components()


def test_verification_is_turned_off_only_when_asked(secure: tuple[str, list[tuple[int, str]]]) -> None:
    """U12."""
    with connect(secure[0], insecure=True) as client:
        assert client.components() == []


def test_plain_text_is_refused_where_tls_is_required() -> None:
    """S15."""
    with pytest.raises(SettingsError, match="not https"):
        connect("http://configdb.example", token="x", require_tls=True)
    connect("http://127.0.0.1:1", token="x", require_tls=True).close()
    with pytest.raises(SettingsError, match="isn't there"):
        connect("https://configdb.example", ca_file=Path("/nonexistent/ca.pem"))


def test_https_to_a_server_without_tls_is_a_clear_error() -> None:
    with serving() as (port, seen):
        policy = RetryPolicy(attempts=1)
        limits = TransferLimits(connect=2, read=2, total=3)
        with (
            connect(f"https://127.0.0.1:{port}", token="CANARY", policy=policy, limits=limits) as client,
            pytest.raises((TLSError, ConnectionLostError)),
        ):
            client.components()
        assert seen == []


def test_connections_are_kept_and_cookies_are_not() -> None:
    with serving() as (port, seen), connect(f"http://127.0.0.1:{port}", workers=2) as client:
        for _ in range(5):
            client.components()
        assert len({source for source, _ in seen}) == 1
        threads = [threading.Thread(target=client.components) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(seen) == 13


def test_loopback_is_reached_without_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    with serving() as (port, _), connect(f"http://127.0.0.1:{port}") as client:
        assert client.components() == []
