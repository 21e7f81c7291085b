"""TLS on real sockets: who is trusted, and that every wait ends (U12, B02)."""

from __future__ import annotations

import contextlib
import shutil
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from configdb_sync.mcollective.faults import UnreachableError
from configdb_sync.mcollective.rpc import BusRpc
from configdb_sync.mcollective.settings import BusSettings, Tls
from tests.lab.certificates import Authority, make_authority
from tests.mcollective.fake import LIMIT, PASSWORD, Peer, broker, settings
from tests.mcollective.test_link import SOON


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed here")
    return make_authority(tmp_path_factory.mktemp("ca"), "ca")


def trusting(authority: Authority, port: int, limit: float = 30, name: str = "127.0.0.1") -> BusSettings:
    told = settings(port)
    host = replace(told.hosts[0], name=name, tls=Tls(ca=(str(authority.certificate),)))
    return replace(told, hosts=(host,), bounds=replace(told.bounds, connect=limit, attempts=1))


@contextlib.contextmanager
def server(certificate: tuple[Path, Path], seen: list[bytes]) -> Iterator[int]:
    """Take one TLS connection and keep what comes over it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)

    def serve(listener: socket.socket) -> None:
        sock, _ = listener.accept()
        sock.settimeout(LIMIT)
        with sock, contextlib.suppress(OSError), context.wrap_socket(sock, server_side=True) as secured:
            seen.append(secured.recv(1 << 16))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        yield listener.getsockname()[1]
        thread.join(LIMIT)


def test_a_listener_that_stays_silent_where_tls_is_due(authority: Authority) -> None:
    """B02: the limit holds for the handshake of TLS too."""

    def silent(peer: Peer) -> None:
        while peer.sock.recv(1 << 16):
            pass

    with broker(silent) as fake:
        start = time.monotonic()
        with pytest.raises(UnreachableError, match="no answer within 1 s") as error:
            BusRpc(trusting(authority, fake.port, limit=1)).discover(timeout=1)
        assert time.monotonic() - start < SOON
    assert error.value.phase == "handshake"


def test_a_certificate_for_another_name_is_not_trusted(authority: Authority) -> None:
    seen: list[bytes] = []
    with (
        server(authority.sign("other", "DNS:other.example.com"), seen) as port,
        pytest.raises(UnreachableError, match="isn't trusted") as error,
    ):
        BusRpc(trusting(authority, port)).discover(timeout=1)
    assert error.value.phase == "handshake"
    assert PASSWORD.encode() not in b"".join(seen)


def test_the_right_certificate_is_trusted_and_only_then_is_the_password_sent(authority: Authority) -> None:
    seen: list[bytes] = []
    with server(authority.sign("right", "IP:127.0.0.1"), seen) as port, pytest.raises(UnreachableError) as error:
        BusRpc(trusting(authority, port)).discover(timeout=1)
    # It hangs up after it has seen the login.
    assert PASSWORD.encode() in seen[0]
    assert "closed the connection" in str(error.value) or "broke" in str(error.value)


def test_certificates_of_our_own_that_cannot_be_used_are_named(authority: Authority) -> None:
    with broker(lambda peer: None) as fake:
        told = trusting(authority, fake.port)
        for tls in (
            Tls(cert="/nonexistent/cert.pem"),
            Tls(cert=str(authority.certificate), key="/nonexistent/key.pem"),
            Tls(ca=(str(authority.folder / "ca.key"),)),
            Tls(ciphers="NO-SUCH-CIPHER"),
        ):
            with pytest.raises(UnreachableError) as error:
                BusRpc(replace(told, hosts=(replace(told.hosts[0], tls=tls),))).discover(timeout=1)
            assert error.value.phase == "handshake"
