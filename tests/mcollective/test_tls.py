"""TLS on real sockets: who is trusted, and that every wait ends (U12, B02)."""

from __future__ import annotations

import contextlib
import shutil
import socket
import ssl
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from configdb_sync.mcollective.broker import IncompatibleError, UnreachableError
from configdb_sync.mcollective.bus_settings import BusSettings, Tls
from configdb_sync.mcollective.client import BusRpc
from tests.lab.certificates import Authority, make_authority
from tests.mcollective.fake import LIMIT, PASSWORD, Peer, broker, settings
from tests.mcollective.test_broker import SOON


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed here")
    return make_authority(tmp_path_factory.mktemp("ca"), "ca")


def trusting(authority: Authority, port: int, limit: float = 30, name: str = "127.0.0.1") -> BusSettings:
    told = settings(port)
    host = replace(told.hosts[0], name=name, tls=Tls(ca=(str(authority.certificate),)))
    return replace(told, hosts=(host,), bounds=replace(told.bounds, connect=limit, attempts=1))


def patient(told: BusSettings) -> BusSettings:
    """Have it try three times."""
    return replace(told, bounds=replace(told.bounds, attempts=3))


@contextlib.contextmanager
def server(
    certificate: tuple[Path, Path], seen: list[bytes], change: Callable[[ssl.SSLContext], None] | None = None
) -> Iterator[int]:
    """Take one TLS connection and keep what comes over it; whoever comes again is left waiting."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    if change is not None:
        change(context)

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
        pytest.raises(IncompatibleError, match=r"can't be verified .*mismatch.*reach it by a name") as error,
    ):
        BusRpc(patient(trusting(authority, port))).discover(timeout=1)
    assert error.value.phase == "handshake"
    assert PASSWORD.encode() not in b"".join(seen)


def test_an_authority_that_is_not_ours_is_told_with_the_setting(authority: Authority, tmp_path: Path) -> None:
    seen: list[bytes] = []
    stranger = make_authority(tmp_path, "stranger")
    with (
        server(stranger.sign("broker", "IP:127.0.0.1"), seen) as port,
        pytest.raises(IncompatibleError, match=r"name the authority that signed it with .*pool\.N\.ssl\.ca") as error,
    ):
        BusRpc(patient(trusting(authority, port))).discover(timeout=1)
    assert "tried" not in error.value.what
    assert PASSWORD.encode() not in b"".join(seen)


def test_old_tls_is_told(authority: Authority) -> None:
    def old(context: ssl.SSLContext) -> None:
        context.set_ciphers("DEFAULT:@SECLEVEL=0")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1

    with (
        server(authority.sign("broker", "IP:127.0.0.1"), [], old) as port,
        pytest.raises(IncompatibleError, match=r"no TLS 1\.2 or later .*switch TLS 1\.2 on") as error,
    ):
        BusRpc(patient(trusting(authority, port))).discover(timeout=1)
    assert "tried" not in error.value.what


def test_a_broker_that_wants_our_certificate(authority: Authority) -> None:
    def wanting(context: ssl.SSLContext) -> None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(authority.certificate)
        # With 1.3 a server says so only after the handshake.
        context.maximum_version = ssl.TLSVersion.TLSv1_2

    with (
        server(authority.sign("broker", "IP:127.0.0.1"), [], wanting) as port,
        pytest.raises(IncompatibleError, match="certificate"),
    ):
        BusRpc(patient(trusting(authority, port))).discover(timeout=1)


def test_a_port_without_tls_is_told_and_tried_once(authority: Authority) -> None:
    def plain(peer: Peer) -> None:
        peer.sock.recv(1 << 16)
        peer.send("ERROR", {"message": "Invalid command"})

    with broker(plain) as fake:
        told = patient(trusting(authority, fake.port))
        with pytest.raises(IncompatibleError, match=r"there is no TLS with it .*with TLS or without") as error:
            BusRpc(told).discover(timeout=1)
        assert "tried" not in error.value.what


def test_a_broker_of_the_pool_that_cant_be_used_leaves_the_others(authority: Authority) -> None:
    """The first has another name's certificate: it is asked once, the second as often as set."""
    with server(authority.sign("other", "DNS:other.example.com"), []) as port:
        told = patient(trusting(authority, port))
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            away = replace(told.hosts[0], port=closed.getsockname()[1])
            with pytest.raises(UnreachableError, match=r"reach|can't be verified.*refused.*tried 3 times"):
                BusRpc(replace(told, hosts=(told.hosts[0], away))).discover(timeout=1)
