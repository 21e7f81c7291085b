"""Whose certificate Nailgun has (U12): the master's own file, another authority's, and the way from http."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from configdb_sync.errors import NailgunAwayError, SettingsError, UnexpectedAnswerError
from configdb_sync.http.session import RetryPolicy
from configdb_sync.nailgun.client import NailgunClient
from configdb_sync.nailgun.connect import connect
from tests.configdb.support import timing
from tests.lab.certificates import make_authority
from tests.nailgun.conftest import make_small
from tests.support.keystone import PASSWORD, PROJECT, USER
from tests.support.nailgun import Nailgun, leading, serving

NOWHERE = Path("/nowhere/nginx.crt")


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The master's certificate and key: self-signed, in a name that it isn't reached by here."""
    return self_signed(tmp_path_factory.mktemp("master"))


def self_signed(folder: Path) -> tuple[Path, Path]:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed here")
    certificate, key = folder / "nginx.crt", folder / "nginx.key"
    command = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=fuel.example.com"]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True, timeout=60)
    return certificate, key


@pytest.fixture
def secure(master: tuple[Path, Path]) -> Iterator[Nailgun]:
    found = make_small()
    with serving(found, master):
        yield found


def ask(url: str, **options: Path | None) -> NailgunClient:
    """A client with a user of Fuel's; where Keystone is, it finds beside Nailgun."""
    environ = {"OS_USERNAME": USER, "OS_PASSWORD": PASSWORD, "OS_PROJECT_NAME": PROJECT}
    return connect(url, environ=environ, policy=RetryPolicy(attempts=1), timing=timing(), **options)  # type: ignore[arg-type]


def test_the_masters_own_certificate_is_found_and_trusted(secure: Nailgun, master: tuple[Path, Path]) -> None:
    with ask(secure.url, own_certificate=master[0]) as client:
        assert len(client.nodes(5)) == 3


def test_http_leads_to_https_and_nothing_secret_goes_the_first_way(secure: Nailgun, master: tuple[Path, Path]) -> None:
    seen: list[tuple[str, str | None]] = []
    with leading(secure.url, seen) as url, ask(url, own_certificate=master[0]) as client:
        assert len(client.nodes(5)) == 3
        client.cluster(5)
        assert client.address == secure.url
    assert seen == [("/api/version", None)]
    paths = ["/api/version", "/api/version", "/api/nodes?cluster_id=5", "/api/clusters/5"]
    assert [path for path, _ in secure.seen] == paths
    assert len(secure.keystone.logins) == 1


@pytest.mark.parametrize("path", ["/keystone", "/keystone/", "/keystone/v3", "/keystone/v2.0"])
def test_no_password_goes_to_an_http_address_that_leads_to_https(
    secure: Nailgun, master: tuple[Path, Path], path: str
) -> None:
    """Keystone is behind the same web server; that it says itself to be elsewhere, in plain http, changes nothing."""
    seen: list[tuple[str, str | None]] = []
    with leading(secure.url, seen) as url:
        environ = {**secure.login, "OS_AUTH_URL": url + path}
        with connect(url, environ=environ, own_certificate=master[0], timing=timing()) as client:
            assert len(client.nodes(5)) == 3
            assert len(client.nodes(5)) == 3
    asked = path if path.endswith(("v3", "v2.0")) else "/keystone/"
    assert seen == [("/api/version", None), (asked, None)]
    version = "v2.0" if "v2.0" in path else "v3"
    tokens = "/v2.0/tokens" if version == "v2.0" else "/v3/auth/tokens"
    assert [path for path, _ in secure.keystone.logins] == [tokens]


def test_a_keystone_that_leads_to_https_elsewhere_gets_no_password(secure: Nailgun, master: tuple[Path, Path]) -> None:
    seen: list[tuple[str, str | None]] = []
    with leading("https://elsewhere.example", seen) as keystone:
        environ = {**secure.login, "OS_AUTH_URL": f"{keystone}/v3"}
        with (
            connect(secure.url, environ=environ, own_certificate=master[0], timing=timing()) as client,
            pytest.raises(UnexpectedAnswerError, match=r"leads to https://elsewhere\.example/v3/auth.*nothing secret"),
        ):
            client.nodes(5)
    assert seen == [("/v3", None), ("/v3/auth/tokens", None)], "asked without a body"


def test_another_master_is_not_trusted(secure: Nailgun, tmp_path: Path) -> None:
    other, _ = self_signed(tmp_path)
    with ask(secure.url, own_certificate=other) as client, pytest.raises(NailgunAwayError, match="--nailgun-ca"):
        client.nodes(5)
    assert secure.seen == []


def test_without_any_authority_it_is_not_trusted(secure: Nailgun) -> None:
    with ask(secure.url, own_certificate=NOWHERE) as client, pytest.raises(NailgunAwayError, match="certificate"):
        client.nodes(5)


def test_an_authority_that_was_named_must_have_signed_the_right_name(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed here")
    authority = make_authority(tmp_path, "authority")
    right, wrong = authority.sign("right", "IP:127.0.0.1"), authority.sign("wrong", "DNS:elsewhere.example")
    for pair, trusted in ((right, True), (wrong, False)):
        with serving(make_small(), pair) as url, ask(url, ca_file=authority.certificate) as client:
            if trusted:
                assert len(client.nodes(5)) == 3
            else:
                with pytest.raises(NailgunAwayError, match="certificate"):
                    client.nodes(5)


def test_an_authority_file_that_is_not_there_is_a_wrong_setting() -> None:
    with pytest.raises(SettingsError, match="--nailgun-ca"):
        connect("https://master:8443", environ={}, ca_file=NOWHERE)
