"""What must hold before the service listens (T1, T12), and its check of the way to it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from configdb_sync.errors import SettingsError
from configdb_sync.tenants.proxy_check import probe
from configdb_sync.tenants.service import TenantsService, check
from configdb_sync.web.access import OpenAccess
from configdb_sync.web.service import GunicornOptions, Listen
from tests.support.product import Product
from tests.tenants.support import serving


def service(admin: Listen, public: Listen | None = None, **options: Any) -> TenantsService:
    return TenantsService(admin, OpenAccess, "sqlite:///x", public=public, **options)


@pytest.mark.parametrize(
    ("told", "what"),
    [
        (service(Listen("0.0.0.0", 1)), "in clear"),
        (service(Listen("127.0.0.1", 1), Listen("10.0.0.1", 2)), "in clear"),
        (service(Listen("127.0.0.1", 1), Listen("127.0.0.2", 1)), "the same port"),
        (service(Listen("127.0.0.1", 1), unguarded=True, transport=GunicornOptions(behind_proxy=True)), "--auth none"),
        (
            service(Listen("127.0.0.1", 1), transport=GunicornOptions(certificate=Path("x"))),
            "both a certificate and a key",
        ),
    ],
)
def test_what_may_not_listen(told: TenantsService, what: str) -> None:
    with pytest.raises(SettingsError, match=what):
        check(told)


@contextmanager
def answering(answer: bytes) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def run() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

        thread = threading.Thread(target=run)
        thread.start()
        yield server.getsockname()[1]
        thread.join(20)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 404 Not Found\r\n\r\n",
        b"HTTP/1.1 400 Bad Request\r\n\r\n<html>nginx</html>",
        b"HTTP/1.1 200 OK\r\n\r\n{}",
        b"",
    ],
)
def test_a_way_that_decodes_targets_is_told(answer: bytes) -> None:
    """Case T02: only the service's own 400 shows that an encoded slash arrives as one."""
    with answering(answer) as port:
        assert "not with the service's own 400" in str(probe("127.0.0.1", port, tls=False))
    with answering(answer) as port:
        told = Product(Path("/nonexistent"))("tenants", "check", f"http://127.0.0.1:{port}")
        assert (told.code, "docs/tenants.md" in told.err) == (2, True)


def test_the_running_service_passes(tmp_path: Path) -> None:
    with serving(tmp_path / "state") as (api, process):
        told = Product(tmp_path / "state")("tenants", "check", f"http://127.0.0.1:{api.port}")
        assert (told.code, told.out) == (0, f"http://127.0.0.1:{api.port}: request targets arrive as they are sent\n")
        assert api.get("/healthz", "X-Auth-Token: ").json == {"status": "ok"}
        assert api.get("/openapi.json", "X-Auth-Token: ").json["openapi"] == "3.1.0"
        assert b"TenantID" in api.get("/application.wadl", "X-Auth-Token: ").body
        token = tmp_path / "state/tenants.token"
        assert token.stat().st_mode & 0o777 == 0o600
        process.terminate()
        out, err = process.communicate(timeout=30)
        assert (process.returncode, err) == (0, "")
        assert token.read_text().strip() not in out
