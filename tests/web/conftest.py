"""Both services, plain and with TLS."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.web.servers import KINDS, Server, serving


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("certificate")
    found = folder / "cert.pem", folder / "key.pem"
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    words += ["-out", str(found[0]), "-keyout", str(found[1])]
    subprocess.run(words, check=True, capture_output=True, timeout=60)
    return found


@pytest.fixture(scope="module", params=[(kind, tls) for kind in KINDS for tls in (False, True)], ids=str)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, certificate: tuple[Path, Path]
) -> Iterator[Server]:
    kind, tls = request.param
    with serving(kind, tmp_path_factory.mktemp("server"), certificate if tls else None) as found:
        yield found
