"""U12, U15: a certificate is verified, by the authority that is set, for the name that was asked."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hiera_backend.backend import Driver
from tests.hiera_backend.servers import Server, serving_threads
from tests.hiera_backend.test_lookup import EXPECTED, Node
from tests.lab.certificates import Authority, make_authority
from tests.nailgun.test_tls import self_signed


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    folder = tmp_path_factory.mktemp("authority")
    self_signed(folder)  # skips where there is no openssl
    return make_authority(folder, "authority")


@pytest.fixture
def secure(authority: Authority, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Server]:
    name = getattr(request, "param", "IP:127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.sign(name.replace(":", "-"), name))
    with serving_threads(tmp_path / "configdb.sqlite", ssl_context=context) as found:
        yield found


def test_the_authority_that_is_set_is_trusted(
    ruby: Driver, secure: Server, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(authority.certificate))
    secure.fill()
    node = Node(ruby, tmp_path / "n", url=secure.url, ca_file=str(authority.certificate))
    assert node.data() == EXPECTED
    # Said in so many words, it isn't verified.
    assert Node(ruby, tmp_path / "insecure", url=secure.url, insecure=True).data() == EXPECTED


def test_another_authority_is_not(ruby: Driver, secure: Server, tmp_path: Path) -> None:
    answer = Node(ruby, tmp_path / "n", url=secure.url).asked()
    assert answer["error"] == "AwayError"
    assert "can't be trusted" in answer["text"]
    assert "certificate verify failed" in answer["text"]
    assert secure.asked == []


@pytest.mark.parametrize("secure", ["DNS:elsewhere.example"], indirect=True)
def test_nor_a_certificate_for_another_name(ruby: Driver, secure: Server, authority: Authority, tmp_path: Path) -> None:
    answer = Node(ruby, tmp_path / "n", url=secure.url, ca_file=str(authority.certificate)).asked()
    assert answer["error"] == "AwayError"
    assert "can't be trusted" in answer["text"]
    assert secure.asked == []


def test_a_server_without_tls_is_told(ruby: Driver, server: Server, tmp_path: Path) -> None:
    answer = Node(ruby, tmp_path / "n", url=server.url.replace("http:", "https:")).asked()
    assert answer["error"] == "AwayError"
    assert "speaks no TLS" in answer["text"] or "can't be asked" in answer["text"]
